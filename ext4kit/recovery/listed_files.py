"""Carved contents whose digest is in a live list of files.

The living system records what files hold: dpkg the MD5 of each file of a package, pip the SHA-256,
git the object id, archives their members. A content with that digest is the content of the listed
file. Which deleted inode it belonged to is a second question, which `joining` answers.
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

MIN_NAMED_BYTES = 64  # shorter contents can be the same by chance under other names
MAX_LISTS = 50_000
MAX_LIST_BYTES = 4 << 30  # of all lists
MAX_HASHED_BYTES = 4 << 30  # of contents, the smallest first; read once for a kind of digest
_ENDINGS = (
    b"sums", b"SUMS", b"sums.txt", b"SUMS.txt", b".md5", b".sha1", b".sha256", b"index", b"RECORD",
    b".zip", b".jar", b".whl", b".tar", b".list",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListedName:
    """What a list says of a content.

    Attributes:
        path: of the file, as the list has it.
        digest: the kind of digest.
        where: path of the list.
        time: ns; a file that was made later may have another content under this path.
        is_live: a live file has this path, there or below another directory.
    """

    path: bytes
    digest: DigestKind
    where: bytes
    time: int
    is_live: bool = False

    @property
    def name(self) -> bytes:
        """The last part of the path."""
        return self.path.rpartition(b"/")[2]

    @property
    def text(self) -> str:
        """As a source in records."""
        where, path = (one.decode("utf-8", "backslashreplace") for one in (self.where, self.path))
        return f"{self.digest} of the content in {where}, for {path}"


def listed_name(listed: Sequence[ListedName]) -> tuple[bytes, bytes] | None:
    """(name, path) that lists give a deleted content, as far as they agree.

    None without one name, and where the listed file lives: then it was a copy of it that was
    deleted, which can have had any name.
    """
    paths, names = {one.path for one in listed}, {one.name for one in listed}
    if len(names) != 1 or any(one.is_live for one in listed):
        return None
    name = names.pop()
    return name, paths.pop() if len(paths) == 1 else name


def find_listed(fs: FileSystem, contents: CarvedContents) -> dict[int, list[ListedName]]:
    """Content -> the files of live lists that have its digest."""
    known = _KnownDigests(contents)
    if not known.sizes:
        return {}
    found: dict[int, list[ListedName]] = defaultdict(list)
    for where, time, one in _listed_files(fs, known.sizes):
        for row in known.rows(one):
            name = ListedName(one.path, one.digest, where, time if one.time is None else one.time)
            found[row].append(name)
    living = _living(fs, {one.path for names in found.values() for one in names})
    return {
        row: [replace(one, is_live=one.path in living) for one in names]
        for row, names in found.items()
    }


class _KnownDigests:
    """Digests of contents, each computed when a list first asks for it.

    Attributes:
        sizes: of the contents.
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
        """Contents with the digest of a listed file, and its size."""
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
    """(path of the list, its time, file) of each file of a live list."""
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
    """When a list was written: its mtime, or its creation where it was unpacked with an older one.

    dpkg unpacks the digests of a package, then its files, and then writes the list of them.
    """
    return max(inode.mtime, inode.crtime or 0)


def _living(fs: FileSystem, paths: set[bytes]) -> set[bytes]:
    """Those of some relative paths that live files have, below any directory."""
    ends: dict[bytes, list[bytes]] = defaultdict(list)
    for path in paths:
        ends[path.rpartition(b"/")[2]].append(path)
    found = set()
    for path in fs.tree(only=with_names(ends.__contains__)).paths if paths else ():
        known = b"/" + path.lstrip(b"/")
        found |= {one for one in ends[path.rpartition(b"/")[2]] if known.endswith(b"/" + one)}
    return found
