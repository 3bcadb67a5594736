"""Of which transaction a time of an inode can be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.history.paths import PathHistory
from ext4kit.history.transaction_starts import CLOCK_RESOLUTION, TransactionStarts

SECOND = 1_000_000_000
COMMITS = {7: 100 * SECOND, 8: 200 * SECOND}


@pytest.mark.parametrize(
    ("time", "order"),
    [
        (100 * SECOND - 1, TID_BEFORE_LOG),
        (
            100 * SECOND + CLOCK_RESOLUTION // 2,
            TID_BEFORE_LOG,
        ),  # the commit's clock may have stood still that long
        (100 * SECOND + CLOCK_RESOLUTION + 1, 7),
        (200 * SECOND + CLOCK_RESOLUTION // 2, 7),
        (200 * SECOND + CLOCK_RESOLUTION + 1, TID_ON_DISK - 1),
    ],
)
def test_a_commit_counts_as_over_a_tick_after_its_time(time: int, order: int) -> None:
    history: Any = PathHistory.__new__(PathHistory)
    states: Any = SimpleNamespace(tid=np.zeros(0, np.int64))
    breaks = SimpleNamespace(restarted_at=NO_RESTART)
    history.history = SimpleNamespace(
        transaction_starts=TransactionStarts(COMMITS, states), gaps=breaks
    )
    assert history.tid_before(time) == order
