"""The file system: one read-only object over one block reader."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.errors import CorruptError, RequestError, path_text
from ext4kit.evidence.source import Source
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks
from ext4kit.filesystem.directories import (
    DirEntry,
    DirListing,
    DirTree,
    EntryFilter,
    read_directories,
    read_tree,
)
from ext4kit.filesystem.inodes import INODES_AT_ONCE, Inodes
from ext4kit.filesystem.superblocks import read_superblock
from ext4kit.parsers.inode import Inode
from ext4kit.parsers.superblock import SUPERBLOCK, Superblock, judge
from ext4kit.problems import Problems
from ext4kit.units import TransactionId

ROOT = 2
INODES_OF_A_TREE = 1 << 20  # in use; more are listed in pieces
XATTR_VALUE_LIMIT = 1 << 26


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """A path and its inode; `inode` is None if its number cannot exist."""

    path: bytes
    number: int
    inode: Inode | None


class FileSystem(Inodes):
    """An ext2, ext3 or ext4 file system: inodes with names.

    Attributes:
        journal_device: the external journal, if the file system has one and it was given.
        as_of: stored tid of the transaction whose state is shown; None for the present.
    """

    journal_device: Source | None = None
    as_of: TransactionId | None = None

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
        return cls(blocks, chosen, problems)

    def with_blocks(self, blocks: BlockReader) -> FileSystem:
        """The file system read by another block reader (such as a replayed journal)."""
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
        other.journal_device = self.journal_device
        return other

    def xattrs(self, inode: Inode) -> dict[bytes, bytes]:
        """Extended attributes as `listxattr` and `getxattr` return them, ACLs included."""
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
        """The inode number of a path, or of `<12>`.

        Raises:
            RequestError: the path does not exist.
        """
        path = target.encode("utf-8", "surrogateescape") if isinstance(target, str) else target
        if path.startswith(b"<") and path.endswith(b">") and path[1:-1].isdigit():
            return self.inode(int(path[1:-1])).number
        number = ROOT
        for part in path.split(b"/"):
            if part not in (b"", b"."):
                number = self._lookup_child(number, part, path)
        return number

    def _lookup_child(self, number: int, name: bytes, path: bytes) -> int:
        shown = path_text(path)
        if not self.inode(number).is_directory:
            raise RequestError(f"{shown}: a part of the path is not a directory")
        listing = self._listing(number)
        names = listing.names.tolist()
        if name in names:
            return int(listing.inode[names.index(name)])
        raise RequestError(f"{shown}: no such file or directory in the image")

    def open(self, path: str | bytes) -> io.BufferedReader:
        """A regular file as a binary file object, as `Content.open` gives it.

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
        return self.content(inode).open()

    def tree(
        self, number: int = ROOT, path: bytes = b"", only: EntryFilter | None = None
    ) -> DirTree:
        """The entries below a directory, in the order of a depth-first walk.

        Args:
            number: inode number of the directory.
            path: its path.
            only: which entries to keep beside directories; all by default.
        """
        return read_tree(self, number, path, only)

    def tree_pieces(self, number: int = ROOT, path: bytes = b"") -> Iterator[DirTree]:
        """What `tree` gives, in consecutive pieces where the file system has very many inodes."""
        if self._inodes_in_use <= INODES_OF_A_TREE:
            return iter([self.tree(number, path)])
        from ext4kit.filesystem.tree_pieces import read_tree_pieces

        return read_tree_pieces(self, number, path)

    def names_expected(self, number: int = ROOT) -> int:
        """About how many names `tree_pieces` gives of the root; 0 where its first piece tells."""
        is_cut = number == ROOT and self._inodes_in_use > INODES_OF_A_TREE
        return self._inodes_in_use if is_cut else 0

    @property
    def _inodes_in_use(self) -> int:
        """How many the group descriptors count, which may be wrong."""
        return self.superblock.inodes_count - int(self.groups.free_inodes_count.sum())

    def walk(self, path: str | bytes = b"/") -> Iterator[WalkEntry]:
        """The path itself, then all entries below it, depth first."""
        raw = path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path
        start = self.lookup(raw)
        yield WalkEntry(b"/" + raw.strip(b"/"), start, self.inode(start))
        if not self.inode(start).is_directory:
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
        """Inodes unlinked while open, or in truncation: the orphan list and orphan file."""
        from ext4kit.filesystem.orphans import read_orphans

        return read_orphans(self)
