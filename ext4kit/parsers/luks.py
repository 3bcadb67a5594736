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

SECTOR = 512
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
        "header_size" / Int64ub,  # the JSON area included
        "sequence" / Int64ub,
        "label" / Bytes(48),
        "checksum_algorithm" / Bytes(32),
        "salt" / Bytes(64),
        "uuid" / Bytes(40),
        "subsystem" / Bytes(48),
        "header_offset" / Int64ub,
        "padding" / Bytes(184),
        "checksum" / Bytes(64),  # of the binary and the JSON area, zeros in this place
    ),
)
BINARY_2 = 4096
MAGICS = (b"LUKS\xba\xbe", b"SKUL\xba\xbe")  # the first header and LUKS2's second
SECOND_OFFSETS = tuple(0x4000 << power for power in range(9))
MOST_HEADER_2 = 4 << 20
_ACTIVE = 0x00AC71F3
_MOST_KEY = 1024
_MOST_STRIPES = 1 << 16
_MOST_ITERATIONS = 1 << 31
_MOST_MEMORY = 4 << 20  # KiB
_MOST_LANES = 64


@dataclass(frozen=True, slots=True)
class Derivation:
    """Parameters of the key derivation: "pbkdf2", "argon2i" or "argon2id".

    Attributes:
        iterations: iterations of PBKDF2, passes of Argon2.
        memory: KiB; like `lanes`, for Argon2 only.
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
        cipher_bytes: bytes of the key of that cipher.
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
        size: its bytes; -1 means up to the end of the volume.
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
    """Size of the LUKS2 header at the start of `data` in bytes, with its JSON; 0 without one."""
    if len(data) < HEADER_2.size or bytes(data[:6]) not in MAGICS:
        return 0
    size = int(HEADER_2.parse(data).header_size)
    return size if BINARY_2 < size <= MOST_HEADER_2 else 0


def parse_luks2(data: Buffer) -> LuksHeader:
    """A header of a LUKS2 volume.

    Args:
        data: all `header_size` bytes of the header.

    Raises:
        CorruptError: its checksum is wrong, or its values are not possible.
    """
    found = HEADER_2.parse(data)
    at = HEADER_2.offset_of("checksum")
    blank = bytes(data[:at]) + bytes(64) + bytes(data[at + 64 :])
    if _text(found.checksum_algorithm) != "sha256":
        raise CorruptError(HEADER_2.name, 0, "its checksum is of an unknown kind")
    if hashlib.sha256(blank).digest() != found.checksum[:32]:
        raise CorruptError(HEADER_2.name, 0, "its checksum is wrong")
    try:
        facts = json.loads(bytes(data[BINARY_2:]).split(b"\0", 1)[0])
        return _from_json(facts)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(HEADER_2.name, 0, f"its JSON is not understood: {error}") from error


def _from_json(facts: dict[str, Any]) -> LuksHeader:
    segments = sorted(facts["segments"].items())
    name, segment = segments[0]
    if len(segments) != 1 or segment["type"] != "crypt" or "integrity" in segment:
        raise ValueError("a payload in several segments or with integrity tags")
    digest = next(each for each in facts["digests"].values() if name in each["segments"])
    slots = tuple(_slots_2(facts["keyslots"], digest))
    size = -1 if segment["size"] == "dynamic" else int(segment["size"])
    sector = int(segment["sector_size"])
    if sector not in (512, 1024, 2048, 4096):
        raise ValueError(f"sectors of {sector} bytes")
    offset, cipher = int(segment["offset"]), str(segment["encryption"])
    return LuksHeader(2, offset, size, cipher, sector, int(segment["iv_tweak"]), slots)


def _slots_2(slots: dict[str, Any], digest: dict[str, Any]) -> Iterator[Slot]:
    check = Digest(_base64(digest["digest"]), _derivation(digest))
    for name in digest["keyslots"]:
        slot = slots[name]
        if slot["type"] != "luks2":
            continue
        area, splitter = slot["area"], slot["af"]
        sizes = (int(slot["key_size"]), int(area["offset"]), int(splitter["stripes"]))
        cipher = (str(area["encryption"]), int(area["key_size"]))
        derivation = _derivation(slot["kdf"])
        yield _bounded(Slot(name, *sizes, *cipher, str(splitter["hash"]), derivation, check))


def _derivation(facts: dict[str, Any]) -> Derivation:
    kind, salt = str(facts["type"]), _base64(facts["salt"])
    if kind == "pbkdf2":
        return Derivation(kind, salt, int(facts["iterations"]), str(facts["hash"]))
    memory, lanes = int(facts["memory"]), int(facts["cpus"])
    return Derivation(kind, salt, int(facts["time"]), memory=memory, lanes=lanes)


def _bounded(slot: Slot) -> Slot:
    """The slot, if the memory and time of its key derivation are within the limits.

    Raises:
        CorruptError: they exceed the limits.
    """
    fits = 0 < slot.key_bytes <= _MOST_KEY and 0 < slot.cipher_bytes <= _MOST_KEY
    fits = fits and 0 < slot.stripes <= _MOST_STRIPES
    for each in (slot.derivation, slot.digest.derivation):
        fits = fits and 0 < each.iterations < _MOST_ITERATIONS
        fits = fits and each.memory <= _MOST_MEMORY and each.lanes <= _MOST_LANES
    if not fits:
        raise CorruptError("LUKS key slot", slot.offset, "numbers out of bounds")
    return slot


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("ascii", "backslashreplace")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("a value that is not base64") from error
