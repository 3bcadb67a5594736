"""Rows of live and deleted files, the same for all formats, in batches."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import repeat
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.export.digests import Digester
from ext4kit.fields import FileType, SomeDigests
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filetypes.identify import Kind
from ext4kit.parsers.inode import KINDS, InodeFlags, InodeTable, is_fast_symlink
from ext4kit.recovery import DeletedFile
from ext4kit.report.deleted import known_path
from ext4kit.report.listing import CRTIME_END, link_targets
from ext4kit.report.safe import printable_lines

AT_ONCE = 1 << 15
_TOLD = 64  # rows between two progress calls, where contents are read
Progress = Callable[[int, int], None]  # (done, total)
RESIDENT = -1  # location of a range in the inode itself
_COLUMNS = ("number", "generation", "mode", "uid", "gid", "size", "links_count", "atime", "mtime",
            "ctime")  # fmt: skip
# (byte in the file, length, byte in the file system); RESIDENT, or None for implied zeros
Range = tuple[int, int, int | None]


class RowState(StrEnum):
    """State of a file."""

    LIVE = "live"
    DELETED = "deleted"
    EARLIER = "earlier"  # an earlier version of a file that changed afterwards


class FileRow(NamedTuple):
    """A file.

    Attributes:
        path: as `report.safe.printable` shows it; paths below `/$Unnamed` or `/$Carved` are
            artificial.
        raw: the exact bytes of the path; None when it is unknown.
        number: of the inode; with the fields up to `crtime` None for content without one.
        atime, mtime, ctime, crtime, dtime: ns; None for none.
        target: of a symlink.
        gone: the record of a deleted file.
        format: file type of content that was found without a map.
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
        """Live, deleted or earlier."""
        if self.gone is None:
            return RowState.LIVE
        return RowState.EARLIER if self.gone.superseded else RowState.DELETED

    @property
    def kind(self) -> FileType:
        """The type in one word."""
        return "file" if self.mode is None else kind_of(self.mode)

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
    """Some rows, with the requested ranges and digests by name of each."""

    rows: list[FileRow]
    ranges: list[list[Range]]
    digests: list[SomeDigests]

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, state: RowState) -> Batch:
        """The batch without the rows of a state."""
        kept = [place for place, row in enumerate(self.rows) if row.state is not state]
        parts = (self.rows, self.ranges, self.digests)
        return Batch(*([part[place] for place in kept] for part in parts))  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------- live files


class _Steps:
    """Reports the number of finished rows, but not each one, which would cost too much time.

    Args:
        total: number of all rows.
        progress: the callback.
    """

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._done = total, progress, 0

    def one(self) -> None:
        """Count one more finished row."""
        self._done += 1
        if self._done % _TOLD == 0:
            self._tell()

    def at(self, done: int) -> None:
        """Set the number of finished rows."""
        self._done = done
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)


