"""Deleted files, removed names and grades: the results of recovery."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from ext4kit.fields import FileType
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import NodeId
from ext4kit.grades import Grade as Grade
from ext4kit.history.places import Ground
from ext4kit.history.wiping import Wiping
from ext4kit.parsers.inode import Inode
from ext4kit.reasons import Reason, texts

if TYPE_CHECKING:
    from ext4kit.filetypes.identify import Kind
    from ext4kit.recovery.evidence_places import EvidencePlaces
    from ext4kit.recovery.xattrs import FileXattrs


class DeletionGround(StrEnum):
    """The evidence for a deletion time.

    All kinds except `FREED` are upper bounds: the file was deleted then or earlier.
    """

    FREED = "freed"  # the deletion time in the freed inode
    COMMIT = "commit"  # commit time of the first transaction that shows it deleted
    UNLINKED = "unlinked"  # ctime of the inode without links, which unlinking sets
    REUSED = "reused"  # creation time of the next file with its inode number
    OVERWRITTEN = "overwritten"  # creation time of the file system that overwrote the file's own


DeletionTime = tuple[int, DeletionGround]  # ns since 1970, and the evidence for it

Sources = dict[Literal["inode", "map", "name", "content", "digest", "xattrs"], str]


@dataclass(frozen=True, slots=True)
class TransactionTime:
    """A transaction and its commit time (ns), None if unknown."""

    transaction: int
    time: int | None


@dataclass(frozen=True, slots=True)
class ReusedRange:
    """Bytes of a deleted file that were reused, and their later owner."""

    offset: int
    length: int
    owner: str


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A deleted file, directory, link or device, or an earlier version of a file.

    Attributes:
        path: the last full path, None if unknown; name: the last name, None if unknown.
        path_ground: evidence for the path; None without a path and in a lost file system.
        inode: the recovered state of the inode; None for content without an inode.
        size: bytes; None if unknown.
        dtime: when the inode was freed (ns), None if unknown.
        deleted_between: the last transaction that shows the file linked, and the first one that
            shows it without a link.
        blocks: number of content blocks; blocks_reused: number of these with a later owner.
        lost: byte ranges with a later owner.
        sources: provenance of inode, map and name.
        reasons: why the file is not intact, and notes on its content, in the order of the checks.
        superseded: whether this is an earlier version of a file that changed afterwards.
        other_paths: other full paths that the file had when it was deleted (hard links).
        former_paths: full paths that the file had before, the oldest first.
        partial_path: path below `inode-NUMBER-GENERATION`, a directory whose path is unknown;
            without an inode, the path that a live list gives for this content.
        first_block: first block of content that was found without the map of an inode, else None.
        fragment: whether the content is probably a fragment of a file.
        deletion_bound: upper bound of the deletion time from evidence other than transactions.
        wiping: how a wiping program overwrote and renamed it before the deletion; None if nothing
            shows that. Where the true name is known, `path` has it.
        known: name of the list of known files that has its content; "" for none, None where lists
            were not asked.
    """

    path: bytes | None
    name: bytes | None
    inode: Inode | None
    size: int | None
    dtime: int | None
    deleted_between: tuple[TransactionTime | None, TransactionTime | None]
    grade: Grade
    blocks: int
    blocks_reused: int
    lost: tuple[ReusedRange, ...]
    sources: Sources
    reasons: tuple[Reason, ...]
    superseded: bool
    link_target: bytes | None
    other_paths: tuple[bytes, ...] = ()
    former_paths: tuple[bytes, ...] = ()
    partial_path: bytes | None = None
    path_ground: Ground | None = None
    first_block: int | None = None
    fragment: bool = False
    deletion_bound: DeletionTime | None = None
    wiping: Wiping | None = None
    known: str | None = None
    _signature: int = field(repr=False, default=0)
    _content: Content | None = field(repr=False, compare=False, default=None)
    _attributes: Callable[[], FileXattrs] | None = field(repr=False, compare=False, default=None)
    _evidence: Callable[[], EvidencePlaces | None] | None = field(
        repr=False, compare=False, default=None
    )

    def xattrs(self) -> FileXattrs | None:
        """Extended attributes, read on each call; None without an inode."""
        return None if self._attributes is None else self._attributes()

    def evidence(self) -> EvidencePlaces | None:
        """The places of the evidence in the image, as JSON values; None if unknown."""
        return None if self._evidence is None else self._evidence()

    @property
    def further_paths(self) -> tuple[bytes, ...]:
        """Other full paths that the file had when it was deleted or before."""
        last: tuple[bytes, ...] = ()
        if self.path is not None and self.wiping is not None and not self.superseded:
            last = tuple(
                self.path.rpartition(b"/")[0] + b"/" + name for name in self.wiping.names[-1:]
            )
        return self.other_paths + self.former_paths + tuple(one for one in last if one != self.path)

    @property
    def problems(self) -> tuple[str, ...]:
        """Texts of `reasons`."""
        return tuple(texts(self.reasons))

    @property
    def number(self) -> int | None:
        """Inode number."""
        return None if self.inode is None else self.inode.number

    @property
    def generation(self) -> int | None:
        """Inode generation, which distinguishes the instances of an inode number."""
        return None if self.inode is None else self.inode.generation

    @property
    def kind(self) -> FileType:
        """File type."""
        return "file" if self.inode is None else self.inode.kind

    @property
    def mode(self) -> int | None:
        """Type and permission bits."""
        return None if self.inode is None else self.inode.mode

    @property
    def uid(self) -> int | None:
        """Owner."""
        return None if self.inode is None else self.inode.uid

    @property
    def gid(self) -> int | None:
        """Group."""
        return None if self.inode is None else self.inode.gid

    @property
    def atime(self) -> int | None:
        """Last access, ns."""
        return None if self.inode is None else self.inode.atime

    @property
    def mtime(self) -> int | None:
        """Last modification, ns."""
        return None if self.inode is None else self.inode.mtime

    @property
    def ctime(self) -> int | None:
        """Last inode change, ns."""
        return None if self.inode is None else self.inode.ctime

    @property
    def crtime(self) -> int | None:
        """Creation, ns."""
        return None if self.inode is None else self.inode.crtime

    @property
    def device(self) -> tuple[int, int] | None:
        """(major, minor) of a device node."""
        return None if self.inode is None else self.inode.device

    @property
    def deletion(self) -> DeletionTime | None:
        """Time of the deletion, or an upper bound of it; None if unknown."""
        if self.dtime is not None:
            return self.dtime, DeletionGround.FREED
        first_missing = self.deleted_between[1]
        if first_missing is not None and first_missing.time is not None:
            return first_missing.time, DeletionGround.COMMIT
        return self.deletion_bound

    @property
    def deletion_time(self) -> int | None:
        """The time of `deletion`, ns."""
        found = self.deletion
        return None if found is None else found[0]

    @property
    def identity(self) -> NodeId:
        """Tells it apart from all other deleted files, also in another run."""
        if self.inode is None:
            return NodeId("carved", detail=f"block-{self.first_block}")
        if self.superseded:
            state = f"{zlib.crc32(self.inode.raw):08x}"  # one inode may have several
            return NodeId("earlier", self.inode.number, self.inode.generation, state)
        return NodeId("deleted", self.inode.number, self.inode.generation)

    def content(self) -> Content | None:
        """The recoverable bytes, None if there are none."""
        return self._content

    @property
    def extents(self) -> list[tuple[int, int, int]]:
        """(file block, block, blocks) of `content`, without unwritten extents."""
        runs = None if self._content is None else self._content.runs
        if runs is None:
            return []
        columns = runs.logical.tolist(), runs.physical.tolist(), runs.length.tolist()
        rows = zip(*columns, runs.unwritten.tolist(), strict=True)
        return [
            (logical, first, count) for logical, first, count, unwritten in rows if not unwritten
        ]

    @property
    def file_type(self) -> Kind | None:
        """Type according to the content; only for content found without the map of an inode."""
        head = b"" if self.first_block is None else self.head()
        if not head:
            return None
        from ext4kit.filetypes.identify import identify

        return identify(head, self._signature)

    def content_type(self) -> Kind | None:
        """Type according to the content of any regular file, of which the start is read.

        None for ciphertext, and if the start is reused or all zero.
        """
        if self.first_block is not None:
            return self.file_type
        is_encrypted = self.inode is not None and self.inode.is_encrypted
        is_cut = any(part.offset == 0 for part in self.lost)
        head = self.head() if self.kind == "file" and not (is_encrypted or is_cut) else b""
        if not head.strip(b"\0"):
            return None
        from ext4kit.filetypes.categories import identify_head

        return identify_head(head)

    def head(self) -> bytes:
        """Start of the content; b"" if there is none or if it cannot be read."""
        return b"" if self._content is None else self._content.head()


