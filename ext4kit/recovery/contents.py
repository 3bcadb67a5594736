"""Content without an inode: maps of files that nothing else tells of, and carved runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.maps import Runs, has_map
from ext4kit.parsers.features import Incompat
from ext4kit.past.states import NEVER
from ext4kit.recovery.candidates import NOTHING
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.deleted import DeletedFile, Grade
from ext4kit.recovery.intervals import overlaps, union
from ext4kit.recovery.sources.carving import carve
from ext4kit.recovery.sources.lost_maps import are_apart
from ext4kit.recovery.sources.order import NOTHING as NO_MATCH
from ext4kit.recovery.sources.order import Placed, match_in_order
from ext4kit.recovery.sources.search import Findings

CARVED = "free blocks"
ORDER = "order on the disk: made between neighbours whose blocks are known"
MOST_CHANGES = 4  # i_version of what was made, written, and given times and an owner or a mode
UNSURE = "where it begins and ends is a guess"


@dataclass(frozen=True, slots=True)
class Contents:
    """Files without an inode, one row each.

    Attributes:
        first: first block.
        end: one past the last one.
        size: bytes.
        signature: number of what it starts like, 0 for nothing known.
        sure: bool, good odds that it is exactly a file.
        source: what its blocks are known from.
        runs: `owner` is the row here.
        blocks: where their bytes are read.
    """

    first: Any
    end: Any
    size: Any
    signature: Any
    sure: Any
    source: Any
    runs: Runs
    blocks: BlockReader

    def __len__(self) -> int:
        return len(self.first)


def find_contents(findings: Findings, columns: Columns) -> Contents:
    """Everything that is left when the candidates have what is theirs."""
    claimed = union(columns.runs.physical, columns.runs.length)  # what candidates have or had
    parts = [_unowned(findings, claimed)]
    if findings.marks is not None:
        parts.append(_carved(findings, columns, claimed, parts[0].runs))
    return _stacked(parts)


def _unowned(findings: Findings, claimed: tuple[Any, Any]) -> Contents:
    """Maps that were found of inodes nobody knows, where their blocks are still free."""
    maps = findings.maps.take(findings.maps.life < 0)
    if len(maps):  # else the bitmaps of all groups would be read for nothing
        mine, _ = overlaps(maps.runs.physical, maps.runs.length, *claimed)
        used = np.zeros(len(maps), bool)
        used[maps.runs.owner[mine]] = True
        used[maps.runs.owner[~_inside(maps.runs, *union(*findings.space.unused))]] = True
        maps = maps.take(~used & are_apart(maps.runs, len(maps)))
    doubted = np.zeros(len(maps), bool)
    for doubtful, _ in maps.doubts:
        doubted |= doubtful
    blocks, none = findings.space.blocks, np.zeros(len(maps), np.int64)
    return _contents(blocks, maps.runs, maps.size, none, ~doubted, maps.source)


def _carved(
    findings: Findings, columns: Columns, claimed: tuple[Any, Any], unowned: Runs
) -> Contents:
    """Free blocks that nobody claims, cut into files."""
    assert findings.marks is not None
    structures, maps = findings.structures, findings.maps
    metadata = structures.block[~structures.in_log]
    start, length = claimed
    blocks = np.concatenate([metadata, columns.found.nodes[1], maps.nodes[1]])
    claimed = union(
        np.concatenate([start, unowned.physical, blocks]),
        np.concatenate([length, unowned.length, np.ones(len(blocks), np.int64)]),
    )
    space = findings.space
    extents = Incompat.EXTENT in space.fs.superblock.features
    found = carve(space.blocks, findings.marks, space.unused, claimed, extents)
    first = np.searchsorted(found.run_file, np.arange(len(found)))
    before = np.cumsum(found.run_count) - found.run_count
    logical = before - before[first][found.run_file] if len(found) else before
    runs = Runs(
        found.run_file, logical, found.run_count, found.run_first, np.zeros(len(before), bool)
    )
    source = np.full(len(found), CARVED)
    kind = found.kind.astype(np.int64)
    return _contents(space.blocks, runs, found.size, kind, found.sure, source)


def _inside(runs: Runs, start: Any, length: Any) -> Any:
    """Per run (bool): it lies in one of others, which ascend and are apart."""
    row = np.searchsorted(start, runs.physical, side="right") - 1
    ends = np.append(start + length, 0)  # the last one is for what lies before all of them
    return runs.physical + runs.length <= ends[row]


def _contents(
    blocks: BlockReader, runs: Runs, size: Any, signature: Any, sure: Any, source: Any
) -> Contents:
    first, end = np.full(len(size), np.iinfo(np.int64).max), np.zeros(len(size), np.int64)
    np.minimum.at(first, runs.owner, runs.physical)
    np.maximum.at(end, runs.owner, runs.physical + runs.length)
    return Contents(first, end, size, signature, sure, source, runs, blocks)


def _stacked(parts: list[Contents]) -> Contents:
    runs = Runs.stacked([(part.runs, len(part)) for part in parts])
    names = ("size", "signature", "sure", "source")
    values = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    return _contents(parts[0].blocks, runs, *values)


def match_contents(columns: Columns, contents: Contents) -> dict[int, int]:
    """Candidate without a map -> row of the content that its place among others gives it."""
    found, table = columns.found, columns.past.states.table
    row = found.row
    # Freeing blocks sets mtime; an inode that never had any keeps its own.
    freed = (table.links_count[row] == 0) & (table.mtime[row] == table.ctime[row])
    freed &= ((table.mode[row] & 0xF000) == 0x8000) & (found.source == NOTHING)
    freed &= (found.death != NEVER) & (table.crtime[row] > 0)
    places = np.flatnonzero(freed)
    places = places[_went_last(columns, row[places])]
    places = places[table.version[row[places]] <= MOST_CHANGES]  # more: it can lie elsewhere
    carved = np.flatnonzero(contents.source == CARVED)
    carved = carved[np.argsort(contents.first[carved])]
    if not len(places) or not len(carved):
        return {}
    group = _group(columns, table.number[row[places]])
    wanted = (group, table.crtime[row[places]], table.number[row[places]])
    known, taken = _neighbours(columns)
    match = match_in_order(known, wanted, (contents.first[carved], contents.end[carved]), taken)
    pairs = zip(places.tolist(), match.tolist(), strict=True)
    return {place: int(carved[at]) for place, at in pairs if at != NO_MATCH}


def _went_last(columns: Columns, rows: Any) -> Any:
    """Per state (bool) of a freed inode without a map: none of them was made after it went.

    Such a one may have had its blocks since, and so may others between two bearers of its
    number, of which nothing tells.
    """
    past = columns.past
    table, life = past.states.table, past.states.life
    last = np.searchsorted(life, life[rows], side="right") - 1
    known, bearer = np.unique(table.number, return_inverse=True)
    newest = np.zeros(len(known), np.int64)
    np.maximum.at(newest, bearer, table.crtime)
    made = np.maximum(newest[bearer[rows]], table.crtime[rows].max(initial=0))
    return made <= table.ctime[last]


def _group(columns: Columns, number: Any) -> Any:
    return (number - 1) // columns.fs.superblock.inodes_per_group


def _neighbours(columns: Columns) -> tuple[Placed, tuple[Any, Any]]:
    """(files whose blocks are known, runs that somebody has)."""
    fs, states, runs = columns.fs, columns.past.states, columns.runs
    tables = [(states.table.take(columns.found.row), runs)]
    for table in fs.inode_chunks():
        live = table.take((table.links_count > 0) & has_map(table.mode, table.size, table.flags))
        tables.append((live, fs.map_table(live).data))
    parts = [_placed(columns, table, data) for table, data in tables]
    known = Placed(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    start, length = union(
        np.concatenate([data.physical for _, data in tables]),
        np.concatenate([data.length for _, data in tables]),
    )
    return known, (start, start + length)


def _placed(columns: Columns, table: Any, runs: Runs) -> tuple[Any, ...]:
    """The columns of `Placed` for the inodes of a table that have blocks."""
    mapped, first = np.unique(runs.owner, return_index=True)
    last = np.append(first[1:], len(runs))[: len(first)] - 1
    start, end = runs.physical[first], runs.physical[last] + runs.length[last]
    number = table.number[mapped]
    return _group(columns, number), table.crtime[mapped], number, start, end, first == last


def content_of(contents: Contents, row: int) -> Content:
    """The bytes of a row."""
    low, high = np.searchsorted(contents.runs.owner, [row, row + 1])
    runs = contents.runs.take(slice(int(low), int(high)))
    return Content(contents.blocks, int(contents.size[row]), runs)


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
        problems=() if contents.sure[row] else (UNSURE,),
        superseded=False,
        link_target=None,
        first_block=int(contents.first[row]),
        _signature=int(contents.signature[row]),
        _content=content,
    )
