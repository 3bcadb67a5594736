"""crc32c backwards: what a register was before the bytes that led to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.parsers.checksums import ONES, crc32c, crc32c_back, crc32c_seeds, crc32c_words

REGISTERS = st.lists(st.integers(0, ONES), max_size=6)


@given(REGISTERS, st.integers(0, 300), st.data())
def test_seeds_are_what_the_registers_were_started_at(
    seeds: list[int], length: int, data: st.DataObject
) -> None:
    size = len(seeds) * length
    raw = data.draw(st.binary(min_size=size, max_size=size))
    rows = np.frombuffer(raw, np.uint8).reshape(len(seeds), length)
    pairs = zip(seeds, rows, strict=True)
    registers = np.array([crc32c(seed, row.tobytes()) for seed, row in pairs], np.int64)
    assert crc32c_seeds(registers, rows, length).tolist() == seeds


@given(st.lists(st.tuples(st.integers(0, ONES), st.binary(max_size=70)), max_size=6))
def test_records_may_have_lengths_of_their_own(records: list[tuple[int, bytes]]) -> None:
    registers = np.array([crc32c(seed, data) for seed, data in records], np.int64)
    lengths = np.array([len(data) for _, data in records], np.int64)
    pieces = iter([data for _, data in records])
    assert crc32c_seeds(registers, pieces, lengths).tolist() == [seed for seed, _ in records]


@given(st.integers(0, ONES), st.integers(0, 70_000))
def test_zero_bytes_are_taken_back(seed: int, length: int) -> None:
    after = np.array([crc32c(seed, bytes(length))], np.int64)
    assert crc32c_back(after, length).tolist() == [seed]


@given(st.integers(0, ONES), REGISTERS)
def test_four_unknown_bytes_are_solved(seed: int, words: list[int]) -> None:
    registers = [crc32c(seed, word.to_bytes(4, "little")) for word in words]
    assert crc32c_words(seed, np.array(registers, np.int64)).tolist() == words
