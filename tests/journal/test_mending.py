"""What a failed checksum alone says of the damage: crc32c run backwards."""

from __future__ import annotations

from typing import Any

import crc32c
import numpy as np
import pytest

from ext4kit.audit.bit_repair import NOWHERE, changed_bits, find_bit_repairs
from ext4kit.audit.survey import _bit_counts


def register(data: bytes, seed: int = 0) -> int:
    return int(crc32c.crc32c(data, seed ^ 0xFFFFFFFF)) ^ 0xFFFFFFFF


@pytest.mark.parametrize("length", [1, 4, 5, 100, 1024, 1025])
def test_one_changed_bit_is_found_from_the_checksums_alone(length: int) -> None:
    data = bytes(range(256)) * 5
    data = data[:length]
    for byte in {0, length // 2, length - 1}:
        for bit in (0, 5, 7):
            changed = bytearray(data)
            changed[byte] ^= 1 << bit
            syndrome = register(data) ^ register(bytes(changed))
            mends = find_bit_repairs(np.array([syndrome]), length, -1)
            assert (mends.byte.tolist(), mends.mask.tolist()) == ([byte], [1 << bit])


def test_a_change_of_more_bits_is_found_nowhere() -> None:
    data = bytes(64)
    syndrome = register(data) ^ register(b"\x03" + bytes(63))
    mends = find_bit_repairs(np.array([syndrome]), 64, -1)
    assert (mends.byte.tolist(), mends.mask.tolist()) == ([NOWHERE], [0])


def test_a_changed_header_word_or_seed_is_found() -> None:
    data = bytes(range(100))
    for word in range(3):
        changed = bytearray(data)
        change = 0x8001_0203
        value = int.from_bytes(changed[4 * word : 4 * word + 4], "big") ^ change
        changed[4 * word : 4 * word + 4] = value.to_bytes(4, "big")
        syndrome = register(data) ^ register(bytes(changed))
        assert find_bit_repairs(np.array([syndrome]), 100, -1).words[0, word] == change
    syndrome = register(data, 5) ^ register(data, 0x1234)
    assert find_bit_repairs(np.array([syndrome]), 100, -1).seed.tolist() == [5 ^ 0x1234]


def test_a_changed_bit_of_the_stored_checksum_is_found_there() -> None:
    """Big-endian: the lowest bit of the number lies in its last byte."""
    for bit in range(32):
        mends = find_bit_repairs(np.array([1 << bit]), 1024, 1020)
        assert mends.byte.tolist() == [1023 - bit // 8]
        assert mends.mask.tolist() == [1 << bit % 8]
    many = find_bit_repairs(np.array([0b11, 1 << 31]), 1024, 16)
    assert many.byte.tolist()[1] == 16
    assert many.byte.tolist()[0] == NOWHERE


def test_a_bit_within_the_checksum_field_explains_nothing() -> None:
    """The field is taken as zeros: no bit of it is covered."""
    data = bytes(1024)
    changed = bytearray(data)
    changed[18] = 4
    syndrome = np.array([register(data) ^ register(bytes(changed))])
    assert find_bit_repairs(syndrome, 1024, -1).byte.tolist() == [18]
    assert find_bit_repairs(syndrome, 1024, 16).byte.tolist() == [NOWHERE]
    for byte in (15, 20):
        changed = bytearray(data)
        changed[byte] = 4
        syndrome = np.array([register(data) ^ register(bytes(changed))])
        assert find_bit_repairs(syndrome, 1024, 16).byte.tolist() == [byte]


def test_bits_are_counted() -> None:
    numbers: Any = np.array([0, 1, 3, 0x8000_0000, 0xFFFF_FFFF, 0x0101_0101])
    assert _bit_counts(numbers).tolist() == [0, 1, 2, 1, 32, 4]
    byte, mask = changed_bits(numbers[1:], 20)
    assert byte.tolist() == [23, NOWHERE, 20, NOWHERE, NOWHERE]
    assert mask.tolist() == [1, 0, 0x80, 0, 0]
