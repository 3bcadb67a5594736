"""Views: trees of files that every front end can list, read and search in the same way.

A node gives its children and its content; a view finds nodes and walks over them. The live file
system, deleted files, versions and unallocated space all have this interface (`ext4kit/views`), so
that a command that accepts one view accepts all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, NotFoundError
from ext4kit.fields import FileType
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.parsers.inode import Inode
from ext4kit.reasons import Reason
from ext4kit.selection import Selection

AT_ONCE = 1 << 13
MAX_DEPTH = 4096  # names in the longest path that the kernel accepts
_SYNTHETIC = 1 << 63  # set in the numbers of nodes without an inode of the live tree


class NodeId(NamedTuple):
    """Identity of a node, the same in every run on the same evidence.

    Attributes:
        state: the view: "live", "deleted", "tid-4711" ...
        inode: inode number; 0 for none.
        generation: generation of the inode.
        detail: distinguishes nodes of the same inode, or identifies a node without an inode.
    """

    state: str
    inode: int = 0
    generation: int = 0
    detail: str = ""

    def __str__(self) -> str:
        inode = f"{self.inode}-{self.generation}" if self.inode else ""
        return ":".join(part for part in (self.state, inode, self.detail) if part)

    @property
    def number(self) -> int:
        """A number of 64 bits for `st_ino`: the inode number in the live tree, else a hash."""
        if self.state == LIVE and self.inode:
            return self.inode
        digest = blake2b(str(self).encode("utf-8", "surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest, "little") | _SYNTHETIC


class FileState(StrEnum):
    """Whether a file exists, was deleted, or is an earlier version of a file."""

    LIVE = "live"
    DELETED = "deleted"
    EARLIER = "earlier"


_FILE_STATES = frozenset(FileState)


@dataclass(frozen=True)
class Node:
    """A file, directory, link or device of a view.

    Attributes:
        id: its identity.
        path: full path in the view; b"/" for the root.
        inode: state of the inode; None if the node has no inode or its state is unknown.
    """

    id: NodeId
    path: bytes
    inode: Inode | None = field(default=None, repr=False)

    @property
    def name(self) -> bytes:
        """Name in its directory."""
        return self.path.rpartition(b"/")[2]

    @property
    def file_state(self) -> FileState:
        """Its state; live in the tree of any file system."""
        return FileState(self.id.state) if self.id.state in _FILE_STATES else FileState.LIVE

    @property
    def kind(self) -> FileType:
        """File type."""
        return "file" if self.inode is None else self.inode.kind

    @property
    def size(self) -> int | None:
        """Bytes, None if unknown."""
        return None if self.inode is None else self.inode.size

    @property
    def further_paths(self) -> Sequence[bytes]:
        """Other full paths of the node, present or former."""
        return ()

    @property
    def number(self) -> int | None:
        """Inode number."""
        return self.id.inode or None

    @property
    def content_inodes(self) -> tuple[int, ...]:
        """Numbers of the inodes that have its content: several of merged directories, or none."""
        return (self.id.inode,) if self.id.inode else ()

    @property
    def layer_path(self) -> bytes | None:
        """Path in the image of the file in its layer of overlayfs; None without layers."""
        return None

    @property
    def uid(self) -> int | None:
        """Owner."""
        return None if self.inode is None else self.inode.uid

    @property
    def mtime(self) -> int | None:
        """Last modification, ns."""
        return None if self.inode is None else self.inode.mtime

    @property
    def deletion_time(self) -> int | None:
        """Deletion time, ns."""
        return None

    @property
    def grade(self) -> str | None:
        """Grade of the content; None for a live file."""
        return None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the content is uncertain or incomplete."""
        return ()

    def children(self) -> Iterable[Node]:
        """The nodes in this directory, sorted by name; none in a file."""
        return ()

    def child(self, name: bytes) -> Node | None:
        """The child with a name; None if there is none."""
        return next((node for node in self.children() if node.name == name), None)

    def content(self) -> Content | None:
        """The content of a file; None if it has none.

        Raises:
            CorruptError: the inode or its block map cannot be read.
        """
        return None

    def readable(self) -> Content | None:
        """The content of a file; None if it has none, or if its map cannot be read."""
        try:
            return self.content()
        except (AccessError, CorruptError):
            return None

    def link_target(self) -> bytes | None:
        """The target of a symlink.

        Raises:
            AccessError: the target cannot be read.
        """
        return None

    def xattrs(self) -> Mapping[bytes, bytes]:
        """Extended attributes."""
        return {}

    @property
    def identity(self) -> NodeId:
        """Tells it apart from all other nodes."""
        return self.id

    def head(self) -> bytes:
        """Start of the content; b"" if there is none or it cannot be read."""
        content = self.readable() if self.kind == "file" else None
        try:
            return b"" if content is None else content.head()
        except (AccessError, CorruptError):
            return b""


