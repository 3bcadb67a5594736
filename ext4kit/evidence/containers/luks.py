"""LUKS 1 and 2, unlocked with the analyst's passphrases or key files.

This module is used instead of libluksde, which does not support LUKS 2 and reads about 60 MB/s.
"""

from __future__ import annotations

import hashlib
import hmac

from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, Ext4kitError, UnsupportedError
from ext4kit.evidence.containers.ciphers import UNIT, Decrypt, make_decrypt
from ext4kit.evidence.containers.keys import Keys, hash_name
from ext4kit.evidence.containers.pieces import ChunkCache, ChunkedSource
from ext4kit.evidence.lost import merge_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, Window, peek
from ext4kit.parsers.luks import (
    HEADER_1,
    MOST_HEADER_2,
    SECOND_OFFSETS,
    LuksHeader,
    Slot,
    header_size,
    parse_luks1,
    parse_luks2,
)
from ext4kit.problems import Problems

_PIECE = 64 << 10
_AT_ONCE = 4 << 20


class LuksVolume(ChunkedSource):
    """The decrypted payload of a LUKS volume.

    Args:
        payload: the encrypted bytes of the volume, in whole sectors.
        header: header of the volume.
        decrypt: decryption function with the volume key.
    """

    def __init__(self, payload: Window, header: LuksHeader, decrypt: Decrypt) -> None:
        whole = payload.size - payload.size % header.sector
        super().__init__(payload.name, whole, _PIECE, Problems())
        self._payload, self._decrypt = payload, decrypt
        self._tweak = header.tweak
        self._kept = ChunkCache()

    def unreadable(self) -> Int64s:
        """(first byte, end) of ranges of chunks that are known as unreadable in the payload."""
        table = merge_ranges(unreadable_ranges(self._payload), super().unreadable())
        table[:, 0] -= table[:, 0] % _PIECE
        table[:, 1] += -table[:, 1] % _PIECE
        return merge_ranges(table, most=self.size)

    def stored_at(self, offset: int) -> tuple[Source, int]:
        """(encrypted volume, offset of a byte in it); a sector is only encrypted as a whole."""
        return self._payload.source, self._payload.offset + offset

    def _load(self, index: int, wanted: int) -> memoryview:
        return self._kept.get(index, lambda at: self._plain(at * _PIECE, wanted))

    def _plain(self, offset: int, length: int) -> memoryview:
        data = self._payload.read(offset, length)
        return self._decrypt(data, self._tweak + offset // UNIT)

    def _joined(self, offset: int, length: int, first: int, last: int) -> memoryview:
        """The bytes of a range; long ranges are decrypted in long runs."""
        start, end = first * _PIECE, min((last + 1) * _PIECE, self.size)
        steps = range(start, end, _AT_ONCE)
        parts = [self._plain(at, min(_AT_ONCE, end - at)) for at in steps]
        whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        return whole[offset - start : offset - start + length]


def unlock(volume: Source, keys: Keys) -> LuksVolume | None:
    """The decrypted bytes of a LUKS volume.

    A key slot that cannot be tried does not hide the others.

    Returns:
        None if no passphrase or key opens it.

    Raises:
        AccessError: the header or a key slot cannot be read, or deriving a key exceeds the limits.
        CorruptError: the header and its copy are damaged.
        UnsupportedError: a cipher, a hash or a key derivation function is not supported.
    """
    header = _header(volume)
    size = header.size if header.size >= 0 else volume.size - header.offset
    failure: Ext4kitError | None = None
    for phrase in keys.phrases:
        for slot in header.slots:
            try:
                key = _volume_key(volume, slot, phrase, keys)
            except (AccessError, UnsupportedError) as error:
                failure = failure or type(error)(f"key slot {slot.name}: {error}")
                continue
            if key is not None:
                decrypt = make_decrypt(header.cipher, key, header.sector)
                return LuksVolume(Window(volume, header.offset, max(0, size)), header, decrypt)
    if failure is not None:
        raise failure
    return None


def _header(volume: Source) -> LuksHeader:
    start = peek(volume, 0, HEADER_1.size)
    if start[6:8] == b"\0\1":
        return parse_luks1(start)
    failure = CorruptError("LUKS2 header", 0, "is damaged, and so is its copy")
    for offset in (0, *SECOND_OFFSETS):
        size = header_size(peek(volume, offset, HEADER_1.size))
        if not 0 < size <= MOST_HEADER_2:
            continue
        try:
            return parse_luks2(peek(volume, offset, size))
        except CorruptError as error:
            failure = error
    raise failure


def _volume_key(volume: Source, slot: Slot, phrase: bytes, keys: Keys) -> bytes | None:
    """The volume key in a slot, or None if this passphrase does not open it."""
    make_decrypt(slot.cipher, bytes(slot.cipher_bytes), UNIT)  # refuse unknown ciphers first
    derived = keys.derive(slot.derivation, phrase, slot.cipher_bytes)
    length = slot.key_bytes * slot.stripes
    stored = volume.read(slot.offset, -(-length // UNIT) * UNIT)
    split = make_decrypt(slot.cipher, derived, UNIT)(stored, 0)[:length]
    key = _merged(bytes(split), slot)
    wanted = slot.digest.value
    digest = keys.derive(slot.digest.derivation, key, len(wanted))
    return key if hmac.compare_digest(digest, wanted) else None


def _merged(split: bytes, slot: Slot) -> bytes:
    """The key from its anti-forensic stripes, all of which are needed."""
    size, name = slot.key_bytes, hash_name(slot.hash)
    state = 0
    for at in range(0, len(split) - size, size):
        mixed = (state ^ int.from_bytes(split[at : at + size], "big")).to_bytes(size, "big")
        state = int.from_bytes(_diffused(mixed, name), "big")
    return (state ^ int.from_bytes(split[-size:], "big")).to_bytes(size, "big")


def _diffused(data: bytes, name: str) -> bytes:
    step = hashlib.new(name).digest_size
    return b"".join(
        hashlib.new(name, number.to_bytes(4, "big") + data[at : at + step]).digest()[
            : len(data) - at
        ]
        for number, at in enumerate(range(0, len(data), step))
    )
