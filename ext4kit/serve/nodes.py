"""The nodes of a tree as a WebDAV client sees them: addresses, properties, content in pieces."""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

from ext4kit.errors import Ext4kitError
from ext4kit.mount.attributes import Stats
from ext4kit.mount.listing import FolderListing
from ext4kit.mount.operations import XATTRS, Operations
from ext4kit.report.safe import printable, printable_text

NAMESPACE = "urn:ext4kit:"
ON_DEMAND = f"{{{NAMESPACE}}}sha256"  # named in a request, else it is not computed
TYPE = "application/octet-stream"
_TYPES = {
    stat.S_IFLNK: "inode/symlink",
    stat.S_IFCHR: "inode/chardevice",
    stat.S_IFBLK: "inode/blockdevice",
    stat.S_IFIFO: "inode/fifo",
    stat.S_IFSOCK: "inode/socket",
}
_NO_XML = re.compile("[\ufffe\uffff]")
_GONE = (errno.ENOENT, errno.ENOTDIR)
Properties = dict[str, str]


@dataclass(frozen=True, slots=True)
class ServedNode:
    """A node at its path.

    Attributes:
        operations: the calls that answer.
        path: path in the tree.
        stats: one row; None if the inode is damaged.
        has_facts: whether more may be known than the attributes.
    """

    operations: Operations
    path: bytes
    stats: Stats | None
    has_facts: bool = True

    @property
    def name(self) -> str:
        """Name in a form that can be shown anywhere."""
        return _NO_XML.sub("?", printable(self.path.rpartition(b"/")[2]))

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory."""
        return self._type == stat.S_IFDIR

    @property
    def is_readable(self) -> bool:
        """Whether it has bytes to read: a file, or a symlink, which is shown as its target."""
        return self.stats is None or self._type in (stat.S_IFREG, stat.S_IFLNK)

    @property
    def size(self) -> int | None:
        """Bytes; None for what cannot be read."""
        if self.stats is None or not self.is_readable:
            return None
        return int(self.stats["size"][0])

    @property
    def type(self) -> str:
        """Media type; of files always the same, so that no browser runs what is in them."""
        return _TYPES.get(self._type, TYPE)

    @property
    def modified(self) -> int | None:
        """Last modification, seconds."""
        return None if self.stats is None else int(self.stats["mtime_seconds"][0])

    @property
    def etag(self) -> str | None:
        """A text that is the same in each run, as long as the evidence is."""
        if self.stats is None:
            return None
        names = ("ino", "size", "mtime_seconds", "mtime_ns", "ctime_seconds", "ctime_ns")
        return "-".join(f"{int(self.stats[name][0]) & (1 << 64) - 1:x}" for name in names)

    @property
    def href(self) -> str:
        """Absolute path of its address; every byte of a name is kept."""
        path = self.path if not self.is_folder or self.path == b"/" else self.path + b"/"
        return quote(path, safe="/")

    def facts(self) -> dict[str, str]:
        """Grade, reasons, sources and time of deletion of a deleted file or an earlier state."""
        if not self.has_facts:
            return {}
        found = self.operations.facts(self.path)
        return {
            key.removeprefix(XATTRS).decode("ascii"): _shown(value) for key, value in found.items()
        }

    def properties(self) -> Properties:
        """The properties by name, as in `{DAV:}getetag`, without those that read the content."""
        values: dict[str, object] = {"displayname": self.name or "/"}
        if self.stats is not None and self.modified is not None:
            values["getlastmodified"] = format_datetime(moment(self.modified), usegmt=True)
            if created := int(self.stats["crtime_seconds"][0]):
                values["creationdate"] = f"{moment(created):%Y-%m-%dT%H:%M:%SZ}"
            values["getetag"] = f'"{self.etag}"'
        if self.size is not None:
            values["getcontentlength"] = self.size
        if self.type != TYPE and not self.is_folder:
            values["getcontenttype"] = self.type
        found = {f"{{DAV:}}{name}": str(value) for name, value in values.items()}
        with suppress(OSError):
            found |= {f"{{{NAMESPACE}}}{name}": value for name, value in self.facts().items()}
        return found

    def digest(self) -> str | None:
        """The SHA-256; None for what is no file, or cannot be read to its end."""
        with suppress(OSError):
            return self.operations.digest(self.path).decode("ascii")
        return None

    def members(self) -> Iterator[ServedNode]:
        """The nodes of a directory, by name.

        Raises:
            OSError: it cannot be read.
        """
        served = self.operations
        handle = served.open_directory(self.path)
        try:
            listing, _, _ = served.listing(handle)
        finally:
            served.close(handle)
        return self._listed(listing)

    def _listed(self, listing: FolderListing) -> Iterator[ServedNode]:
        served, start = self.operations, self.path.rstrip(b"/") + b"/"
        for row, (name, is_shown) in enumerate(zip(listing.names, listing.is_shown, strict=True)):
            path = start + name
            stats = listing.stats[row : row + 1] if is_shown else stats_or_none(served, path)
            yield ServedNode(served, path, stats, listing.has_facts)

    def opened(self) -> ServedContent:
        """The content.

        Raises:
            OSError: it cannot be opened.
        """
        if not self.is_readable:
            raise OSError(errno.EACCES, f"not a file: {self.type}")
        return ServedContent(self)

    @property
    def _type(self) -> int:
        return 0 if self.stats is None else stat.S_IFMT(int(self.stats["mode"][0]))


class ServedContent:
    """The content of a node as a stream; what is lost or ends too early is an error.

    Args:
        node: the node.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, node: ServedNode) -> None:
        self._served, self._path = node.operations, node.path
        self._size, self._offset = node.size or 0, 0
        self._target: bytes | None = None
        if node.type == _TYPES[stat.S_IFLNK]:
            self._target = self._served.link_target(node.path)
        else:
            self._served.file(node.path)  # its errors come before the first byte is sent

    def seek(self, offset: int) -> None:
        """Go to an offset."""
        self._offset = offset

    def read(self, size: int) -> bytes:
        """The next bytes; fewer only at the end of the file.

        Raises:
            OSError: a byte is lost or cannot be read.
        """
        size = min(size, self._size - self._offset)
        if self._target is not None:
            found = self._target[self._offset : self._offset + size]
        else:
            found = bytes(self._served.read(self._path, self._offset, size))
        if len(found) < size:
            raise OSError(errno.EIO, "the content ends before its size")
        self._offset += size
        return found

    def close(self) -> None:
        """End reading."""


def node_at(operations: Operations, path: bytes) -> ServedNode | None:
    """The node at a path; None if there is none.

    Raises:
        OSError: its inode is damaged, or the search for it failed.
    """
    path = path.rstrip(b"/") or b"/"
    try:
        return ServedNode(operations, path, operations.stats(path))
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def moment(seconds: int) -> datetime:
    """Seconds since 1970 as a time, in UTC, on any system."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def stats_or_none(operations: Operations, path: bytes) -> Stats | None:
    """The attributes of a path; None if they cannot be read."""
    try:
        return operations.stats(path)
    except (OSError, Ext4kitError):
        return None


def _shown(value: bytes) -> str:
    lines = value.decode("utf-8", "replace").split("\n")
    return _NO_XML.sub("?", "\n".join(map(printable_text, lines)))
