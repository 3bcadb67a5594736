"""Checksums and name hashes of many at once agree with those of one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.parsers.checksums import crc32c, crc32c_fits
from ext4kit.parsers.directory import Names
from ext4kit.parsers.name_hashes import KNOWN, dirhash, dirhashes

LENGTH = 40


@given(st.integers(0, 200), st.integers(0, 2**32 - 1), st.data())
def test_wrong_checksums_are_singled_out(count: int, seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (count, LENGTH), np.uint8)
    seeds = rng.integers(0, 1 << 32, count)
    right = [crc32c(int(s), row.tobytes()) for s, row in zip(seeds, rows, strict=True)]
    wrong = data.draw(st.sets(st.integers(0, max(count - 1, 0)), max_size=min(count, 9)))
    expected = np.array(right, np.int64)
    expected[sorted(wrong)] ^= 1 << (seed % 32)
    found = crc32c_fits(seeds, rows, expected)
    assert set(np.flatnonzero(~found).tolist()) == wrong


def test_holes_count_as_zeros() -> None:
    rows = np.random.default_rng(1).integers(0, 256, (9, LENGTH), np.uint8)
    blank = rows.copy()
    blank[:, 4:6] = blank[:, 9:10] = 0
    expected = np.array([crc32c(7, row.tobytes()) for row in blank])
    holes = (slice(4, 6), slice(9, 10))
    assert crc32c_fits(np.full(9, 7), rows, expected, holes).all()
    assert not crc32c_fits(np.full(9, 7), rows, expected).any()


@pytest.mark.heavy
@pytest.mark.parametrize("version", KNOWN)
@given(names=st.lists(st.binary(min_size=1, max_size=255), max_size=20),
       seed=st.sampled_from([bytes(16), bytes(range(16))]))  # fmt: skip
def test_hashes_of_many_names(version: int, names: list[bytes], seed: bytes) -> None:
    found = zip(*(each.tolist() for each in dirhashes(Names.of(names), version, seed)), strict=True)
    assert list(found) == [dirhash(name, version, seed) for name in names]
