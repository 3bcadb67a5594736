"""LUKS 1 and 2: slots, digests and the encrypted payload as their headers describe them.

Sources: "LUKS1 On-Disk Format Specification" 1.2.3 and "LUKS2 On-Disk Format Specification" 1.1.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Array, Bytes, Int16ub, Int32ub, Int64ub, Struct
from ext4kit.units import SECTOR

SLOT_1 = Struct(
    "active" / Int32ub,
    "iterations" / Int32ub,
    "salt" / Bytes(32),
    "key_material_offset" / Int32ub,  # sectors
    "stripes" / Int32ub,
)
HEADER_1 = Layout(
    "LUKS1 header",
    Struct(
        "magic" / Bytes(6),
        "version" / Int16ub,
        "cipher_name" / Bytes(32),
        "cipher_mode" / Bytes(32),
        "hash_spec" / Bytes(32),
        "payload_offset" / Int32ub,  # sectors
        "key_bytes" / Int32ub,
        "mk_digest" / Bytes(20),
        "mk_digest_salt" / Bytes(32),
        "mk_digest_iterations" / Int32ub,
        "uuid" / Bytes(40),
        "slots" / Array(8, SLOT_1),
    ),
)
HEADER_2 = Layout(
    "LUKS2 header",
    Struct(
        "magic" / Bytes(6),
        "version" / Int16ub,
        "header_size" / Int64ub,  # including the JSON area
        "sequence" / Int64ub,
        "label" / Bytes(48),
        "checksum_algorithm" / Bytes(32),
        "salt" / Bytes(64),
        "uuid" / Bytes(40),
        "subsystem" / Bytes(48),
        "header_offset" / Int64ub,
        "padding" / Bytes(184),
        "checksum" / Bytes(64),  # of the binary and the JSON area, with zeros here
    ),
)
BINARY_2 = 4096
MAGICS = (b"LUKS\xba\xbe", b"SKUL\xba\xbe")  # the first header and LUKS2's second
SECOND_OFFSETS = tuple(0x4000 << power for power in range(9))
MOST_HEADER_2 = 4 << 20
_ACTIVE = 0x00AC71F3
_MOST_SLOTS = 32  # as in cryptsetup
_MOST_KEY = 1024
_MOST_STRIPES = 1 << 13  # cryptsetup has always written 4,000
_MOST_DIGEST = 64  # bytes
_MOST_COST = (1 << 32) - 1  # iterations, or KiB; the opener limits the actual cost
_MOST_LANES = 64
_LEAST_SALT = 8  # bytes; this and the memory per lane are from RFC 9106
_LEAST_MEMORY = 8  # KiB
_MOST_OFFSET = 1 << 62
_SHOWN = 40  # characters of a wrong value

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Derivation:
    """Parameters of the key derivation: "pbkdf2", "argon2i" or "argon2id".

    Attributes:
        iterations: iterations of PBKDF2, passes of Argon2.
        memory: KiB; this and `lanes` are for Argon2 only.
    """

    kind: str
    salt: bytes
    iterations: int
    hash: str = ""
    memory: int = 0
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest that verifies a volume key."""

    value: bytes
    derivation: Derivation


@dataclass(frozen=True, slots=True)
class Slot:
    """A key slot, which gives the volume key for a passphrase.

    Attributes:
        name: number of the slot.
        key_bytes: bytes of the volume key.
        offset: byte offset of the key material, which has key_bytes * stripes bytes.
        cipher: cipher of the key material, "aes-xts-plain64".
        cipher_bytes: key size of that cipher in bytes.
        hash: hash of the anti-forensic splitter.
    """

    name: str
    key_bytes: int
    offset: int
    stripes: int
    cipher: str
    cipher_bytes: int
    hash: str
    derivation: Derivation
    digest: Digest


@dataclass(frozen=True, slots=True)
class LuksHeader:
    """The values that are needed to unlock and read a volume.

    Attributes:
        offset: byte offset of the encrypted payload.
        size: bytes of the payload; -1 means up to the end of the volume.
        cipher: "aes-xts-plain64" ...
        sector: bytes that are encrypted together.
        tweak: number of the first sector, in units of 512 bytes.
    """

    version: int
    offset: int
    size: int
    cipher: str
    sector: int
    tweak: int
    slots: tuple[Slot, ...]


def parse_luks1(data: Buffer) -> LuksHeader:
    """The header of a LUKS1 volume.

    Raises:
        CorruptError: a value is out of bounds.
    """
    found = HEADER_1.parse(data)
    cipher = f"{_text(found.cipher_name)}-{_text(found.cipher_mode)}"
    name, key_bytes = _text(found.hash_spec), int(found.key_bytes)
    check = Derivation("pbkdf2", found.mk_digest_salt, int(found.mk_digest_iterations), name)
    digest = Digest(found.mk_digest, check)
    slots = tuple(
        _bounded(
            Slot(
                str(number),
                key_bytes,
                int(slot.key_material_offset) * SECTOR,
                int(slot.stripes),
                cipher,
                key_bytes,
                name,
                Derivation("pbkdf2", slot.salt, int(slot.iterations), name),
                digest,
            )
        )
        for number, slot in enumerate(found.slots)
        if slot.active == _ACTIVE
    )
    return LuksHeader(1, int(found.payload_offset) * SECTOR, -1, cipher, SECTOR, 0, slots)


