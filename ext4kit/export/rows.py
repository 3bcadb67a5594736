"""Rows of live and deleted files, the same for all formats, in batches."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import repeat
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.fields import FileType, SomeDigests
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filetypes.identify import Kind
from ext4kit.known.digests import Digester
from ext4kit.parsers.inode import CRTIME_END, KINDS, InodeFlags, InodeTable, is_fast_symlink
from ext4kit.recovery import DeletedFile
from ext4kit.recovery.tree_paths import tree_path
from ext4kit.report.listing import link_targets
from ext4kit.report.safe import printable, printable_lines
from ext4kit.selection import Selection
from ext4kit.units import Progress

AT_ONCE = 1 << 13  # rows per batch; a row with its record takes some 4 KiB
_TOLD = 64  # rows between two progress calls if contents are read
RESIDENT = -1  # location of a range in the inode itself
_COLUMNS = {"links": "links_count"} | {
    name: name for name in ("number", "generation", "mode", "uid", "gid", "size", "atime", "mtime",
                            "ctime")
}  # fmt: skip  # field of a row -> column of the inode table
# (byte in the file, length, byte in the file system); RESIDENT, or None for implied zeros
Range = tuple[int, int, int | None]
Cell = str | int | bytes | None  # value of a table


class RowState(StrEnum):
    """State of a file."""

    LIVE = "live"
    DELETED = "deleted"
    EARLIER = "earlier"  # an earlier version of a file that changed afterwards


class FileRow(NamedTuple):
    """A file; other modules use its fields by name only.

    Attributes:
        path: as `report.safe.printable` shows it; paths below `/$Unnamed` or `/$Carved` are
            artificial.
        raw: the exact bytes of the path; None when it is unknown.
        number: inode number; this and all fields up to `crtime` are None for content without an
            inode.
        atime, mtime, ctime, crtime, dtime: ns; None if there is none.
        target: target of a symlink.
        gone: the record of a deleted file.
        format: file type by content of a deleted file, if a format needs it; always given for
            content that was found without a map.
    """

    path: str
    raw: bytes | None = None
    number: int | None = None
    generation: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    links: int | None = None
    atime: int | None = None
    mtime: int | None = None
    ctime: int | None = None
    crtime: int | None = None
    dtime: int | None = None
    target: bytes | None = None
    gone: DeletedFile | None = None
    format: Kind | None = None

    @property
    def state(self) -> RowState:
        """Whether the file is live, deleted or an earlier version."""
        if self.gone is None:
            return RowState.LIVE
        return RowState.EARLIER if self.gone.superseded else RowState.DELETED

    @property
    def kind(self) -> FileType:
        """The type in one word."""
        return "file" if self.mode is None else kind_of(self.mode)

    @property
    def is_complete(self) -> bool:
        """Whether no part of the content is known to be lost."""
        gone = self.gone
        return gone is None or not (gone.blocks_reused or gone.lost or gone.grade == "overwritten")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@cache
def kind_of(mode: int) -> FileType:
    """The type in one word."""
    return KINDS.get(stat.S_IFMT(mode), "unknown")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows, each with its requested ranges, and its requested digests by name."""

    rows: list[FileRow]
    ranges: list[list[Range]]
    digests: list[SomeDigests]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def complete_digests(self) -> list[SomeDigests]:
        """The digests of complete contents only, for formats that cannot mark incomplete ones."""
        pairs = zip(self.rows, self.digests, strict=True)
        return [digests if row.is_complete else {} for row, digests in pairs]


# ----------------------------------------------------------------------------------- live files


def live_batches(
    fs: FileSystem,
    ranges: bool,
    digester: Digester | None,
    progress: Progress | None = None,
    selection: Selection | None = None,
) -> Iterator[Batch]:
    """The selected names below the root, in tree order.

    Args:
        fs: the file system.
        ranges: whether to add the location of the content.
        digester: hashes the content; None for no hashes.
        progress: called with (names done, total names); a very large total is an estimate.
        selection: conditions of the files.
    """
    for some in LiveView(fs).walk(selection, at_once=AT_ONCE):
        rows = list(_live_rows(fs, some.paths, some.table))
        batch = Batch(rows, [[]] * len(rows), [{}] * len(rows))
        if ranges or digester:
            runs = fs.map_table(some.table).runs
            if ranges:
                batch = replace(batch, ranges=_live_ranges(fs, some.table, runs))
            if digester:
                found = _live_digests(fs, some.table, runs, digester)
                digests = list(_counted(found, some.start, some.total, progress))
                batch = replace(batch, digests=digests)
        yield batch
        if progress is not None:
            progress(some.end, some.total)


