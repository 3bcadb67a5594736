"""Finds carved contents whose digest is in a live list of files.

The live system records the contents of files: dpkg has the MD5 digest of each file of a package,
pip the SHA-256 digest, git the object id, and an archive the file itself. Carved content with such
a digest is the content of the listed file. Which deleted inode it belonged to is decided in
`joining`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.types import Rows
from ext4kit.errors import AccessError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import with_names
from ext4kit.matching.file_lists import DigestKind, ListedFile, digest_of, list_reader
from ext4kit.parsers.inode import Inode
from ext4kit.recovery.carved_contents import UNTAGGED_JOURNAL, CarvedContents, content_at

MIN_NAMED_BYTES = 64  # shorter contents can have the same bytes by chance under other names
MAX_LISTS = 50_000
MAX_LIST_BYTES = 4 << 30  # maximum bytes of all lists
MAX_HASHED_BYTES = 4 << 30  # maximum bytes of contents, smallest first, per kind of digest
_ENDINGS = (
    b"sums", b"SUMS", b"sums.txt", b"SUMS.txt", b".md5", b".sha1", b".sha256", b"index", b"RECORD",
    b".zip", b".jar", b".whl", b".tar", b".list",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListedName:
    """An entry of a list whose digest is that of a carved content.

    Attributes:
        path: path of the file in the list.
        digest: the kind of digest.
        where: path of the list.
        time: time (ns) for which the entry is valid; a later file of this path may have another
            content.
        inode: inode number of the file at that time, as in `ListedFile`.
        is_live: whether a live file has this path, at the same place or below another directory.
    """

    path: bytes
    digest: DigestKind
    where: bytes
    time: int
    inode: int | None = None
    is_live: bool = False

    @property
    def name(self) -> bytes:
        """The last part of the path."""
        return self.path.rpartition(b"/")[2]

    @property
    def text(self) -> str:
        """Text of the entry as a source in records."""
        where, path = (one.decode("utf-8", "backslashreplace") for one in (self.where, self.path))
        return f"{self.digest} of the content in {where}, for {path}"


def listed_name(listed: Sequence[ListedName]) -> tuple[bytes, bytes] | None:
    """(name, path) that lists give to deleted content, as far as the lists agree.

    None if the lists do not agree on one name, or if the listed file is live. In the latter case a
    copy of it was deleted, which can have had any name.
    """
    paths, names = {one.path for one in listed}, {one.name for one in listed}
    if len(names) != 1 or any(one.is_live for one in listed):
        return None
    name = names.pop()
    return name, paths.pop() if len(paths) == 1 else name


def find_listed(fs: FileSystem, contents: CarvedContents) -> dict[int, list[ListedName]]:
    """Row of a content -> the entries of live lists with its digest."""
    known = _KnownDigests(contents)
    if not known.sizes:
        return {}
    found: dict[int, list[ListedName]] = defaultdict(list)
    for where, time, one in _listed_files(fs, known.sizes):
        for row in known.rows(one):
            since = time if one.time is None else one.time
            name = ListedName(one.path, one.digest, where, since, one.inode)
            found[row].append(name)
    living = _living(fs, {one.path for names in found.values() for one in names})
    return {
        row: [replace(one, is_live=one.path in living) for one in names]
        for row, names in found.items()
    }


class _KnownDigests:
    """Digests of contents, computed when they are first needed for a list.

    Attributes:
        sizes: sizes of the contents.
    """

    def __init__(self, contents: CarvedContents) -> None:
        rows = np.flatnonzero((contents.map_source != UNTAGGED_JOURNAL) & (contents.size > 0))
        rows = rows[np.argsort(contents.size[rows], kind="stable")]
        self._contents = contents
        self._rows = rows[np.cumsum(contents.size[rows]) <= MAX_HASHED_BYTES]
        self._size = contents.size[self._rows]
        self.sizes = frozenset(self._size.tolist())
        self._known: dict[tuple[DigestKind, int | None], dict[bytes, list[int]]] = {}

    def rows(self, one: ListedFile) -> list[int]:
        """Contents with the digest and the size of a listed file."""
        key = one.digest, one.size
        if key not in self._known:
            self._known[key] = self._computed(one.digest, self._of_size(one.size))
        return self._known[key].get(one.value, [])

    def _of_size(self, size: int | None) -> Rows:
        if size is None:
            return self._rows
        low, high = np.searchsorted(self._size, [size, size + 1])
        return self._rows[low:high]

    def _computed(self, digest: DigestKind, rows: Rows) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = defaultdict(list)
        for row in rows.tolist():
            content = content_at(self._contents, row)
            try:
                with content.open() as stream:
                    found[digest_of(stream, content.size, digest)].append(row)
            except AccessError:
                continue
        return found


def _listed_files(fs: FileSystem, sizes: frozenset[int]) -> Iterator[tuple[bytes, int, ListedFile]]:
    """(path of the list, time of the list, file) for each file in each live list."""
    tree = fs.tree(only=with_names(_may_be_list))
    named = [at for at, name in enumerate(tree.names.tolist()) if _may_be_list(name)]
    rows = np.array(named[:MAX_LISTS], np.int64)
    table = fs.inode_table(tree.inode[rows])
    kept = table.is_regular & (np.cumsum(table.size) <= MAX_LIST_BYTES)
    rows, table = rows[kept], table.take(kept)
    inodes = dict(zip(tree.paths_of(rows), map(table.one, range(len(rows))), strict=True))
    for path, inode in inodes.items():
        reader = list_reader(path)
        if reader is None or inode.is_encrypted or fs.is_free(inode):
            continue
        installed = inodes.get(path.removesuffix(b".md5sums") + b".list", inode)
        time = max(_time_of(inode), _time_of(installed))
        with fs.content(inode).open() as stream:
            for one in reader(stream, sizes):
                yield path, time, one


def _may_be_list(name: bytes) -> bool:
    return name.endswith(_ENDINGS)


def _time_of(inode: Inode) -> int:
    """When a list was written: its mtime, or its creation time if the mtime is older.

    A list that was unpacked has an older mtime. dpkg unpacks the digests of a package, then its
    files, and then writes the list of the files.
    """
    return max(inode.mtime, inode.crtime or 0)


def _living(fs: FileSystem, paths: set[bytes]) -> set[bytes]:
    """The relative paths among `paths` that live files have below any directory."""
    ends: dict[bytes, list[bytes]] = defaultdict(list)
    for path in paths:
        ends[path.rpartition(b"/")[2]].append(path)
    found = set()
    for path in fs.tree(only=with_names(ends.__contains__)).paths if paths else ():
        known = b"/" + path.lstrip(b"/")
        found |= {one for one in ends[path.rpartition(b"/")[2]] if known.endswith(b"/" + one)}
    return found
