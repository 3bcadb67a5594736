"""What recovery tells of contents that changed after the time that `--as-of` shows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.as_of import AsOfFileSystem
from ext4kit.as_of.content_certainty import RecoveredContents, are_same
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.history import read_history
from ext4kit.parsers.inode import InodeTable
from ext4kit.problems import Problems
from ext4kit.recovery.grading.unlogged_reuse import last_unclean_shutdown
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.records import FoundFiles
from ext4kit.recovery.search_sources import JOURNAL_ONLY


def vouch_by_recovery(fs: FileSystem) -> None:
    """Let a file system as of a transaction grade contents that changed later as `recover` does.

    The journal is searched when a content is first in doubt.
    """
    assert isinstance(fs, AsOfFileSystem)
    tid = fs.moment.order
    found = cache(lambda: _recovered_contents(fs.now, tid))
    fs.vouch_by(lambda table: found()(table), lambda: _may_be_unclean(fs.now, tid))


def _quiet(now: FileSystem) -> FileSystem:
    """The same file system with problems of its own, which `recover` reports."""
    quiet = FileSystem(now.blocks, now.superblock, Problems())
    quiet.journal_device = now.journal_device
    return quiet


def _may_be_unclean(now: FileSystem, tid: int) -> bool:
    """Whether the file system may have gone down without an unmount after a transaction."""
    if now.superblock.needs_recovery:
        return True
    history = read_history(_quiet(now), directories_only=True)
    return last_unclean_shutdown(history) >= tid


def _recovered_contents(now: FileSystem, tid: int) -> RecoveredContents:
    """From inodes as of a tid, their contents; no content if the search fails."""
    try:
        files = find_deleted(_quiet(now), sources=JOURNAL_ONLY, as_of=tid).files
    except Ext4kitError:
        return lambda table: [None] * len(table)
    assert isinstance(files, FoundFiles)
    states, candidates = files.blocks.history.states.table, files.blocks.candidates
    state = candidates.state_row
    keys = states.number[state] << 32 | states.generation[state]
    order = np.lexsort((candidates.superseded, keys))  # of each file the last state comes first
    keys = keys[order]

    def contents(table: InodeTable) -> list[GradedContent | None]:
        wanted = table.number << 32 | table.generation
        first, end = (np.searchsorted(keys, wanted, side) for side in ("left", "right"))
        row, position = expand(end - first)
        candidate = order[first[row] + position]
        same = are_same(table.take(row), states.take(state[candidate]))
        row, place = np.unique(row[same], return_index=True)
        found: list[GradedContent | None] = [None] * len(table)
        for at, file in zip(row.tolist(), replace(files, rows=candidate[same][place]), strict=True):
            content = file.content() or Content(now.blocks, 0)
            found[at] = GradedContent(content, file.grade, file.reasons)
        return found

    return contents