class Unbound(StrEnum):
    """Why a removed entry is not reported as the name of a deleted file."""

    NO_NUMBER = "no-number"
    IN_USE = "in-use"
    NO_INODE = "no-inode"
    OTHER_TYPE = "other-type"
    USED_AGAIN = "used-again"
    GONE_LATER = "gone-later"
    SEVERAL = "several"
    OTHER_NAME = "other-name"
    MOVED = "moved"


MEANINGS = {
    Unbound.NO_NUMBER: "the kernel cleared the inode number, as for each first entry of a block",
    Unbound.IN_USE: "the inode is allocated: to the same file by another name, or to a later file",
    Unbound.NO_INODE: "no state of a deleted inode with this number is left",
    Unbound.OTHER_TYPE: "the inode has another type: the number was reused",
    Unbound.USED_AGAIN: "the inode number was reused, or may have been reused",
    Unbound.GONE_LATER: "the inode was freed after the last change of the directory: the file"
    " then had another name or was still open",
    Unbound.SEVERAL: "several deleted entries may be the last name of the inode",
    Unbound.OTHER_NAME: "the inode had another name later",
    Unbound.MOVED: "the inode had this name; its directory probably had another path at that time",
}


@dataclass(frozen=True, slots=True)
class RemovedName:
    """A removed entry that is not reported as the name of a deleted file.

    Attributes:
        path: path of the entry, from the present path of its directory or the last known path of a
            deleted directory; None if unknown.
        name: the name.
        directory: inode number of the directory.
        inode: inode number in the entry, None if the removal cleared it.
        kind: file type in the entry.
        reason: why the entry is not reported as the name of a deleted file.
    """

    path: bytes | None
    name: bytes
    directory: int
    inode: int | None
    kind: FileType
    reason: Unbound

    @property
    def meaning(self) -> str:
        """Text of the reason."""
        return MEANINGS[self.reason]
