"""Content without an inode: maps of files that nothing else tells of, and carved runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.maps import Runs
from ext4kit.journal import Log
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.deleted import DeletedFile, Grade
from ext4kit.recovery.sources.carving import carve, stated_sizes
from ext4kit.recovery.sources.carving.carved import Carved
from ext4kit.recovery.sources.loose_copies import log_marks
from ext4kit.recovery.sources.lost_maps import INDIRECT, are_apart
from ext4kit.recovery.sources.search import Findings
from ext4kit.recovery.sources.space import Space

CARVED, IN_LOG = "free blocks", "journal blocks without a descriptor"
UNSURE = "where it begins and ends is a guess"
FRAGMENT = "likely a piece of a file, not all of one"


@dataclass(frozen=True, slots=True)
class Contents:
    """Files without an inode, one row each.

    Attributes:
        first: first block.
        end: one past the last one.
        size: bytes.
        signature: number of what it starts like, 0 for nothing known.
        sure: bool, good odds that it is exactly a file.
        fragment: bool, likely a piece of a file.
        proven: bool, its format, a list of blocks or the tree of extents tells its end.
        source: what its blocks are known from.
        runs: `owner` is the row here.
        blocks: where their bytes are read.
    """

    first: Any
    end: Any
    size: Any
    signature: Any
    sure: Any
    fragment: Any
    proven: Any
    source: Any
    runs: Runs
    blocks: BlockReader

    def __len__(self) -> int:
        return len(self.first)


def find_contents(findings: Findings, columns: Columns) -> Contents:
    """Everything that is left when the candidates have what is theirs."""
    claimed = Intervals.union(columns.runs.physical, columns.runs.length)  # by candidates
    parts = [_unowned(findings, claimed)]
    if findings.marks is not None:
        parts.append(_carved(findings, columns, claimed, parts[0].runs))
        log = findings.space.log
        if len(columns.unplaced) and log is not None and log.reader.blocks is log.home:
            parts.append(_in_log(findings, columns, log))
    return _stacked(parts)


def _unowned(findings: Findings, claimed: Intervals) -> Contents:
    """Maps that were found of inodes nobody knows, where their blocks are still free."""
    maps = findings.maps.take(findings.maps.life < 0)
    if len(maps):  # else the bitmaps of all groups would be read for nothing
        runs, unused = maps.runs, findings.space.unused
        mine, _ = overlap_pairs(runs.physical, runs.length, claimed.start, claimed.length)
        free = Intervals.union(unused.start, unused.length)
        used = np.zeros(len(maps), bool)
        used[runs.owner[mine]] = True
        used[runs.owner[~free.contains(runs.physical, runs.length)]] = True
        maps = maps.take(~used & are_apart(maps.runs, len(maps)))
    doubted = np.zeros(len(maps), bool)
    for doubtful, _ in maps.doubts:
        doubted |= doubtful
    blocks = findings.space.blocks
    size, kind = stated_sizes(blocks, maps.runs, maps.size)
    proven = maps.source != INDIRECT
    standing = ~doubted, np.zeros(len(maps), bool), proven
    return _contents(blocks, maps.runs, size, kind, standing, maps.source)


def _carved(findings: Findings, columns: Columns, claimed: Intervals, unowned: Runs) -> Contents:
    """Free blocks that nobody claims, cut into files."""
    assert findings.marks is not None
    structures, maps = findings.structures, findings.maps
    metadata = structures.block[~structures.in_log]
    blocks = np.concatenate([metadata, columns.found.nodes[1], maps.nodes[1]])
    claimed = Intervals.union(
        np.concatenate([claimed.start, unowned.physical, blocks]),
        np.concatenate([claimed.length, unowned.length, np.ones(len(blocks), np.int64)]),
    )
    space = findings.space
    found = carve(space.blocks, findings.marks, space.unused, claimed, findings.lists)
    return _of_pieces(space, found, CARVED)


def _in_log(findings: Findings, columns: Columns, log: Log) -> Contents:
    """What is left of journaled contents of which nothing else is known, cut into files."""
    space = findings.space
    runs, marks = log_marks(log, columns.unplaced)
    return _of_pieces(space, carve(space.blocks, marks, runs, Intervals.empty()), IN_LOG)


def _of_pieces(space: Space, found: Carved, name: str) -> Contents:
    """Carved files as contents."""
    first = np.searchsorted(found.run_file, np.arange(len(found)))
    before = np.cumsum(found.run_count) - found.run_count
    logical = before - before[first][found.run_file] if len(found) else before
    runs = Runs(
        found.run_file, logical, found.run_count, found.run_first, np.zeros(len(before), bool)
    )
    source = np.full(len(found), name)
    kind = found.kind.astype(np.int64)
    standing = found.sure, found.fragment, found.proven
    return _contents(space.blocks, runs, found.size, kind, standing, source)


def _contents(
    blocks: BlockReader,
    runs: Runs,
    size: Any,
    signature: Any,
    standing: tuple[Any, Any, Any],
    source: Any,
) -> Contents:
    """Contents of which `standing` is (sure, fragment, proven)."""
    first, end = np.full(len(size), np.iinfo(np.int64).max), np.zeros(len(size), np.int64)
    np.minimum.at(first, runs.owner, runs.physical)
    np.maximum.at(end, runs.owner, runs.physical + runs.length)
    return Contents(first, end, size, signature, *standing, source, runs, blocks)


def _stacked(parts: list[Contents]) -> Contents:
    runs = Runs.stacked([(part.runs, len(part)) for part in parts])
    names = ("size", "signature", "sure", "fragment", "proven", "source")
    values = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    size, kind, sure, fragment, proven, source = values
    return _contents(parts[0].blocks, runs, size, kind, (sure, fragment, proven), source)


def content_of(contents: Contents, row: int) -> Content:
    """The bytes of a row."""
    low, high = np.searchsorted(contents.runs.owner, [row, row + 1])
    runs = contents.runs.take(slice(int(low), int(high)))
    return Content(contents.blocks, int(contents.size[row]), runs)


def head_of(contents: Contents, row: int, most: int) -> bytes:
    """The first bytes of a row, at most so many; b"" where they cannot be read."""
    try:
        return content_of(contents, row).read(0, min(most, int(contents.size[row])))
    except AccessError:
        return b""


def content_files(contents: Contents, left_out: set[int]) -> list[DeletedFile]:
    """A record of each content that no inode was found for, by its first block."""
    order = np.argsort(contents.first, kind="stable").tolist()
    rows = [row for row in order if row not in left_out]
    return [_file(contents, row) for row in rows]


def _file(contents: Contents, row: int) -> DeletedFile:
    content = content_of(contents, row)
    assert content.runs is not None
    return DeletedFile(
        path=None,
        name=None,
        inode=None,
        size=content.size,
        dtime=None,
        deleted_between=(None, None),
        grade=Grade.CARVED,
        blocks=int(content.runs.length.sum()),
        blocks_reused=0,
        lost=(),
        sources={"map": str(contents.source[row])},
        problems=_problems(contents, row),
        superseded=False,
        link_target=None,
        first_block=int(contents.first[row]),
        fragment=bool(contents.fragment[row]),
        _signature=int(contents.signature[row]),
        _content=content,
    )


def _problems(contents: Contents, row: int) -> tuple[str, ...]:
    if contents.fragment[row]:
        return (FRAGMENT,)
    return () if contents.sure[row] else (UNSURE,)
