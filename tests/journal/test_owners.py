"""Whose a block was at a transaction, where an inode number was used again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ext4kit.journal.block_types import BlockRole, Owners

BLOCK = 2202


def test_a_block_that_comes_back_to_a_number_is_its_own_again() -> None:
    states: Any = SimpleNamespace(number=np.array([63, 2049, 63]), generation=np.array([1, 2, 3]))
    owners = Owners(np.array([BLOCK]))
    ones, rows = np.ones(3, np.int64), np.arange(3)
    kind = ones * int(BlockRole.DIRECTORY)
    owners._claim(ones * BLOCK, ones, rows, kind, states, np.array([43, 46, 56]))
    contents, numbers = owners.of(ones * BLOCK, np.array([45, 50, 60]))
    assert contents.tolist() == kind.tolist()
    assert numbers.tolist() == [63, 2049, 63]
