"""The hashes of many names at once, by which hashed directories are ordered.

The result equals `htree.dirhash`, for columns. Source: kernel fs/ext4/hash.c.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ext4kit.parsers.directory import Names
from ext4kit.parsers.htree import DEFAULT_SEED, END_OF_DIRECTORY, UNSIGNED_STEP

_LEGACY, _HALF_MD4, _TEA = range(3)
_WORDS = {_HALF_MD4: 8, _TEA: 4}  # 32-bit words of the name per step
_ROUNDS = (
    (0, (0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 11, 19)),
    (0x5A827999, (1, 3, 5, 7, 0, 2, 4, 6), (3, 5, 9, 13)),
    (0x6ED9EBA1, (3, 7, 2, 6, 1, 5, 0, 4), (3, 9, 11, 15)),
)
KNOWN = range(2 * UNSIGNED_STEP)


def dirhashes(names: Names, version: int, seed: bytes) -> Any:
    """The major hash of each name, bit 0 clear; int64 (n,).

    Args:
        names: the names.
        version: one of `KNOWN`: of HASH_NAMES, `UNSIGNED_STEP` added for unsigned characters.
        seed: the 16 bytes of `s_hash_seed` on disk; zeros mean the default seed.
    """
    kind, signed = version % UNSIGNED_STEP, version < UNSIGNED_STEP
    major = _legacy(names, signed) if kind == _LEGACY else _chained(names, kind, seed, signed)
    major &= ~1
    return np.where(major == END_OF_DIRECTORY, END_OF_DIRECTORY - 2, major)


def _legacy(names: Names, signed: bool) -> Any:
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


def _chained(names: Names, kind: int, seed: bytes, signed: bool) -> Any:
    start_words = struct.unpack("<4I", seed)
    start = start_words if any(start_words) else DEFAULT_SEED
    state = [np.full(len(names), word, np.uint32) for word in start]
    padded = np.frombuffer(names.data + bytes(4), np.uint8)
    words: Any = np.ndarray(len(names.data) + 1, ">u4", padded, strides=(1,))
    width = 4 * _WORDS[kind]
    step = _half_md4 if kind == _HALF_MD4 else _tea
    for first in range(0, int(names.length.max(initial=0)), width):
        some = np.flatnonzero(names.length > first)
        place, left = names.start[some] + first, names.length[some] - first
        key = _key(words, place, left, _WORDS[kind], signed)
        for part, value in zip(state, step([part[some] for part in state], key), strict=False):
            part[some] = value
    return state[1 if kind == _HALF_MD4 else 0].astype(np.int64)


def _key(words: Any, start: Any, left: Any, count: int, signed: bool) -> list[Any]:
    """The next `count` words of each name, padded with the number of characters left.

    Args:
        words: the big-endian word at each byte of the names.
        start: byte offset of the next characters of each name.
        left: number of characters left.
        count: number of words to return.
        signed: a character above 127 counts as negative and borrows one from those before it.
    """
    pad = (left & 0xFF) * 0x01010101
    key = []
    for word in range(count):
        used = np.clip(left - 4 * word, 0, 4) * 8  # bits
        place = np.minimum(start + 4 * word, len(words) - 1)
        part = words[place].astype(np.int64) >> (32 - used)
        if signed:
            part = part - ((part & 0x80808080) << 1)
        key.append((((pad << used) + part) & 0xFFFFFFFF).astype(np.uint32))
    return key


def _rotated(value: Any, shift: int) -> Any:
    return (value << np.uint32(shift)) | (value >> np.uint32(32 - shift))


def _mixed(step: int, x: Any, y: Any, z: Any) -> Any:
    if step == 0:
        return z ^ (x & (y ^ z))
    return (x & y) + ((x ^ y) & z) if step == 1 else x ^ y ^ z


def _half_md4(state: list[Any], key: list[Any]) -> list[Any]:
    a, b, c, d = state
    for step, (constant, order, shifts) in enumerate(_ROUNDS):
        for place, index in enumerate(order):
            total = a + _mixed(step, b, c, d) + key[index] + np.uint32(constant)
            a, b, c, d = d, _rotated(total, shifts[place % 4]), b, c
    return [old + new for old, new in zip(state, (a, b, c, d), strict=True)]


def _tea(state: list[Any], key: list[Any]) -> list[Any]:
    left, right = state[:2]
    four, five = np.uint32(4), np.uint32(5)
    for step in range(1, 17):
        total = np.uint32(0x9E3779B9 * step & 0xFFFFFFFF)
        left = left + (((right << four) + key[0]) ^ (right + total) ^ ((right >> five) + key[1]))
        right = right + (((left << four) + key[2]) ^ (left + total) ^ ((left >> five) + key[3]))
    return [state[0] + left, state[1] + right]