@dataclass(frozen=True)
class Folder(Node):
    """A directory without an inode, whose children a function returns."""

    fill: Callable[[], Iterable[Node]] = field(default=tuple, repr=False, compare=False)

    @property
    def kind(self) -> FileType:
        """A directory."""
        return "directory"

    @cached_property
    def _by_name(self) -> dict[bytes, Node]:
        return {node.name: node for node in self.fill()}

    def children(self) -> Iterable[Node]:
        """The children, by name."""
        return (node for _, node in sorted(self._by_name.items()))

    def child(self, name: bytes) -> Node | None:
        """The child with a name."""
        return self._by_name.get(name)


@dataclass(frozen=True)
class WalkBatch(ABC):
    """Some consecutive nodes of a walk.

    Attributes:
        end: number of names examined so far, including this batch.
        total: number of names in the whole walk, estimated if very large; `end` if unknown.
    """

    end: int
    total: int

    @property
    @abstractmethod
    def paths(self) -> list[bytes]:
        """Full path of each node."""

    @property
    @abstractmethod
    def nodes(self) -> Iterable[Node]:
        """The nodes."""

    @property
    @abstractmethod
    def sizes(self) -> Int64s:
        """Bytes of each, 0 where they are unknown."""

    @abstractmethod
    def node(self, row: int) -> Node:
        """One of the nodes."""

    @abstractmethod
    def runs(self) -> Runs:
        """The runs of all contents; the owner of each is a row of the batch."""


@dataclass(frozen=True)
class NodeBatch(WalkBatch):
    """Nodes that exist as objects."""

    found: Sequence[Node]

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes."""
        return self.found

    @property
    def paths(self) -> list[bytes]:
        """Full path of each node."""
        return [node.path for node in self.found]

    @property
    def sizes(self) -> Int64s:
        """Bytes of each, 0 where they are unknown."""
        return np.array([node.size or 0 for node in self.found], np.int64)

    def node(self, row: int) -> Node:
        """One of the nodes."""
        return self.found[row]

    def runs(self) -> Runs:
        """The runs of all contents; the owner of each is a row of the batch."""
        parts = [Runs.empty()]
        for row, node in enumerate(self.nodes):
            content = node.readable() if node.kind == "file" else None
            if content is not None and content.runs is not None:
                parts.append(content.runs.owned_by(row))
        return Runs.concat(parts)


class View:
    """A tree of nodes.

    Args:
        root: the root directory.
    """

    def __init__(self, root: Node) -> None:
        self.root = root

    def lookup(self, path: str | bytes) -> Node:
        """The node at a path.

        Raises:
            NotFoundError: there is no node at the path.
        """
        raw = path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path
        node = self.root
        for part in raw.split(b"/"):
            below = node if part in (b"", b".") else node.child(part)
            if below is None:
                raise NotFoundError(raw, "no such file or directory in this view")
            node = below
        return node

    def walk(
        self, selection: Selection | None = None, start: Node | None = None, at_once: int = AT_ONCE
    ) -> Iterator[WalkBatch]:
        """The selected nodes below a directory, depth first, in batches.

        Args:
            selection: the conditions; by default, all nodes are selected.
            start: the directory; by default, the root.
            at_once: number of nodes per batch.
        """
        wanted, end = selection or Selection(), 0
        nodes = _below(start or self.root)
        while some := list(islice(nodes, at_once)):
            end += len(some)
            yield NodeBatch(end, end, [node for node in some if wanted.selects(node)])


def free_name(name: bytes, taken: Container[bytes]) -> bytes:
    """A name that is not taken: the name itself, or the name followed by `~2`, `~3` ..."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = b"%s~%d" % (name, number)
    return free


def _below(start: Node) -> Iterator[Node]:
    """All nodes below a directory, depth first; loops of directories are not followed."""
    waiting = [(iter(start.children()), start.id)]
    entered = {start.id}
    while waiting:
        node = next(waiting[-1][0], None)
        if node is None:
            entered.discard(waiting.pop()[1])
            continue
        yield node
        if node.kind == "directory" and node.id not in entered and len(waiting) < MAX_DEPTH:
            waiting.append((iter(node.children()), node.id))
            entered.add(node.id)