def header_size(data: Buffer) -> int:
    """Bytes of the LUKS2 header at the start of `data`, including its JSON area; 0 without one."""
    if len(data) < HEADER_2.size or bytes(data[:6]) not in MAGICS:
        return 0
    size = int(HEADER_2.parse(data).header_size)
    return size if BINARY_2 < size <= MOST_HEADER_2 else 0


def parse_luks2(data: Buffer) -> LuksHeader:
    """A header of a LUKS2 volume.

    Args:
        data: all `header_size` bytes of the header.

    Raises:
        CorruptError: the checksum is wrong, or a value is not possible.
    """
    found = HEADER_2.parse(data)
    at = HEADER_2.offset_of("checksum")
    blank = bytes(data[:at]) + bytes(64) + bytes(data[at + 64 :])
    if _text(found.checksum_algorithm) != "sha256":
        raise CorruptError(HEADER_2.name, 0, "its checksum is of an unknown kind")
    if hashlib.sha256(blank).digest() != found.checksum[:32]:
        raise CorruptError(HEADER_2.name, 0, "its checksum is wrong")
    try:
        return _from_json(json.loads(bytes(data[BINARY_2:]).split(b"\0", 1)[0]))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        said = str(error) if isinstance(error, ValueError) else "a value of the wrong kind"
        said = f"{error} is missing" if isinstance(error, KeyError) else said
        raise CorruptError(HEADER_2.name, 0, f"its JSON is not understood: {said}") from error


def _from_json(facts: Facts) -> LuksHeader:
    segments = sorted(facts["segments"].items())
    name, segment = segments[0] if len(segments) == 1 else ("", {"type": "several segments"})
    if segment["type"] != "crypt" or "integrity" in segment:
        raise ValueError("a payload in several segments or with integrity tags")
    digests = [each for each in facts["digests"].values() if name in each["segments"]]
    if not digests:
        raise ValueError("no digest of the payload's key")
    slots = tuple(_slots_2(facts["keyslots"], digests[0]))
    size = -1 if segment["size"] == "dynamic" else _number(segment, "size", 1, _MOST_OFFSET)
    sector = _number(segment, "sector_size", SECTOR, 4096)
    if sector.bit_count() != 1:
        raise ValueError(f"sectors of {sector} bytes")
    offset = _number(segment, "offset", 0, _MOST_OFFSET)
    tweak = _number(segment, "iv_tweak", 0, _MOST_OFFSET)
    return LuksHeader(2, offset, size, str(segment["encryption"]), sector, tweak, slots)


def _slots_2(slots: Facts, digest: Facts) -> Iterator[Slot]:
    check = Digest(_base64(digest, "digest"), _derivation(digest))
    for name in digest["keyslots"]:
        slot = slots[name]
        if slot["type"] != "luks2":
            continue
        area, splitter = slot["area"], slot["af"]
        yield _bounded(
            Slot(
                str(name),
                _number(slot, "key_size", 1, _MOST_KEY),
                _number(area, "offset", 0, _MOST_OFFSET),
                _number(splitter, "stripes", 1, _MOST_STRIPES),
                str(area["encryption"]),
                _number(area, "key_size", 1, _MOST_KEY),
                str(splitter["hash"]),
                _derivation(slot["kdf"]),
                check,
            )
        )


def _derivation(facts: Facts) -> Derivation:
    kind, salt = str(facts["type"]), _base64(facts, "salt")
    if kind == "pbkdf2":
        iterations = _number(facts, "iterations", 1, _MOST_COST)
        return Derivation(kind, salt, iterations, str(facts["hash"]))
    if len(salt) < _LEAST_SALT:
        raise ValueError(f"a salt of {len(salt)} bytes")
    lanes = _number(facts, "cpus", 1, _MOST_LANES)
    memory = _number(facts, "memory", lanes * _LEAST_MEMORY, _MOST_COST)
    return Derivation(kind, salt, _number(facts, "time", 1, _MOST_COST), "", memory, lanes)


def _number(facts: Facts, name: str, least: int, most: int) -> int:
    """A number of the JSON area, in which 64-bit numbers are decimal strings."""
    value = facts[name]
    text = "" if isinstance(value, bool) else str(value)[:_SHOWN]
    number = int(text) if text.isascii() and text.isdecimal() else -1
    if not least <= number <= most:
        raise ValueError(f"{name} is {text or value}, not a number from {least:,} to {most:,}")
    return number


def _bounded(slot: Slot) -> Slot:
    """The slot, if its sizes and counts are possible.

    Raises:
        CorruptError: a size or count is not possible.
    """
    for name, value, most in (
        ("bytes of a key", slot.key_bytes, _MOST_KEY),
        ("stripes", slot.stripes, _MOST_STRIPES),
        ("iterations", slot.derivation.iterations, _MOST_COST),
        ("iterations of the digest", slot.digest.derivation.iterations, _MOST_COST),
        ("bytes of a digest", len(slot.digest.value), _MOST_DIGEST),
    ):
        if not 0 < value <= most:
            raise CorruptError(f"LUKS key slot {slot.name}", None, f"{value:,} {name}")
    return slot


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("ascii", "backslashreplace")


def _base64(facts: Facts, name: str) -> bytes:
    try:
        return base64.b64decode(facts[name], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is not base64") from error
