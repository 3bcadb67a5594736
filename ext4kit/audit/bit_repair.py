"""Damage that explains a failed checksum, computed by running crc32c backwards.

The crc32c register is linear. Therefore the computed and the stored checksum differ by the checksum
of the changed bits alone (the syndrome). Running crc32c backwards from the syndrome to an offset
gives the change of the four bytes at that offset that would explain the failure. One changed bit is
located exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from ext4kit.arrays.types import Int64s, UInt32s
from ext4kit.parsers.checksums import crc32c_rows

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class BitRepairs:
    """Explanations of failed checksums, one row per checksum.

    Attributes:
        byte: offset of the byte in which one changed bit explains the failure, -1 if there is none.
        mask: the changed bit within that byte.
        words: (n, 3), bits to change in the big-endian word at offset 0, 4 or 8 if the damage is in
            that word alone.
        seed: bits to change in the seed if the block itself is undamaged.
    """

    byte: Int64s
    mask: Int64s
    words: Int64s
    seed: Int64s


def find_bit_repairs(syndromes: Int64s, length: int, hole: int) -> BitRepairs:
    """Changes of a block, or of its seed, that would each explain a failed checksum.

    Args:
        syndromes: int64 (n,), computed ^ stored checksum, none of them 0.
        length: bytes the checksum covers.
        hole: offset of the big-endian checksum field, which counts as zeros; -1: outside the block.
    """
    register = syndromes.astype(np.uint32)
    byte, mask = _single_bits(register, length)
    if hole >= 0:
        byte[(byte >= hole) & (byte < hole + 4)] = NOWHERE
        stored_byte, stored_mask = changed_bits(syndromes, hole)
        stored = stored_byte != NOWHERE
        byte, mask = np.where(stored, stored_byte, byte), np.where(stored, stored_mask, mask)
    words = np.zeros((len(register), 3), np.int64)
    for word in range(3):
        words[:, word] = _apply(_power(length - 4 * word, True), register).byteswap()
    seed = _apply(_power(length, True), register)
    return BitRepairs(byte, mask, words, seed.astype(np.int64))


def _apply(columns: UInt32s, registers: UInt32s) -> UInt32s:
    """Apply a linear map, given as the image of each bit, to many registers (uint32)."""
    result = np.zeros(registers.shape, np.uint32)
    for bit in range(32):
        result ^= np.where(registers >> np.uint32(bit) & np.uint32(1), columns[bit], np.uint32(0))
    return result


@cache
def _step(back: bool) -> UInt32s:
    """The effect of one zero byte on the register as a linear map, or the inverse map."""
    bits: UInt32s = np.uint32(1) << np.arange(32, dtype=np.uint32)
    numbers = np.arange(256, dtype=np.uint8)[:, None]
    entries = crc32c_rows(0, numbers)
    if not back:
        ahead: UInt32s = entries[bits & np.uint32(255)] ^ (bits >> np.uint32(8))
        return ahead
    index_of = np.zeros(256, np.uint32)
    index_of[entries >> np.uint32(24)] = np.arange(256)  # the top bytes are all different
    index = index_of[bits >> np.uint32(24)]
    behind: UInt32s = ((bits ^ entries[index]) << np.uint32(8)) | index
    return behind


@lru_cache(64)
def _power(count: int, back: bool) -> UInt32s:
    """The effect of `count` zero bytes as a linear map, or the inverse map."""
    result: UInt32s = np.uint32(1) << np.arange(32, dtype=np.uint32)
    square = _step(back)
    while count > 0:
        if count & 1:
            result = _apply(square, result)
        square = _apply(square, square)
        count >>= 1
    return result


@lru_cache(4)
def _bit_table(capacity: int) -> tuple[UInt32s, Int64s]:
    """(syndrome of each single changed bit, ascending; its 8 * bytes after it + bit number)."""
    numbers = np.uint8(1) << np.arange(8, dtype=np.uint8)[:, None]
    table = crc32c_rows(0, numbers)
    count = 1
    while count < capacity:  # doubles the number of bytes covered
        table = np.concatenate([table, _apply(_power(count, False), table)])
        count *= 2
    order = np.argsort(table)
    return table[order], order


def _single_bits(syndromes: UInt32s, length: int) -> tuple[Int64s, Int64s]:
    """(byte, bit) whose change gives each syndrome; byte -1 where no single bit explains it."""
    values, places = _bit_table(1 << max(length - 1, 1).bit_length())
    row = np.minimum(np.searchsorted(values, syndromes), len(values) - 1)
    behind, bit = np.divmod(places[row], 8)
    hit = (values[row] == syndromes) & (behind < length)
    return np.where(hit, length - 1 - behind, NOWHERE), np.where(hit, 1 << bit, 0)


def changed_bits(changes: Int64s, offset: int) -> tuple[Int64s, Int64s]:
    """(byte, bit) of a big-endian 32-bit field in which one bit is changed; byte -1 for more bits.

    Args:
        changes: difference of the field, none of them 0.
        offset: byte offset of the field.
    """
    bit = np.frexp(changes.astype(np.float64))[1].astype(np.int64) - 1  # highest set bit
    single = changes & (changes - 1) == 0
    return np.where(single, offset + 3 - bit // 8, NOWHERE), np.where(single, 1 << bit % 8, 0)
