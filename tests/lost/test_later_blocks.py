"""Blocks that somebody took after the lost file system, as they are counted one after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.arrays.intervals import Intervals
from ext4kit.lost.file_system import LostBlocks

SIZE, COUNT = 1024, 100


def lost_blocks(start: int, count: int) -> LostBlocks:
    """Blocks of which the present file system wrote some."""
    written = Intervals(np.array([start * SIZE]), np.array([count * SIZE]))
    base = SimpleNamespace(block_size=SIZE, blocks_count=COUNT)
    return LostBlocks(cast(Any, base), COUNT, cast(Any, SimpleNamespace(written_bytes=written)))


def taken(blocks: LostBlocks) -> list[int]:
    """Numbers of the blocks that count as taken."""
    return np.flatnonzero(blocks.is_overwritten(np.arange(COUNT))).tolist()


@pytest.mark.parametrize("again", [[5], [3, 5], [7, 5, 7], [2, 3, 4, 5, 6, 7, 8]])
def test_a_block_that_is_taken_twice_stays_taken_when_another_is_given_back(
    again: list[int],
) -> None:
    blocks = lost_blocks(3, 4)
    blocks.exclude(np.array(again))
    expected = sorted({3, 4, 5, 6, *again, 50})
    blocks.exclude(np.array([50, 60]))
    blocks.give_back(np.array([60]), np.array([10]))
    assert taken(blocks) == expected