def _live_rows(fs: FileSystem, paths: list[bytes], table: InodeTable) -> Iterator[FileRow]:
    targets = link_targets(fs, table)
    has_crtime = (table.extra_isize >= CRTIME_END).tolist()
    pairs = zip(table.crtime.tolist(), has_crtime, strict=True)
    columns: dict[str, Iterable[object]] = {
        "path": printable_lines(paths).split("\n"),
        "raw": paths,
        **{name: getattr(table, column).tolist() for name, column in _COLUMNS.items()},
        "crtime": [moment if has else None for moment, has in pairs],
        "target": map(targets.get, range(len(table))),
    }
    in_order = (columns.get(name, repeat(None)) for name in FileRow._fields)
    return map(FileRow._make, zip(*in_order, strict=False))


def _live_ranges(fs: FileSystem, table: InodeTable, runs: Runs) -> list[list[Range]]:
    """Per inode: location of its content, cut at its size."""
    size = fs.superblock.block_size
    room = table.size[runs.owner] - runs.logical * size
    runs, room = runs.take(room > 0), room[room > 0]
    offset, length = runs.logical * size, np.minimum(runs.length * size, room)
    pairs = zip((runs.physical * size).tolist(), runs.unwritten.tolist(), strict=True)
    places = [None if unwritten else place for place, unwritten in pairs]
    every = list(zip(offset.tolist(), length.tolist(), places, strict=True))
    ends = row_bounds(runs.owner, len(table)).tolist()
    found = [every[first:last] for first, last in zip(ends, ends[1:], strict=False)]
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    inline |= is_fast_symlink(table.mode, table.size, table.flags)
    for row in np.flatnonzero(inline & (table.size > 0)).tolist():
        found[row] = [(0, int(table.size[row]), RESIDENT)]
    return found


def _live_digests(
    fs: FileSystem, table: InodeTable, runs: Runs, digester: Digester
) -> Iterator[SomeDigests]:
    ends = row_bounds(runs.owner, len(table)).tolist()
    for row, inode in enumerate(table.each()):
        content = None
        if inode.kind == "file" and not inode.is_encrypted:
            content = fs.content(inode, runs.take(slice(*ends[row : row + 2])))
        yield digester.of(content, inode.number if inode.links_count > 1 else None)


def _counted(
    found: Iterable[SomeDigests], done: int, total: int, progress: Progress | None
) -> Iterator[SomeDigests]:
    """The digests of files; the progress callback is called every `_TOLD` files."""
    for at, digests in enumerate(found, done + 1):
        yield digests
        if progress is not None and at % _TOLD == 0:
            progress(at, total)


# -------------------------------------------------------------------------------- deleted files


def gone_batches(
    files: Sequence[DeletedFile],
    ranges: bool,
    digester: Digester | None,
    progress: Progress | None = None,
    types: bool = False,
) -> Iterator[Batch]:
    """Deleted files and earlier versions, in the given order.

    Digests are those of the bytes that `recover` writes, even for files with lost parts.

    Args:
        files: the files.
        ranges: as for `live_batches`.
        digester: as for `live_batches`.
        progress: as for `live_batches`.
        types: whether to add the type by content of all files.
    """
    for start in range(0, len(files), AT_ONCE):
        some = files[start : start + AT_ONCE]
        digests: list[SomeDigests] = [{}] * len(some)
        if digester is not None:
            each = (digester.of(_plain_content(file)) for file in some)
            digests = list(_counted(each, start, len(files), progress))
        yield Batch(
            [_gone_row(file, types) for file in some],
            [_gone_ranges(file.content()) if ranges else [] for file in some],
            digests,
        )
        if progress is not None:
            progress(start + len(some), len(files))


def _gone_row(file: DeletedFile, types: bool) -> FileRow:
    inode, format = file.inode, file.content_type() if types else file.file_type
    path = printable(tree_path(file))
    if inode is None:
        return FileRow(path, size=file.size, gone=file, format=format)
    return FileRow(
        path=path, raw=file.path, number=inode.number, generation=inode.generation,
        mode=inode.mode, uid=inode.uid, gid=inode.gid, size=file.size, links=inode.links_count,
        atime=inode.atime, mtime=inode.mtime, ctime=inode.ctime, crtime=inode.crtime,
        dtime=file.dtime, target=file.link_target, gone=file, format=format,
    )  # fmt: skip


def _gone_ranges(content: Content | None) -> list[Range]:
    if content is None:
        return []
    if content.runs is None:
        held = min(len(content.inline), content.size)
        return [(0, held, RESIDENT)] if held else []
    return list(content.segments())


def _plain_content(file: DeletedFile) -> Content | None:
    """The content of a file if some of it is left; None for ciphertext."""
    encrypted = file.inode is not None and file.inode.is_encrypted
    return None if encrypted or file.grade == "overwritten" else file.content()
