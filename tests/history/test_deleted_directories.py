"""Which name a deleted directory had as of a transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.arrays.types import NO_ROW
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.history import TID_ON_DISK
from ext4kit.history.journal_gaps import NO_RESTART, JournalGaps
from ext4kit.history.names import NameTable
from ext4kit.history.paths import PathHistory


def row_at(when: int, *, seen: int, removed: int, lost: tuple[int, int] = (10, 20)) -> int:
    """Row of the only name of directory 0; the journal lacks what lies between `lost`."""
    one = np.zeros(1, np.int64)
    table = NameTable(one, one, one + 2, one + 2, one - 1, one + removed, one + seen,
                      one, one, one, [b"name"])  # fmt: skip
    gap = np.array([[tid] for tid in lost])
    gaps = JournalGaps(gap[0], gap[1], one, one > 0, one == 0)
    linked = one + int(TID_ON_DISK), one + int(TID_BEFORE_LOG)
    paths: Any = SimpleNamespace(
        names=SimpleNamespace(table=table), history=SimpleNamespace(gaps=gaps),
        last_name_rows=lambda instances: np.zeros(len(instances), np.int64), _linked_tids=linked,
    )  # fmt: skip
    assert gaps.restarted_at == NO_RESTART
    return PathHistory._deleted_directory_row(paths, 0, when)


@pytest.mark.parametrize(
    ("when", "seen", "row"),
    [
        (9, 8, 0),
        (25, 8, NO_ROW),  # it may have had another name when it went
        (25, 22, 0),
        (25, SLACK_ENTRY, 0),  # its removed entry stands in the directory
        (1, 8, NO_ROW),  # it was added later
    ],
)
def test_a_name_from_before_lost_transactions_is_not_one_from_after_them(
    when: int, seen: int, row: int
) -> None:
    assert row_at(when, seen=seen, removed=30) == row
