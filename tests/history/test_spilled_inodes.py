"""A table of inodes says the same whether its bytes are in memory or in a temporary file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from ext4kit.evidence import spilled
from ext4kit.history.spilled_inodes import SpilledInodes, joined_inodes
from ext4kit.parsers.features import Compat, Features, Incompat, RoCompat
from ext4kit.parsers.inode import FIELD_NAMES, InodeTable
from ext4kit.parsers.superblock import Superblock

ROWS = 100


def superblock() -> Superblock:
    """What a table asks of a superblock."""
    features = Features(Compat(0), Incompat(0), RoCompat(0))
    told = SimpleNamespace(inode_size=256, features=features, block_size=4096)
    return cast(Superblock, told)


@pytest.fixture
def in_memory() -> InodeTable:
    """Inodes of random bytes."""
    raw = np.random.default_rng(7).integers(0, 256, (ROWS, 256), np.uint8)
    return InodeTable(np.arange(11, 11 + ROWS), raw, superblock())


@pytest.fixture
def in_file(in_memory: InodeTable, monkeypatch: pytest.MonkeyPatch) -> InodeTable:
    """The same inodes in a file."""
    monkeypatch.setattr(spilled, "KEPT_BYTES", 1000)
    parts = [in_memory.take(some) for some in (slice(0, 33), slice(33, 90), slice(90, ROWS))]
    table = joined_inodes(superblock(), parts)
    assert isinstance(table, SpilledInodes)
    return table


def test_each_column_is_the_same_also_after_it_was_forgotten(
    in_memory: InodeTable, in_file: InodeTable
) -> None:
    for _ in range(2):
        for name in ("number", *sorted(FIELD_NAMES)):
            assert (getattr(in_file, name) == getattr(in_memory, name)).all(), name
        in_file.forget_columns()
        assert not vars(in_file).keys() & FIELD_NAMES


def test_some_rows_are_the_same(in_memory: InodeTable, in_file: InodeTable) -> None:
    drawn = np.random.default_rng(8)
    for rows in (drawn.integers(0, ROWS, 50), drawn.random(ROWS) < 0.3, slice(5, 70)):
        one, other = in_memory.take(rows), in_file.take(rows)
        assert (one.raw == other.raw).all() and (one.number == other.number).all()
        assert list(one.each()) == list(other.each())
    rows = drawn.integers(0, ROWS, 50)
    assert (in_memory.i_blocks(rows) == in_file.i_blocks(rows)).all()
    assert in_memory.one(17) == in_file.one(17)
