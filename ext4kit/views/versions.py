"""Each regular file as a folder of its versions: `/etc/passwd/1`, `/etc/passwd/2` ..."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from ext4kit.errors import RequestError
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.reasons import Reason
from ext4kit.recovery.file_versions import FileVersion, find_versions
from ext4kit.recovery.search_sources import WITH_INODES
from ext4kit.units import Progress
from ext4kit.workspace import Workspace


@dataclass(frozen=True)
class VersionNode(Node):
    """A version of a file.

    Attributes:
        version: the record of the version.
    """

    version: FileVersion = field(kw_only=True, repr=False, compare=False)

    @property
    def grade(self) -> str | None:
        """Grade of the content; None for the present version."""
        return self.version.grade

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Reasons why the content is not intact."""
        return () if self.version.file is None else self.version.file.reasons

    @property
    def deletion_time(self) -> int | None:
        """Time of the deletion, ns."""
        return None if self.version.file is None else self.version.file.deletion_time

    def content(self) -> Content | None:
        """The bytes of the version; None if nothing is left."""
        return self.version.content


class VersionsView(View):
    """The versions of all files.

    Args:
        workspace: the workspace of the file system.
        files: tree of the live and the deleted files.
        progress: called with (done, total) during the search of each file.
    """

    def __init__(self, workspace: Workspace, files: View, progress: Progress | None = None) -> None:
        self._workspace, self._progress = workspace, progress
        super().__init__(self._folder(files.root))

    def _folder(self, node: Node) -> Folder:
        """A directory of the view, with a folder for each file in the original directory."""
        is_directory = node.kind == "directory"
        fill = partial(self._inside, node) if is_directory else partial(self.of, node.path)
        name = node.path.decode("utf-8", "surrogateescape")
        inode = node.inode if is_directory else None
        return Folder(NodeId("versions", detail=name), node.path, inode, fill=fill)

    def _inside(self, node: Node) -> Iterable[Node]:
        each = node.children()
        return (self._folder(below) for below in each if below.kind in ("directory", "file"))

    def of(self, path: bytes) -> Iterable[Node]:
        """The versions of the file at a path, oldest first; empty if it has none."""
        try:
            found = find_versions(self._workspace, path, WITH_INODES, self._progress)
        except RequestError:
            return
        for version in found:
            inode = version.inode
            detail = f"{version.number}:{zlib.crc32(inode.raw):08x}"
            identity = NodeId("version", inode.number, inode.generation, detail)
            yield VersionNode(identity, path + b"/%d" % version.number, inode, version=version)
