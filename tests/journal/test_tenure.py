"""Since when blocks are in use, by copies of bitmaps written by hand: groups of 64 blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ext4kit.as_of import allocation as tenure_module
from ext4kit.as_of.allocation import AllocationHistory
from ext4kit.journal import BlockHistory
from tests.journal.log_writer import LogWriter

BITMAPS = (10, 20, 30)
COUNT = 1 + 2 * 64 + 10  # the last group is short


class Groups:
    """Three of them."""

    block_bitmap = np.array(BITMAPS)

    def __len__(self) -> int:
        return 3


class Now:
    """A file system in which some blocks are in use."""

    def __init__(self, *in_use: int, ratio: int = 1) -> None:
        self.groups = Groups()
        self.bitmaps = self
        self.superblock = self
        self.first_data_block = 1
        self.blocks_per_group = 64
        self.cluster_ratio = ratio
        self.blocks_count = COUNT
        self._in_use = in_use

    def blocks_in_use(self, blocks: Any) -> Any:
        return np.isin(blocks, self._in_use)


def bitmap(*bits: int) -> bytes:
    data = bytearray(1024)
    for bit in bits:
        data[bit // 8] |= 1 << bit % 8
    return bytes(data)


def tenure(*in_use: int, ratio: int = 1) -> AllocationHistory:
    """Copies of transactions 3 to 6; bit n of group g is block 1 + 64 * g + n."""
    writer = LogWriter()
    writer.transaction(3, (10, bitmap(0, 1, 9)), (20, bitmap(0, 5)))
    writer.transaction(4, (10, bitmap(0, 9)))
    writer.transaction(5, (20, bitmap(5)), (30, bitmap(3)))
    writer.transaction(6, (10, bitmap(0, 1)))
    now: Any = Now(*in_use, ratio=ratio)
    return AllocationHistory(now, BlockHistory(writer.log(7)))


FIRST, SECOND, TENTH = 1, 2, 10  # bits 0, 1 and 9 of group 0
OTHER, FIFTH = 65, 70  # bits 0 and 5 of group 1
THIRD = 1 + 128 + 3  # bit 3 of group 2
BLOCKS = np.array([FIRST, SECOND, TENTH, OTHER, FIFTH, THIRD])


@pytest.mark.parametrize(
    ("since", "until", "held"),
    [
        (2, 3, [1, 1, 1, 1, 1, 1]),
        (2, 4, [1, 0, 1, 1, 1, 1]),
        (3, 4, [1, 0, 1, 1, 1, 1]),
        (4, 4, [1, 1, 1, 1, 1, 1]),
        (2, 5, [1, 0, 1, 0, 1, 1]),
        (2, 6, [1, 0, 0, 0, 1, 1]),
        (4, 6, [1, 1, 0, 0, 1, 1]),
        (5, 6, [1, 1, 0, 1, 1, 1]),
        (6, 6, [1, 1, 1, 1, 1, 1]),
        (-5, 99, [1, 0, 0, 0, 1, 1]),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2, 256])
def test_a_block_is_held_that_is_set_in_every_copy_behind_a_transaction(
    since: int, until: int, held: list[int], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenure_module, "COPIES_AT_ONCE", at_once)
    assert tenure().stayed_allocated(BLOCKS, since, until).tolist() == [bool(one) for one in held]


def test_each_block_can_have_a_transaction_of_its_own() -> None:
    since = np.array([2, 4, 5, 5, 2, 2])
    assert tenure().stayed_allocated(BLOCKS, since, 6).tolist() == [
        True,
        True,
        False,
        True,
        True,
        True,
    ]
    again = np.array([SECOND, SECOND, SECOND])
    assert tenure().stayed_allocated(again, np.array([4, 3, 2]), 6).tolist() == [True, False, False]


def test_without_an_end_the_present_counts() -> None:
    in_use = tenure(FIRST, SECOND, OTHER, THIRD)
    assert in_use.stayed_allocated(BLOCKS, 5).tolist() == [True, True, False, True, False, True]
    assert in_use.stayed_allocated(BLOCKS, 4).tolist() == [True, True, False, False, False, True]
    assert tenure(FIRST).stayed_allocated(
        np.array([FIRST, 0, -1, COUNT, COUNT - 1]), 6
    ).tolist() == [True, False, False, False, False]
    assert tenure(FIRST, COUNT - 1, COUNT).stayed_allocated(
        np.array([COUNT - 1, COUNT]), 6
    ).tolist() == [True, False]


def test_a_bit_of_clusters_stands_for_all_its_blocks() -> None:
    """With four blocks to a cluster, blocks 1 to 4 are bit 0, blocks 5 to 8 bit 1."""
    blocks = np.array([1, 4, 5, 8, 9])
    assert tenure(ratio=4).stayed_allocated(blocks, 3, 4).tolist() == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert tenure(ratio=4).stayed_allocated(np.array([37, 40, 41]), 2, 4).tolist() == [
        True,
        True,
        False,
    ]
