"""Whose name an entry in an old copy of a directory block is, by the times of copy and inode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.history import History
from ext4kit.history.transaction_starts import CLOCK_RESOLUTION
from ext4kit.recovery.found_entries import _created_after_copy

COPY, COMMIT = 8, 1_000_000_000  # tid of the copy, and when it was committed, ns


def history_of(created: int, first: int) -> History:
    """One life, created then, whose first state is of that tid."""
    states: Any = SimpleNamespace(
        instance=np.array([0]),
        tid=np.array([first]),
        table=SimpleNamespace(crtime=np.array([created])),
    )
    known = SimpleNamespace(
        states=states, instance_count=1, last_rows=np.array([0]),
        times_of=lambda tids: np.full(len(tids), COMMIT),
    )  # fmt: skip
    return cast(History, known)


@pytest.mark.parametrize(
    ("created", "first", "later"),
    [
        (COMMIT + 1, COPY + 1, True),
        (COMMIT, COPY + 1, True),  # the clock stands still between creation and commit
        (COMMIT - CLOCK_RESOLUTION + 1, COPY + 1, True),
        (COMMIT - CLOCK_RESOLUTION, COPY + 1, False),
        (COMMIT, COPY, False),  # the transaction of the copy, or an earlier one, shows it
    ],
)
def test_an_inode_created_as_the_copy_was_committed_may_not_be_the_one_it_names(
    created: int, first: int, later: bool
) -> None:
    history = history_of(created, first)
    found = _created_after_copy(history, np.array([0]), np.array([COPY]), -CLOCK_RESOLUTION)
    assert found.tolist() == [later]
