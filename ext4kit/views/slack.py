"""The slack of files: the bytes after the end of each file in the blocks that it has.

A file of the view has the path of the file whose slack it is. It begins at the end of that file, in
its last block, and goes on in blocks that were reserved for it beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ext4kit.fields import FileType
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.live_view import LiveNode, LiveView
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.parsers.inode import InodeTable


@dataclass(frozen=True)
class SlackNode(Node):
    """The slack of a file; its inode is that of the file."""

    slack: Content = field(kw_only=True, repr=False, compare=False)

    @property
    def kind(self) -> FileType:
        """A file, also the slack of a symlink."""
        return "file"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.slack.size

    def content(self) -> Content:
        """The bytes."""
        return self.slack


class SlackView(View):
    """The slack that is not all zeros, by the path of the file; a directory is read at first use.

    Args:
        fs: the file system.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        super().__init__(self._folder(LiveView(fs).root))

    def _folder(self, node: Node) -> Folder:
        identity = NodeId("slack", node.id.inode, node.id.generation, node.id.detail)
        return Folder(identity, node.path, node.inode, fill=partial(self._inside, node))

    def _inside(self, node: Node) -> Iterable[Node]:
        files = []
        for below in node.children():
            if below.kind == "directory":
                yield self._folder(below)
            elif isinstance(below, LiveNode) and below.kind in ("file", "symlink"):
                files.append(below)
        if not files:
            return
        table = self._fs.inode_table(np.array([each.id.inode for each in files], np.int64))
        for row, slack in _slack_of(self._fs, table):
            file = files[row]
            identity = NodeId("slack", file.id.inode, file.id.generation)
            yield SlackNode(identity, file.path, file.inode, slack=slack)


def _slack_of(fs: FileSystem, table: InodeTable) -> Iterable[tuple[int, Content]]:
    """(row, slack) of the files that have slack with data, or slack that cannot be read."""
    size, runs = fs.superblock.block_size, fs.map_table(table).runs
    used = np.clip(table.size[runs.owner] - runs.logical * size, 0, runs.length * size)
    blocks, skip = np.divmod(used, size)
    tails = replace(
        runs,
        logical=runs.logical + blocks,
        physical=runs.physical + blocks,
        length=runs.length - blocks,
        unwritten=np.zeros(len(runs), bool),  # what is there is wanted
    )
    kept = np.flatnonzero(tails.length > 0)
    tails, skip = tails.take(kept), skip[kept]
    rows, first = np.unique(tails.owner, return_index=True)
    ends = np.append(first, len(tails))[1:]
    for row, start, end in zip(rows.tolist(), first.tolist(), ends.tolist(), strict=True):
        slack = _joined(fs, tails.take(slice(start, end)), int(skip[start]))
        if any(chunk.lost or np.any(chunk.data) for chunk in slack.chunks()):
            yield row, slack


def _joined(fs: FileSystem, runs: Runs, skip: int) -> Content:
    """The blocks of runs one after the other, without the first bytes."""
    end = np.cumsum(runs.length)
    size = int(end[-1]) * fs.superblock.block_size - skip
    return Content(fs.blocks, size, replace(runs, logical=end - runs.length), skip=skip)
