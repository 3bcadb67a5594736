"""What recovery proves of files that were deleted after the time that `--as-of` shows."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from ext4kit.as_of import AsOfFileSystem
from ext4kit.as_of.content_certainty import COMPARED_FIELDS
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import Content
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems
from ext4kit.recovery.model import Grade
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY


def vouch_by_recovery(fs: FileSystem) -> None:
    """Let a file system as of a transaction vouch for contents that recovery grades intact.

    The journal is searched for deleted files when a content is first in doubt.
    """
    assert isinstance(fs, AsOfFileSystem)
    found = cache(lambda: _intact_files(fs.now))

    def content(inode: Inode) -> Content | None:
        for last, kept in found().get((inode.number, inode.generation), ()):
            if all(getattr(last, name) == getattr(inode, name) for name in COMPARED_FIELDS):
                return kept
        return None

    fs.vouch_by(content)


def _intact_files(now: FileSystem) -> dict[tuple[int, int], list[tuple[Inode, Content]]]:
    """(inode, generation) -> (last state, content) of intact deleted files; what fails has none."""
    quiet = FileSystem(now.blocks, now.superblock, Problems())  # `recover` reports its problems
    quiet.journal_device = now.journal_device
    found = defaultdict(list)
    try:
        files = find_deleted(quiet, sources=JOURNAL_ONLY).files
    except Ext4kitError:
        return {}
    for file in files:
        content = file.content()
        if file.grade is Grade.INTACT and file.inode is not None and content is not None:
            found[file.inode.number, file.inode.generation].append((file.inode, content))
    return found
