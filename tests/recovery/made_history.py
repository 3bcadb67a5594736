"""A past told by hand: what the grading asks of it, for tests of one rule at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ext4kit.filesystem.block_maps import Runs
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_PRE_FAST_COMMIT
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.history.transaction_starts import TransactionStarts
from ext4kit.history.writes import Writes
from ext4kit.parsers.inode import InodeFlags, InodeTable
from ext4kit.units import NANOSECONDS

BLOCK = 4096
MADE = 1000 * NANOSECONDS  # when the files of these tests were made
LATER = MADE + 10 * NANOSECONDS
EXTENTS = int(InodeFlags.EXTENTS)
State = dict[str, Any]
_NONE: Any = np.zeros(0, np.int64)
NO_BREAKS = JournalGaps(_NONE, _NONE, _NONE, _NONE.astype(bool), _NONE.astype(bool))

INODES = 500  # a lower number in the field of the deletion time is of the next orphan
COUNTED = Writes(_NONE, np.array([0]), _NONE)


def state(**changes: Any) -> State:
    """An inode of a file of 100 bytes in one block, as its first write leaves it."""
    usual: State = {
        "life": 0, "order": 5, "number": 12, "undescribed": False, "whole": True,
        "mode": 0o100755, "uid": 0, "gid": 0, "size": 100, "blocks": 8, "file_acl": 0,
        "flags": EXTENTS, "version": 2, "crtime": MADE, "mtime": MADE, "ctime": MADE, "dtime": 0,
        "links_count": 1, "extra_isize": 32, "place": 700, "depth": 0,
    }  # fmt: skip
    assert set(changes) <= set(usual)
    return usual | changes


def past_of(
    *states: State,
    commits: Sequence[tuple[int, int]] = (),
    following: Sequence[int] = (),
    breaks: JournalGaps = NO_BREAKS,
    mkfs_time: int = 0,
    writes: Writes = COUNTED,
) -> History:
    """What `WriteHistory` needs of a history.

    Args:
        states: of its lives, in order.
        commits: (order, commit time) of the log's transactions; none for no log.
        following: per state, the order of what is known next.
        breaks: in the log.
        mkfs_time: seconds.
        writes: what the log tells of all files; by default that the kernel counted changes.
    """
    rows = len(states)
    columns = {name: np.array([one[name] for one in states]) for name in states[0]}
    i_block = np.zeros((rows, 60), np.uint8)
    i_block[:, 6] = columns["depth"]
    place = np.array([one["place"] for one in states], "<u4").view(np.uint8).reshape(-1, 4)
    at = 20 if states[0]["flags"] & EXTENTS else 0
    i_block[:, at : at + 4] = place
    table = ToldInodes(i_block=i_block, **columns)

    def map_states(wanted: Any) -> Any:
        one = np.ones(len(wanted), np.int64)
        start = columns["place"][wanted]
        return SimpleNamespace(runs=Runs(np.arange(len(wanted)), one * 0, one, start, one == 0))

    states_of: Any = Sized(
        tid=columns["order"],
        instance=columns["life"],
        describes_content=columns["whole"],
        untagged=columns["undescribed"],
        table=table,
    )
    return cast(
        History,
        SimpleNamespace(
            states=states_of,
            by_inode=np.lexsort((columns["order"], columns["number"])),
            instance_count=int(columns["life"].max()) + 1,
            fs=SimpleNamespace(
                superblock=SimpleNamespace(block_size=BLOCK, mkfs_time=mkfs_time), overwritten=None
            ),
            log=log_of(commits) if commits else None,
            next_tid=np.array(following or [TID_NONE] * rows),
            gaps=breaks,
            map_states=map_states,
            writes=writes,
            started_after=lambda orders: TransactionStarts(dict(commits), states_of).started_after(
                orders, TID_PRE_FAST_COMMIT
            ),
            is_freed=(columns["links_count"] == 0) & (columns["dtime"] > INODES),
        ),
    )


def log_of(commits: Sequence[tuple[int, int]]) -> Any:
    """A log with these transactions (order, commit time), as it is while mounted."""
    order, time = np.array(commits, np.int64).T

    def row_of(orders: Any) -> Any:
        found = [order.tolist().index(one) if one in order else -1 for one in orders]
        return np.array(found, np.int64)

    transactions = Sized(order=order, commit_time_ns=time, row_of=row_of)
    return SimpleNamespace(transactions=transactions, needs_recovery=False)


class ToldInodes(InodeTable):
    """Inodes of which some columns are given, their modes among them."""

    def __init__(self, **columns: Any) -> None:
        vars(self).update(columns)

    def __len__(self) -> int:
        return len(self.mode)

    def pieces(self) -> Iterator[InodeTable]:
        """The table as one part."""
        yield self

    def take(self, index: Any) -> ToldInodes:
        """Some of the rows."""
        return ToldInodes(**{name: column[index] for name, column in vars(self).items()})


class Sized(SimpleNamespace):
    """Columns with the length of the first one."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))
