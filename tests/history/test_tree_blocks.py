"""From which copy a block of a map is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.arrays.types import NO_ROW
from ext4kit.history import History
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.journal import BlockHistory
from tests.journal.log_writer import LogWriter

BLOCK = 50
NONE = np.zeros(0, np.int64)


def history(*lost: tuple[int, int]) -> Any:
    """A history of two states, as of 5 and 9; the log has a copy of the block from 4 and from 8."""
    writer = LogWriter()
    for sequence in (4, 8):
        writer.transaction(sequence, (BLOCK, b"%d" % sequence))
    log = writer.log(9)
    before, after = np.array(lost, np.int64).reshape(-1, 2).T
    flags = np.ones(len(before), bool)
    gaps = JournalGaps(before, after, np.zeros_like(before), ~flags, flags)
    states = SimpleNamespace(tid=np.array([5, 9]))
    return SimpleNamespace(log=log, copies=BlockHistory(log), gaps=gaps, states=states)


@pytest.mark.parametrize(
    ("lost", "read"),
    [
        ((), [b"4", b"8"]),
        (((5, 7),), [b"4", b"8"]),  # after the first state
        (((2, 4),), [b"4", b"8"]),
        (((8, 11),), [b"4", b"8"]),
    ],
)
def test_the_newest_copy_by_then_counts(
    lost: tuple[tuple[int, int], ...], read: list[bytes]
) -> None:
    past = history(*lost)
    rows = History.tree_block_copies(past, np.array([0, 1]), np.array([5, 9]), np.full(2, BLOCK))
    assert [one[:1].tobytes() for one in past.log.read_copies(rows)] == read


def test_a_copy_from_before_lost_transactions_may_be_of_another_owner() -> None:
    past = history((8, 9))
    past.states.tid[:] = 5, 12
    rows = History.tree_block_copies(past, np.array([0, 1]), np.array([5, 12]), np.full(2, BLOCK))
    assert rows.tolist() == [0, NO_ROW]


def test_without_a_log_or_a_copy_the_disk_has_it() -> None:
    one = np.array([0])
    past = history()
    assert History.tree_block_copies(past, one, one + 5, one + 60).tolist() == [NO_ROW]
    past.copies = None
    assert History.tree_block_copies(past, one, one + 5, one + BLOCK).tolist() == [NO_ROW]
