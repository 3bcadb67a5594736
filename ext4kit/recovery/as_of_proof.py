"""What recovery tells of contents that changed after the time that `--as-of` shows."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from ext4kit.as_of import AsOfFileSystem
from ext4kit.as_of.content_certainty import COMPARED_FIELDS
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY

_States = dict[tuple[int, int], list[tuple[Inode, GradedContent]]]


def vouch_by_recovery(fs: FileSystem) -> None:
    """Let a file system as of a transaction grade contents that changed later as `recover` does.

    The journal is searched when a content is first in doubt.
    """
    assert isinstance(fs, AsOfFileSystem)
    found = cache(lambda: _recovered_states(fs.now, fs.moment.order))

    def content(inode: Inode) -> GradedContent | None:
        for state, graded in found().get((inode.number, inode.generation), ()):
            if all(getattr(state, name) == getattr(inode, name) for name in COMPARED_FIELDS):
                return graded
        return None

    fs.vouch_by(content)


def _recovered_states(now: FileSystem, tid: int) -> _States:
    """(inode, generation) -> states with their contents, the last one first; none if it fails."""
    quiet = FileSystem(now.blocks, now.superblock, Problems())  # `recover` reports its problems
    quiet.journal_device = now.journal_device
    found: _States = defaultdict(list)
    try:
        files = find_deleted(quiet, sources=JOURNAL_ONLY, as_of=tid).files
    except Ext4kitError:
        return {}
    for file in files:
        if file.inode is not None and file.kind == "file":
            content = file.content() or Content(now.blocks, 0)
            states = found[file.inode.number, file.inode.generation]
            at = len(states) if file.superseded else 0
            states.insert(at, (file.inode, GradedContent(content, file.grade, file.reasons)))
    return found
