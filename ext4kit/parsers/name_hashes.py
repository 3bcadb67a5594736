"""The name hashes that order hashed directories, computed for many names at once.

Source: kernel fs/ext4/hash.c.
"""

from __future__ import annotations

import struct
from typing import TypeVar

import numpy as np

from ext4kit.arrays.types import Int64s, UInt32s
from ext4kit.errors import RequestError, UnsupportedError
from ext4kit.parsers.directory import Names
from ext4kit.parsers.htree import HASH_NAMES, UNSIGNED_STEP
from ext4kit.units import Integers

_LEGACY, _HALF_MD4, _TEA = range(3)
_WORDS = {_HALF_MD4: 8, _TEA: 4}  # 32-bit words of the name per step
Word = TypeVar("Word", int, Integers)  # 32 bits of one name, or of each name
_ROUNDS = (
    (0, (0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 11, 19)),
    (0x5A827999, (1, 3, 5, 7, 0, 2, 4, 6), (3, 5, 9, 13)),
    (0x6ED9EBA1, (3, 7, 2, 6, 1, 5, 0, 4), (3, 9, 11, 15)),
)
_WORD = 0xFFFFFFFF
_DEFAULT_SEED = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)  # MD4's initial state
_END_OF_DIRECTORY = 0xFFFFFFFE  # reserved for "read to the end", not used for names
KNOWN = range(2 * UNSIGNED_STEP)
Hashes = tuple[Int64s, Int64s]


def dirhash(name: bytes, version: int, seed: bytes = bytes(16)) -> tuple[int, int]:
    """`dirhashes` of one name.

    Raises:
        UnsupportedError: siphash (needs the directory's key) or an unknown version.
        RequestError: the seed does not have 16 bytes.
    """
    if version not in KNOWN:
        what = HASH_NAMES.get(version, f"version {version}")
        raise UnsupportedError(f"directory hash {what} cannot be computed")
    if len(seed) != 16:
        raise RequestError(f"a directory hash seed has 16 bytes, not {len(seed)}")
    major, minor = dirhashes(Names.of([name]), version, seed)
    return int(major[0]), int(minor[0])


def dirhashes(names: Names, version: int, seed: bytes) -> Hashes:
    """The hashes that order names in a hashed directory.

    Args:
        names: the names; for a casefolded directory, the folded names.
        version: one of `KNOWN`: a version of HASH_NAMES, plus `UNSIGNED_STEP` if the superblock has
            the flag for unsigned hashes.
        seed: the 16 bytes of `s_hash_seed` on disk; zeros mean the default seed.

    Returns:
        (major, minor), int64 (n,): major has bit 0 clear, as in the index; minor orders names with
            equal major.
    """
    kind, signed = version % UNSIGNED_STEP, version < UNSIGNED_STEP
    if kind == _LEGACY:
        major, minor = _legacy(names, signed), np.zeros(len(names), np.int64)
    else:
        major, minor = _chained(names, kind, seed, signed)
    major &= ~1
    return np.where(major == _END_OF_DIRECTORY, _END_OF_DIRECTORY - 2, major), minor


def _legacy(names: Names, signed: bool) -> Int64s:
    """The hash of the first htree patches: a two-step recurrence of 31 bits, without a seed."""
    data = np.frombuffer(names.data, np.int8 if signed else np.uint8)
    older = np.full(len(names), 0x37ABE8F9, np.int64)
    newer = np.full(len(names), 0x12A3FE2D, np.int64)
    for position in range(int(names.length.max(initial=0))):
        some = np.flatnonzero(names.length > position)
        char = data[names.start[some] + position].astype(np.int64)
        value = (older[some] + (newer[some] ^ (char * 7152373 & 0xFFFFFFFF))) & 0xFFFFFFFF
        value = np.where(value & 0x80000000, value - 0x7FFFFFFF, value)
        older[some], newer[some] = newer[some], value
    return newer << 1 & 0xFFFFFFFF


def _chained(names: Names, kind: int, seed: bytes, signed: bool) -> Hashes:
    start_words = struct.unpack("<4I", seed)
    start = start_words if any(start_words) else _DEFAULT_SEED
    state: list[Integers] = [np.full(len(names), word, np.uint32) for word in start]
    padded = np.frombuffer(names.data + bytes(4), np.uint8)
    words: UInt32s = np.ndarray(len(names.data) + 1, ">u4", padded, strides=(1,))
    step = _half_md4 if kind == _HALF_MD4 else _tea
    for first in range(0, int(names.length.max(initial=0)), 4 * _WORDS[kind]):
        some = np.flatnonzero(names.length > first)
        place, left = names.start[some] + first, names.length[some] - first
        key = _key(words, place, left, _WORDS[kind], signed)
        if len(names) == 1:  # integers are 20 times faster than columns of one row
            numbers = step([int(part[0]) for part in state], [int(part[0]) for part in key])
            changed: list[Integers] = [np.array([number], np.uint32) for number in numbers]
        else:
            changed = step([part[some] for part in state], key)
        for part, value in zip(state, changed, strict=False):
            part[some] = value
    major, minor = state[1:3] if kind == _HALF_MD4 else state[:2]
    return major.astype(np.int64), minor.astype(np.int64)


def _key(words: UInt32s, start: Int64s, left: Int64s, count: int, signed: bool) -> list[Integers]:
    """The next `count` words of each name, padded with the number of characters left.

    Args:
        words: the big-endian word at each byte of the names.
        start: byte offset of the next characters of each name.
        left: number of characters left.
        count: number of words to return.
        signed: a character above 127 counts as negative and borrows one from those before it.
    """
    pad = (left & 0xFF) * 0x01010101
    key: list[Integers] = []
    for word in range(count):
        used = np.clip(left - 4 * word, 0, 4) * 8  # bits
        place = np.minimum(start + 4 * word, len(words) - 1)
        part = words[place].astype(np.int64) >> (32 - used)
        if signed:
            part = part - ((part & 0x80808080) << 1)
        key.append((((pad << used) + part) & 0xFFFFFFFF).astype(np.uint32))
    return key


def _mixed(step: int, x: Word, y: Word, z: Word) -> Word:
    if step == 0:
        return z ^ (x & (y ^ z))
    return (x & y) + ((x ^ y) & z) if step == 1 else x ^ y ^ z


def _half_md4(state: list[Word], key: list[Word]) -> list[Word]:
    """The three rounds of MD4, over eight words instead of sixteen."""
    a, b, c, d = state
    for step, (constant, order, shifts) in enumerate(_ROUNDS):
        for place, index in enumerate(order):
            total = (a + _mixed(step, b, c, d) + key[index] + constant) & _WORD
            shift = shifts[place % 4]
            a, b, c, d = d, (total << shift | total >> 32 - shift) & _WORD, b, c
    return [(old + new) & _WORD for old, new in zip(state, (a, b, c, d), strict=True)]


def _tea(state: list[Word], key: list[Word]) -> list[Word]:
    """Sixteen rounds of the Tiny Encryption Algorithm, with the words of the name as key."""
    left, right = state[:2]
    for step in range(1, 17):
        total = 0x9E3779B9 * step & _WORD
        mixed = ((right << 4) + key[0]) ^ (right + total) ^ ((right >> 5) + key[1])
        left = (left + mixed) & _WORD
        mixed = ((left << 4) + key[2]) ^ (left + total) ^ ((left >> 5) + key[3])
        right = (right + mixed) & _WORD
    return [(state[0] + left) & _WORD, (state[1] + right) & _WORD]
