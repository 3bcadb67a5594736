"""Intermediate states: inodes that one fast commit created or changed and a later one removed.

Source: kernel fs/ext4/fast_commit.c, `ext4_fc_commit_dentry_updates`: a fast commit does not
record an inode that was created and removed within it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.journal.fast_commits.overlay import ChangedBlocks
from ext4kit.journal.fast_commits.replay import (
    FastCommitRecord,
    FastCommitReplayer,
    ReplayContext,
    replay_records,
)
from ext4kit.journal.fast_commits.scan import WHERE
from ext4kit.journal.log import Log
from ext4kit.parsers.fast_commit import InodeValue, TagKind
from ext4kit.problems import Problems, Severity

MAX_INTERMEDIATE = 64  # each needs a separate replay


@dataclass(frozen=True, slots=True)
class IntermediateState:
    """The file system between two fast commits.

    Attributes:
        changed: the blocks that the fast commits up to this point change.
        numbers: int64, inodes that they created or changed and that the next one removes.
    """

    changed: ChangedBlocks
    numbers: Int64s


def find_intermediate_states(log: Log, before: FileSystem) -> list[IntermediateState]:
    """The states before each fast commit that removes an inode of an earlier fast commit.

    The last state of such an inode is in no transaction. The file system before or after all
    fast commits does not have it either.

    Args:
        log: the log.
        before: the file system with the log's transactions replayed.

    Returns:
        The last `MAX_INTERMEDIATE` states, oldest first.
    """
    records = replay_records(log)
    due, found = ReplayContext.of(log, records, before), []
    removals = sorted(_inodes_removed_later(records).items())
    if len(removals) > MAX_INTERMEDIATE:
        what = f"{len(removals)} of them remove inodes; only the last {MAX_INTERMEDIATE} are used"
        log.problems.add(WHERE, what, Severity.WARNING)
    for commit, numbers in removals[-MAX_INTERMEDIATE:]:
        earlier = [one for one in records if one.commit < commit]
        try:
            changed = FastCommitReplayer(Problems(), before, due).run(earlier)
        except (AccessError, CorruptError, RequestError):
            continue  # reported when all fast commits were replayed
        found.append(IntermediateState(changed, np.array(sorted(numbers), np.int64)))
    return found


def _inodes_removed_later(records: list[FastCommitRecord]) -> dict[int, set[int]]:
    """Commit -> inodes that earlier commits created or changed and that it removes."""
    last_tags: dict[int, tuple[int, int]] = {}  # inode -> (the last commit with it, its generation)
    ends = {(one.commit, _inode_of(one)): one for one in records if _is_linked_inode(one)}
    removed: dict[int, set[int]] = {}
    for one in records:
        number = _inode_of(one)
        if one.kind == TagKind.UNLINK and number in last_tags:
            commit, generation = last_tags[number]
            stays = _generation(ends.get((one.commit, number))) == generation
            if commit < one.commit and not stays:
                removed.setdefault(one.commit, set()).add(number)
        elif _is_linked_inode(one):
            last_tags[number] = one.commit, _generation(one)
    return removed


def _inode_of(record: FastCommitRecord) -> int:
    """Inode number of a record, -1 for none."""
    return -1 if record.value is None else record.value.inode


def _is_linked_inode(record: FastCommitRecord) -> bool:
    """Whether a record is an INODE tag of a linked inode."""
    value = record.value
    return isinstance(value, InodeValue) and value.links_count > 0


def _generation(record: FastCommitRecord | None) -> int:
    """`i_generation` of an INODE tag, -1 without one."""
    value = None if record is None else record.value
    return value.generation if isinstance(value, InodeValue) else -1
