"""Which name a deleted directory had as of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from ext4kit.arrays.types import NO_ROW
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.history.journal_gaps import NO_RESTART, JournalGaps
from ext4kit.history.names import NameTable
from ext4kit.history.paths import PathHistory


@dataclass(frozen=True)
class Named:
    """A name: when the journal shows it first and last, and when it was removed."""

    valid_from: int
    seen: int
    removed: int


def row_at(when: int, *names: Named) -> int:
    """Row of the name of directory 0; the journal lacks what lies between 10 and 20."""
    none, one = np.zeros(len(names), np.int64), np.zeros(1, np.int64)
    valid_from, seen, removed = np.array([(n.valid_from, n.seen, n.removed) for n in names]).T
    table = NameTable(none, none, valid_from, valid_from, none - 1, removed, seen,
                      none, none, none, [b"%d" % row for row in range(len(names))])  # fmt: skip
    gaps = JournalGaps(one + 10, one + 20, one, one > 0, one == 0)
    assert gaps.restarted_at == NO_RESTART
    paths = object.__new__(PathHistory)
    vars(paths).update(
        names=SimpleNamespace(table=table),
        history=SimpleNamespace(
            gaps=gaps, linked_tids=(one + int(TID_ON_DISK), one + int(TID_BEFORE_LOG))
        ),
        _row_ends=np.array([len(names)]),
    )
    return paths._deleted_directory_row(0, when)


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
    assert row_at(when, Named(valid_from=2, seen=seen, removed=30)) == row


@pytest.mark.parametrize(("when", "row"), [(9, 0), (22, NO_ROW), (25, 1), (29, NO_ROW)])
def test_the_same_holds_where_the_directory_had_several_names(when: int, row: int) -> None:
    first = Named(valid_from=2, seen=8, removed=24)
    assert row_at(when, first, Named(valid_from=24, seen=26, removed=28)) == row
