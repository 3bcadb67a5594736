"""The file system: one read-only object over one block reader."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.errors import CorruptError, NotFoundError, RequestError, path_text
from ext4kit.evidence.source import Source
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks
from ext4kit.filesystem.directories import (
    DirEntry,
    DirListing,
    DirTree,
    EntryFilter,
    TreeLevel,
    read_directories,
    read_tree,
)
from ext4kit.filesystem.inodes import INODES_AT_ONCE, ROOT, Inodes
from ext4kit.filesystem.superblocks import read_superblock
from ext4kit.parsers.inode import Inode
from ext4kit.parsers.superblock import SUPERBLOCK, Superblock, judge
from ext4kit.problems import Problems
from ext4kit.units import TransactionId

if TYPE_CHECKING:
    from ext4kit.filesystem.overwritten import OverwrittenStart

FOLDER = b"unattached"  # holds trees that cannot be reached from the root
LIVE, LOST = "live", "lost"  # states of a file system
INODES_OF_A_TREE = 1 << 20  # with more inodes in use, a tree is listed in pieces
XATTR_VALUE_LIMIT = 1 << 26


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """A path and its inode; the inode is None if its number is invalid or the root is destroyed."""

    path: bytes
    number: int
    inode: Inode | None


class FileSystem(Inodes):
    """An ext2, ext3 or ext4 file system: inodes with names.

    Attributes:
        journal_device: the external journal device, if one was given.
        as_of: stored tid of the transaction whose state is shown; None for the present.
        as_of_time: commit time of that transaction, ns; -1 if unknown.
        overwritten: if foreign data overwrote the start, the source without these bytes.
    """

    journal_device: Source | None = None
    overwritten: OverwrittenStart | None = None
    as_of: TransactionId | None = None
    as_of_time: int = -1

    @property
    def state(self) -> str:
        """The state in one word, as in the identity of nodes: "live", "tid-4711", "lost"."""
        return LIVE if self.as_of is None else f"tid-{self.as_of}"

    @classmethod
    def from_source(cls, source: Source, superblock: int | None = None) -> FileSystem:
        """The file system on disk, without replaying the journal.

        Args:
            source: the volume's bytes.
            superblock: block number of the superblock copy to use.

        Raises:
            UnsupportedError: the volume is not ext2/3/4.
            RequestError: no superblock at the requested block.
        """
        problems = Problems()
        chosen = read_superblock(source, superblock, problems)
        blocks = SourceBlocks(source, chosen.block_size, chosen.blocks_count)
        if blocks.blocks_count < chosen.blocks_count:
            lost = chosen.blocks_count - blocks.blocks_count
            problems.add("evidence", f"ends early: {lost:,} of {chosen.blocks_count:,} blocks lost")
        for name, how in chosen.features.gaps.items():
            problems.add("superblock", f"feature {name} is {how}")
        fs = cls(blocks, chosen, problems)
        if chosen.group_number or fs.groups_were_damaged:
            from ext4kit.filesystem.overwritten import without_overwritten

            if start := without_overwritten(fs, source):
                rest = SourceBlocks(start, chosen.block_size, chosen.blocks_count)
                fs = cls(rest, chosen, problems)
                fs.overwritten = start
        return fs

    def with_blocks(self, blocks: BlockReader) -> FileSystem:
        """The same file system, read through another block reader (such as a replayed journal)."""
        superblock = self.superblock
        if superblock.group_number == 0:
            block, offset = divmod(1024, superblock.block_size)
            data = blocks.read(block)[offset : offset + SUPERBLOCK.size]
            later = Superblock.parse(data)
            wrong = judge(later)
            if wrong is None and later.block_size != superblock.block_size:
                wrong = f"block size {later.block_size}"
            if wrong is None:
                superblock = later
            else:
                self.problems.add("superblock", f"the log's copy is not used: {wrong}")
        other = FileSystem(blocks, superblock, self.problems)
        other.journal_device, other.overwritten = self.journal_device, self.overwritten
        return other

    def xattrs(self, inode: Inode) -> dict[bytes, bytes]:
        """Extended attributes as `listxattr` and `getxattr` return them, including ACLs."""
        from ext4kit.filesystem.xattrs import read_xattrs

        block, where = None, f"inode {inode.number}"
        if inode.file_acl:
            rows, readable = self.fetch(np.array([inode.file_acl]))
            block = rows[0].tobytes() if readable[0] else None
            if block is None:
                self.problems.add(where, f"xattr block {inode.file_acl} {self.unreadable}")
        left = XATTR_VALUE_LIMIT

        def value(number: int, size: int) -> bytes:
            """A value in a separate inode (ea_inode), which has no holes."""
            nonlocal left
            content = self.content(self.inode(number))
            if size > min(left, content.size, content.stored):
                raise CorruptError("extended attribute", None, f"a value of {size:,} bytes")
            data = content.read(0, size)
            left -= len(data)
            return data

        return read_xattrs(inode.raw, inode.extra_isize, block, value, self.problems, where)

    # -- names ----------------------------------------------------------------------------

    def entries(self, number: int) -> list[DirEntry]:
        """The entries of one directory, `.` and `..` included.

        Raises:
            RequestError: the inode is not a directory.
        """
        inode = self.inode(number)
        if not inode.is_directory:
            raise RequestError(f"inode {number} is a {inode.kind}, not a directory")
        listing = self._listing(number)
        columns = (listing.names.tolist(), listing.inode.tolist(), listing.file_type.tolist())
        return [DirEntry(*values) for values in zip(*columns, strict=True)]

    def _listing(self, number: int) -> DirListing:
        return read_directories(self, self.inode_table(np.array([number])))

    def lookup(self, target: str | bytes) -> int:
        """The inode number for a path or for `<12>`.

        Raises:
            RequestError: the path does not exist.
        """
        path = target.encode("utf-8", "surrogateescape") if isinstance(target, str) else target
        if path.startswith(b"<") and path.endswith(b">") and path[1:-1].isdigit():
            return self.inode(int(path[1:-1])).number
        number, parts = ROOT, [part for part in path.split(b"/") if part not in (b"", b".")]
        if parts[:1] == [FOLDER] and len(parts) > 1 and not self.has_name(ROOT, FOLDER):
            number, parts = self._top(parts[1], path), parts[2:]
        for part in parts:
            number = self._lookup_child(number, part, path)
        return number

    def has_entries(self, number: int) -> bool:
        """Whether an inode is a directory; True for the root directory even if it is destroyed."""
        return number == ROOT or self.inode(number).is_directory

    def has_name(self, number: int, name: bytes) -> bool:
        """Whether a directory has an entry of that name."""
        if number == ROOT and self.root_is_lost:
            return False
        return name in self._listing(number).names.tolist()

    def _top(self, name: bytes, path: bytes) -> int:
        """The inode number of a name in `/unattached`."""
        number = name.removeprefix(b"inode-")
        if number == name or not number.isdigit():
            raise NotFoundError(path)
        return self.inode(int(number)).number

    def _lookup_child(self, number: int, name: bytes, path: bytes) -> int:
        shown = path_text(path)
        if number == ROOT and self.root_is_lost:
            raise RequestError(f"{shown}: the root directory is destroyed; see ls /unattached")
        if not self.inode(number).is_directory:
            raise RequestError(f"{shown}: a part of the path is not a directory")
        listing = self._listing(number)
        names = listing.names.tolist()
        if name in names:
            return int(listing.inode[names.index(name)])
        raise NotFoundError(path)

    def open(self, path: str | bytes) -> io.BufferedReader:
        """A regular file as a binary file object (see `Content.open`).

        Args:
            path: the path, or `<12>` for an inode number; links are not followed.

        Raises:
            RequestError: no such path, no regular file, a free inode, or an encrypted file.
        """
        inode = self.inode(self.lookup(path))
        what = f"inode {inode.number}"
        if self.is_free(inode):
            raise RequestError(f"{what} is free; `find_deleted` gives what is left of its file")
        if inode.kind != "file":
            raise RequestError(f"{what} is a {inode.kind}, not a regular file")
        if inode.is_encrypted:
            raise RequestError(f"{what} is encrypted; `content` gives the ciphertext")
        if doubt := self.content_uncertainty(inode):
            self.problems.add(what, doubt.text)
        return self.content(inode).open()

    def tree(
        self, number: int = ROOT, path: bytes = b"", only: EntryFilter | None = None
    ) -> DirTree:
        """The entries below a directory, in the order of a depth-first walk.

        Args:
            number: inode number of the directory.
            path: its path.
            only: filter of the entries other than directories; all are kept by default.
        """
        if number != ROOT:
            return read_tree(self, number, path, only)
        errors = self.problems.errors
        found = DirTree.empty() if self.root_is_lost else read_tree(self, number, path, only)
        more = self._unattached_tree(errors, path, only)
        return found if more is None else found.followed_by(more)

    def tree_pieces(self, number: int = ROOT, path: bytes = b"") -> Iterator[DirTree]:
        """The result of `tree`, in consecutive pieces if the file system has very many inodes."""
        if self._inodes_in_use <= INODES_OF_A_TREE or (number == ROOT and self.root_is_lost):
            yield self.tree(number, path)
            return
        from ext4kit.filesystem.tree_pieces import read_tree_pieces

        errors = self.problems.errors
        yield from read_tree_pieces(self, number, path)
        more = self._unattached_tree(errors, path, None) if number == ROOT else None
        if more is not None:
            yield more

    def _unattached_tree(
        self, errors: int, path: bytes, only: EntryFilter | None
    ) -> DirTree | None:
        """The trees that cannot be reached from the root; None if the tree shows no damage.

        Args:
            errors: number of problems before the tree was read.
            path: path of the root.
            only: as for `tree`.
        """
        is_damaged = self.root_is_lost or self.groups_were_damaged
        if self.tree_was_cut or not (is_damaged or self.problems.errors > errors):
            return None
        if self.as_of is not None:  # unknown entries are not missing ones
            return None
        from ext4kit.filesystem.directories import read_trees_below
        from ext4kit.filesystem.unattached import kept_by

        tops = kept_by(self.unattached, only)
        return read_trees_below(self, tops, path + b"/" + FOLDER, only) if len(tops) else None

    @cached_property
    def root_is_lost(self) -> bool:
        """Whether inode 2 is not a directory any more."""
        if self.as_of is not None:
            return False
        (lost,) = ~self.inode_table(np.array([ROOT])).is_dir
        if lost:
            what = "the root directory is destroyed"
            self.problems.add(f"inode {ROOT}", what)
        return bool(lost)

    @cached_property
    def unattached(self) -> TreeLevel:
        """The tops of all trees that cannot be reached from the root (`unattached.py`)."""
        from ext4kit.filesystem.unattached import find_unattached

        reached = np.zeros(0, np.int64) if self.root_is_lost else read_tree(self, ROOT).inode
        found = find_unattached(self, reached)
        if count := len(found):
            what = "file or tree is" if count == 1 else "files and trees are"
            where = "listed in /unattached by inode number"
            text = f"{count:,} {what} not reached from the root directory; {where}"
            self.problems.add("directories", text)
        return found

    def names_expected(self, number: int = ROOT) -> int:
        """Estimated number of names in `tree_pieces` of the root; 0 if it has only one piece."""
        is_cut = number == ROOT and self._inodes_in_use > INODES_OF_A_TREE
        return self._inodes_in_use if is_cut else 0

    @property
    def _inodes_in_use(self) -> int:
        """Number of inodes in use according to the group descriptors, which may be wrong."""
        return self.superblock.inodes_count - int(self.groups.free_inodes_count.sum())

    def walk(self, path: str | bytes = b"/") -> Iterator[WalkEntry]:
        """The path itself, then all entries below it, depth first."""
        raw = path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path
        start = self.lookup(raw)
        is_lost = start == ROOT and self.root_is_lost
        yield WalkEntry(b"/" + raw.strip(b"/"), start, None if is_lost else self.inode(start))
        if not self.has_entries(start):
            return
        for tree in self.tree_pieces(start, (b"/" + raw.strip(b"/")).rstrip(b"/")):
            for some in tree.batches(INODES_AT_ONCE):
                numbers = tree.inode[some]
                each = zip(tree.paths_of(some), numbers.tolist(), strict=True)
                table = self.inode_table(numbers)
                for row, (entry, number) in enumerate(each):
                    exists = 0 < number <= self.superblock.inodes_count
                    yield WalkEntry(entry, number, table.one(row) if exists else None)

    def is_free(self, inode: Inode) -> bool:
        """Whether an inode belongs to no file: it has no link and is no orphan."""
        number = inode.number
        is_linked = inode.links_count or number < self.superblock.first_usable_inode
        return not is_linked and number not in self.orphans

    @cached_property
    def orphans(self) -> list[int]:
        """Inodes unlinked while open or being truncated, from the orphan list and orphan file."""
        from ext4kit.filesystem.orphans import read_orphans

        return read_orphans(self)
