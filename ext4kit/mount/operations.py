"""The calls of a file system, answered from the tree of a mount; every error is an `OSError`."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from threading import Lock
from typing import NamedTuple, TypeVar

from ext4kit.errors import AccessError, CorruptError, Ext4kitError, NotFoundError
from ext4kit.filesystem.view import MAX_DEPTH, Folder, Node
from ext4kit.mount.attributes import Stats, are_valid, stats_of
from ext4kit.mount.documents import DocumentNode
from ext4kit.mount.files import OpenFile, open_node
from ext4kit.mount.listing import FolderListing, listing_of
from ext4kit.mount.tree import Branch, TreePart
from ext4kit.reasons import texts
from ext4kit.report.times import exact_time
from ext4kit.views.records import record_of

_EUCLEAN = getattr(errno, "EUCLEAN", errno.EIO)
_MOST_ITEMS = 1 << 14  # paths whose nodes are kept
_MOST_LISTED = 1 << 17  # entries of directories that are kept
_MOST_FILES = 1 << 8  # contents that are kept
_MOST_DIGESTS = 1 << 12
_DIGEST_BYTES = 1 << 20
XATTRS = b"user.ext4kit."
_SHA256 = XATTRS + b"sha256"
_Answer = TypeVar("_Answer")


class Item:
    """A node at its place in the tree.

    Attributes:
        node: the node.
        part: the part of the tree.
        above: the directory; None for the root.
        branch: the branch whose top it is; None for all other nodes.
        stats: its attributes, one row; None if they are not known yet.
        place: the listing that has it, and its row; None if it was found in another way.
    """

    __slots__ = ("above", "branch", "node", "part", "place", "stats")

    def __init__(
        self,
        node: Node,
        part: TreePart,
        above: Item | None,
        branch: Branch | None = None,
        stats: Stats | None = None,
        place: tuple[FolderListing, int] | None = None,
    ) -> None:
        self.node, self.part, self.above = node, part, above
        self.branch, self.stats, self.place = branch, stats, place

    def opened(self) -> OpenFile:
        """The content of the file."""
        files, row = (None, 0) if self.place is None else (self.place[0].files, self.place[1])
        return open_node(self.node, None if files is None else files.known_map(row))

    @property
    def is_loop(self) -> bool:
        """Whether a directory is below itself, or deeper than any path."""
        if self.node.kind != "directory" or self.branch is not None:
            return False
        depth, above = 0, self.above
        while above is not None:
            depth += 1
            if above.node.id == self.node.id or depth > MAX_DEPTH:
                return True
            above = above.above
        return False


class _Directory(NamedTuple):
    """An opened directory."""

    item: Item
    listing: FolderListing


class Operations:
    """The calls of a file system.

    Args:
        root: the root of the tree.
    """

    def __init__(self, root: Branch) -> None:
        self._root = Item(root.top(), root.part, None, root)
        self._items: OrderedDict[bytes, Item] = OrderedDict()
        self._listings: OrderedDict[int, tuple[Item, FolderListing]] = OrderedDict()
        self._listed = 0
        self._digests: OrderedDict[object, bytes] = OrderedDict()
        self._handles: dict[int, _Directory] = {}
        self._files: OrderedDict[bytes, OpenFile] = OrderedDict()
        self._numbers, self._lock, self._was_told = count(1), Lock(), False

    # -- calls ----------------------------------------------------------------------------

    def stats(self, path: bytes) -> Stats:
        """The attributes of a path, as one row.

        Raises:
            OSError: there is nothing at the path, or its inode is damaged.
        """
        item = self._item(path)
        return self._in(item.part, partial(self._stats, item))

    def open_directory(self, path: bytes) -> int:
        """Open a directory; returns a handle."""
        item = self._item(path)
        listing = self._in(item.part, partial(self._listing, item))
        number = next(self._numbers)
        self._handles[number] = _Directory(item, listing)
        return number

    def listing(self, handle: int) -> tuple[FolderListing, Stats, Stats | None]:
        """The entries of an open directory, its own attributes, those of the one above it."""
        found = self._handles[handle]
        item, above = found.item, found.item.above
        own = self._in(item.part, partial(self._stats, item))
        return found.listing, own, None if above is None else above.stats

    def close(self, handle: int) -> None:
        """Forget the handle of a directory."""
        self._handles.pop(handle, None)

    def file(self, path: bytes) -> OpenFile:
        """The content of a file, which is kept for further reads.

        Raises:
            OSError: nothing is left of it, or the kernel would refuse it.
        """
        with self._lock:
            if found := self._files.get(path):
                self._files.move_to_end(path)
                return found
        item = self._item(path)
        file = self._in(item.part, item.opened)
        with self._lock:
            self._files[path] = file
            while len(self._files) > _MOST_FILES:
                self._files.popitem(last=False)
        return file

    def read(self, path: bytes, offset: int, size: int) -> bytes | bytearray:
        """The bytes of a range of a file.

        Raises:
            OSError: a byte of the range is lost or cannot be read.
        """
        return self._piece(self.file(path), self._item(path).part, offset, size)

    def link_target(self, path: bytes) -> bytes:
        """The target of a symlink."""
        item = self._item(path)
        target = self._in(item.part, item.node.link_target)
        if target is None:
            raise OSError(errno.EIO, "the target is not known")
        return target

    def facts(self, path: bytes) -> dict[bytes, bytes]:
        """What is known of a deleted file or an earlier state, by the names of `XATTRS`."""
        item = self._item(path)
        return self._in(item.part, partial(_facts, item.node))

    def digest(self, path: bytes) -> bytes:
        """The SHA-256 of a file, in hexadecimal digits.

        Raises:
            OSError: ENODATA, if it is not a file; or it cannot be read to its end.
        """
        return self._digest(self._item(path), path)

    def xattrs(self, path: bytes) -> list[bytes]:
        """The names of the extended attributes of a path."""
        item = self._item(path)
        return self._in(item.part, lambda: [*item.node.xattrs(), *_facts(item.node)])

    def xattr(self, path: bytes, name: bytes) -> bytes:
        """The value of an extended attribute.

        Raises:
            OSError: ENODATA, if there is none of that name.
        """
        item = self._item(path)
        if name == _SHA256:
            return self._digest(item, path)
        own = name.startswith(XATTRS)
        values = self._in(item.part, lambda: _facts(item.node) if own else item.node.xattrs())
        if name not in values:
            raise OSError(errno.ENODATA, "no such attribute")
        return values[name]

    def space(self) -> dict[str, int]:
        """The sizes of the first file system, as `statvfs` shows them."""
        fs = self._root.part.fs
        assert fs is not None
        superblock = fs.superblock
        free = max(superblock.free_blocks_count, 0)
        size = superblock.block_size
        inodes = superblock.inodes_count
        return {"f_bsize": size, "f_frsize": size, "f_blocks": superblock.blocks_count,
                "f_bfree": free, "f_bavail": free, "f_files": inodes, "f_namemax": 255}  # fmt: skip

    # -- nodes ----------------------------------------------------------------------------

    def _item(self, path: bytes) -> Item:
        """The node at a path, from the kept ones or through its directory."""
        if path == b"/":
            return self._root
        with self._lock:
            if found := self._items.get(path):
                self._items.move_to_end(path)
                return found
        above, _, name = path.rpartition(b"/")
        parent = self._item(above or b"/")
        item = self._in(parent.part, partial(self._child, parent, name))
        if item.is_loop:
            raise OSError(errno.ELOOP, "a directory below itself")
        with self._lock:
            self._items[path] = item
            while len(self._items) > _MOST_ITEMS:
                self._items.popitem(last=False)
        return item

    def _child(self, parent: Item, name: bytes) -> Item:
        if parent.branch is not None and parent.branch.branches:
            branch = parent.branch.branches.get(name)
            if branch is None:
                raise NotFoundError(name)
            return Item(branch.top(), branch.part, parent, branch)
        if isinstance(parent.node, Folder):
            node = parent.node.child(name)
            if node is not None:
                return Item(node, parent.part, parent)
        listing = self._listing(parent)
        row = listing.rows.get(name)
        if row is None:
            raise NotFoundError(name)
        stats = listing.stats[row : row + 1].copy() if listing.is_shown[row] else None
        return Item(listing.node(row), parent.part, parent, None, stats, (listing, row))

    def _stats(self, item: Item) -> Stats:
        if item.stats is None:
            node = item.node
            stats = stats_of([node], item.part.defaults)
            if not are_valid(stats)[0]:
                is_unknown = node.inode is None
                raise OSError(errno.EIO if is_unknown else _EUCLEAN, "the inode is damaged")
            item.stats = stats
        return item.stats

    def _listing(self, item: Item) -> FolderListing:
        with self._lock:
            if found := self._listings.get(id(item)):
                self._listings.move_to_end(id(item))
                return found[1]
        listing = self._made_listing(item)
        with self._lock:
            self._listings[id(item)] = item, listing
            self._listed += len(listing)
            while self._listed > _MOST_LISTED and len(self._listings) > 1:
                self._listed -= len(self._listings.popitem(last=False)[1][1])
        return listing

    def _made_listing(self, item: Item) -> FolderListing:
        branches = {} if item.branch is None else item.branch.branches
        if not branches:
            return listing_of(item.node, item.part.defaults)
        tops = [_node_or_none(branch) for branch in branches.values()]
        known = [item.node if top is None else top for top in tops]
        stats = stats_of(known, item.part.defaults)
        return FolderListing(
            list(branches), stats, [top is not None for top in tops], known.__getitem__
        )

    def _digest(self, item: Item, path: bytes) -> bytes:
        key = item.node.id
        with self._lock:
            if found := self._digests.get(key):
                return found
        if item.node.kind != "file":
            raise OSError(errno.ENODATA, "not a file")
        file = self.file(path)
        digest, offset = hashlib.sha256(), 0
        while piece := self._piece(file, item.part, offset, _DIGEST_BYTES):
            digest.update(piece)
            offset += len(piece)
        with self._lock:
            self._digests[key] = found = digest.hexdigest().encode()
            while len(self._digests) > _MOST_DIGESTS:
                self._digests.popitem(last=False)
        return found

    def _piece(self, file: OpenFile, part: TreePart, offset: int, size: int) -> bytes | bytearray:
        """The bytes of a range of a file, truncated at its end."""
        if hasattr(os, "pread"):
            with self._errors():
                if (place := file.place(offset, size)) is not None:
                    return os.pread(place[0], place[2], place[1])
        return self._in(part, lambda: file.read(offset, size))

    # -- errors ---------------------------------------------------------------------------

    def _in(self, part: TreePart, work: Callable[[], _Answer]) -> _Answer:
        """The result of work on a part, which no other thread does at the same time."""
        with self._errors(), part.lock:
            try:
                return part.context.run(work)
            except RuntimeError as error:
                if "cannot enter context" not in str(error):
                    raise
                return work()  # the thread is in the context already

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns every exception into an `OSError`."""
        try:
            yield
        except NotFoundError as error:
            raise OSError(errno.ENOENT, str(error)) from error
        except AccessError as error:
            raise OSError(errno.EIO, str(error)) from error
        except CorruptError as error:
            raise OSError(_EUCLEAN, str(error)) from error
        except OSError as error:
            if not error.errno:
                raise OSError(errno.EIO, str(error)) from error
            raise
        except Ext4kitError as error:
            raise OSError(errno.EIO, str(error)) from error
        except Exception as error:  # the mount lives on
            self.tell(error)
            raise OSError(errno.EIO, str(error)) from error

    def tell(self, error: Exception) -> None:
        """Tell the first internal error on stderr, by its kind and place."""
        if self._was_told:
            return
        self._was_told = True
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        with suppress(OSError, ValueError):
            sys.stderr.write(f"ext4kit: internal error: {type(error).__name__} at {place}\n")
            sys.stderr.flush()


def _node_or_none(branch: Branch) -> Node | None:
    try:
        return branch.top()
    except Ext4kitError:
        return None


def _facts(node: Node) -> dict[bytes, bytes]:
    """Grade, reasons, sources and time of the deletion of a node, as extended attributes."""
    if isinstance(node, DocumentNode) or node.grade is None:
        return {}
    found = {b"grade": str(node.grade)}
    if node.reasons:
        found[b"reasons"] = "\n".join(texts(node.reasons))
    record = record_of(node)
    if record is not None:
        found[b"sources"] = "\n".join(f"{key}: {value}" for key, value in record.sources.items())
    if node.deletion_time is not None:
        found[b"deleted"] = exact_time(node.deletion_time)
    return {XATTRS + key: value.encode("utf-8", "replace") for key, value in found.items()}