def live_batches(
    fs: FileSystem,
    ranges: bool,
    digester: Digester | None,
    progress: Progress | None = None,
) -> Iterator[Batch]:
    """All names below the root, in tree order.

    Args:
        fs: the file system.
        ranges: whether to add the location of the content.
        digester: hashes the content; None for no hashes.
        progress: called with (names done, total names).
    """
    tree = fs.tree()
    steps = _Steps(len(tree), progress)
    for start in range(0, len(tree), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        table = fs.inode_table(tree.inode[some])
        rows = list(_live_rows(fs, tree.paths_of(some), table))
        batch = Batch(rows, [[]] * len(rows), [{}] * len(rows))
        if ranges or digester:
            runs = fs.map_table(table).runs
            batch = replace(
                batch,
                ranges=_live_ranges(fs, table, runs) if ranges else batch.ranges,
                digests=(
                    list(_live_digests(fs, table, runs, digester, steps))
                    if digester
                    else batch.digests
                ),
            )
        yield batch
        steps.at(start + len(batch))


def _live_rows(fs: FileSystem, paths: list[bytes], table: InodeTable) -> Iterator[FileRow]:
    targets = link_targets(fs, table)
    columns = [getattr(table, name).tolist() for name in _COLUMNS]
    crtime = [
        moment if has else None
        for moment, has in zip(
            table.crtime.tolist(), (table.extra_isize >= CRTIME_END).tolist(), strict=True
        )
    ]
    links = map(targets.get, range(len(table)))
    texts = printable_lines(paths).split("\n")
    return map(FileRow, texts, paths, *columns, crtime, repeat(None), links)


def _live_ranges(fs: FileSystem, table: InodeTable, runs: Runs) -> list[list[Range]]:
    """Per inode: location of its bytes, cut at its size."""
    size = fs.superblock.block_size
    room = table.size[runs.owner] - runs.logical * size
    runs, room = runs.take(room > 0), room[room > 0]
    offset, length = runs.logical * size, np.minimum(runs.length * size, room)
    places = [
        None if unwritten else place
        for place, unwritten in zip(
            (runs.physical * size).tolist(), runs.unwritten.tolist(), strict=True
        )
    ]
    every = list(zip(offset.tolist(), length.tolist(), places, strict=True))
    ends = row_bounds(runs.owner, len(table)).tolist()
    found = [every[first:last] for first, last in zip(ends, ends[1:], strict=False)]
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    inline |= is_fast_symlink(table.mode, table.size, table.flags)
    for row in np.flatnonzero(inline & (table.size > 0)).tolist():
        found[row] = [(0, int(table.size[row]), RESIDENT)]
    return found


def _live_digests(
    fs: FileSystem, table: InodeTable, runs: Runs, digester: Digester, steps: _Steps
) -> Iterator[SomeDigests]:
    ends = row_bounds(runs.owner, len(table)).tolist()
    for row, inode in enumerate(table.each()):
        content = None
        if inode.kind == "file" and not inode.is_encrypted:
            content = fs.content(inode, runs.take(slice(*ends[row : row + 2])))
        yield digester.of(content, inode.number if inode.links_count > 1 else None)
        steps.one()


# -------------------------------------------------------------------------------- deleted files


def gone_batches(
    files: Sequence[DeletedFile],
    ranges: bool,
    digester: Digester | None,
    progress: Progress | None = None,
) -> Iterator[Batch]:
    """Deleted files and earlier versions, in the given order; as for `live_batches`."""
    steps = _Steps(len(files), progress)
    for start in range(0, len(files), AT_ONCE):
        some = files[start : start + AT_ONCE]
        yield Batch(
            [_gone_row(file) for file in some],
            [_gone_ranges(file.content()) if ranges else [] for file in some],
            [_gone_digests(file, digester, steps) for file in some],
        )
        steps.at(start + len(some))


def _gone_digests(file: DeletedFile, digester: Digester | None, steps: _Steps) -> SomeDigests:
    if digester is None:
        return {}
    steps.one()
    return digester.of(_complete_content(file))


def _gone_row(file: DeletedFile) -> FileRow:
    inode, format = file.inode, file.file_type
    if inode is None:
        path = f"/$Carved/block-{file.first_block}{format.extension if format else ''}"
        return FileRow(path, size=file.size, gone=file, format=format)
    return FileRow(
        _gone_path(file), file.path, inode.number, inode.generation, inode.mode, inode.uid,
        inode.gid, file.size, inode.links_count, inode.atime, inode.mtime, inode.ctime,
        inode.crtime, file.dtime, file.link_target, file, format,
    )  # fmt: skip


def _gone_path(file: DeletedFile) -> str:
    """The path, or an artificial one below `/$Unnamed`."""
    nameless = f"/$Unnamed/inode-{file.number}-{file.generation}"
    return known_path(file, "/$Unnamed") or nameless


def _gone_ranges(content: Content | None) -> list[Range]:
    if content is None:
        return []
    if content.runs is None:
        held = min(len(content.inline), content.size)
        return [(0, held, RESIDENT)] if held else []
    return list(content.segments())


def _complete_content(file: DeletedFile) -> Content | None:
    """The content if it is complete, else None."""
    encrypted = file.inode is not None and file.inode.is_encrypted
    if encrypted or file.blocks_reused or file.lost or file.grade == "overwritten":
        return None
    return file.content()
