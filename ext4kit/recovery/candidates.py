"""Candidates: for each deleted instance, the state to recover and the blocks of that state.

The block map of a candidate is read from a state in the journal or on disk that describes its
content (this includes files on the orphan list), from stale index entries in the root of a freed
extent tree, or from a rebuilt map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows, Strings
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, Runs
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.parsers import extents
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.maps.rebuilt import RebuiltMaps
from ext4kit.units import NANOSECONDS

JOURNAL, INODE_TABLE, STALE_INDEX, NO_MAP = "journal", "inode table", "stale index", "none"
BLOCKS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Candidates:
    """The files to recover as columns, one row per candidate.

    Attributes:
        state_row: row of the state in `History.states`.
        map_source: provenance of the map.
        freed_tid: tid as of which the candidate is freed; TID_NONE if it still has its blocks.
        superseded: True for an earlier version of a file.
        runs: content blocks, `owner` is the candidate; map_damaged: True where the map is
            incomplete.
        tree_blocks: (candidate, block) of tree blocks.
        rebuilt_row: row of the rebuilt map of the candidate, NO_ROW for none.
    """

    state_row: Rows
    map_source: Strings
    freed_tid: Int64s
    superseded: Bools
    runs: Runs
    map_damaged: Bools
    tree_blocks: tuple[Rows, Int64s]
    rebuilt_row: Rows

    def __len__(self) -> int:
        return len(self.state_row)

    @property
    def size_unknown(self) -> Bools:
        """True where the map is known and the size is not."""
        found: Bools = (self.map_source == STALE_INDEX) | (self.rebuilt_row != NO_ROW)
        return found


def select_candidates(
    history: History,
    versions: bool,
    maps: RebuiltMaps | None = None,
    as_of: int | None = None,
) -> Candidates:
    """Each deleted instance in its last content state, and earlier versions if `versions`.

    Args:
        history: the states.
        versions: add earlier versions.
        maps: rebuilt maps, for instances without a content state.
        as_of: add the states as of this tid.
    """
    if not len(history.states):
        none = np.zeros(0, np.int64)
        sources, flags, runs = none.astype(str), none.astype(bool), Runs.empty()
        return Candidates(none, sources, none, flags, runs, flags, (none, none), none)
    deleted = np.flatnonzero(~history.is_allocated)
    last = history.last_content_row[deleted]
    parts = [_from_states(history, last[last >= 0], False)]
    parts += _without_content_state(history, deleted[last < 0], maps)
    if versions:
        rows = np.union1d(_earlier_version_rows(history), _watched_rows(history))
        parts.append(_from_states(history, np.setdiff1d(rows, last), True))
    elif as_of is not None:
        rows = _rows_as_of(history, as_of)
        parts.append(_from_states(history, np.setdiff1d(rows, last), True))
    return _concat(parts)


def _watched_rows(history: History) -> Rows:
    """Content states of watched inodes that are regular files, except the states on disk."""
    states = history.states
    return _logged_files(history, np.flatnonzero(np.isin(states.table.number, history.watched)))


def _rows_as_of(history: History, tid: int) -> Rows:
    """Content states as of a tid that are regular files."""
    numbers = np.unique(history.states.table.number)
    rows = history.rows_at(numbers, np.full(len(numbers), tid))
    return _logged_files(history, rows[rows != NO_ROW])


def _logged_files(history: History, rows: Rows) -> Rows:
    """Of states those that describe the content of a regular file, without those on disk."""
    states = history.states
    kept: Bools = states.describes_content & states.table.is_regular
    kept = kept & (states.tid != TID_ON_DISK)
    found: Rows = rows[kept[rows]]
    return found


def _from_states(history: History, rows: Int64s, superseded: bool) -> Candidates:
    maps = history.map_states(rows)
    states = history.states
    source = np.where(states.tid[rows] == TID_ON_DISK, INODE_TABLE, JOURNAL)
    return Candidates(
        rows,
        source,
        _freed_tids(history, rows),
        np.full(len(rows), superseded),
        maps.runs,
        maps.damaged,
        maps.tree_blocks,
        np.full(len(rows), NO_ROW),
    )


def _freed_tids(history: History, rows: Int64s) -> Int64s:
    """Tid that ends each state; a state on disk with an allocated inode still has its blocks."""
    order, following = history.states.tid[rows], history.next_tid[rows]
    held = history.fs.bitmaps.inodes_in_use(history.states.table.number[rows])
    ended = np.where(following == TID_NONE, TID_ON_DISK, following)
    return np.where((order == TID_ON_DISK) & held, TID_NONE, ended)


def _freed_tids_by_dtime(history: History, rows: Int64s) -> Int64s:
    """First tid committed at or after each deletion time, TID_ON_DISK for none."""
    known = sorted(history.commit_times.items())
    orders = np.array([order for order, _ in known] + [TID_ON_DISK], np.int64)
    times = np.maximum.accumulate(np.array([time for _, time in known], np.int64))
    return orders[np.searchsorted(times, history.states.table.dtime[rows] * NANOSECONDS)]


def _without_content_state(
    history: History, instances: Int64s, found: RebuiltMaps | None
) -> list[Candidates]:
    """Candidates without a content state.

    Their map is from stale index entries or is a rebuilt map; some have no map.
    """
    rows = np.searchsorted(history.states.instance, instances, side="right") - 1
    roots, rooted = _stale_roots(history, rows)
    maps = history.map_states(rows[rooted], roots[rooted])
    sound, usable = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    usable[np.flatnonzero(rooted)[np.unique(maps.runs.owner)]] = True
    sound[np.flatnonzero(rooted)[~maps.damaged]] = True
    place = _rebuilt_rows(instances, found)
    mapped = (place != NO_ROW) & ~(sound & usable)
    stale, nothing = usable & ~mapped, ~usable & ~mapped
    stale_maps = history.map_states(rows[stale], roots[stale])
    no_maps = history.map_states(rows[:0])
    parts = [
        _from_final_states(history, rows[stale], STALE_INDEX, stale_maps),
        _from_final_states(history, rows[nothing], NO_MAP, no_maps),
    ]
    if found is not None and mapped.any():
        place = place[mapped]
        by_place = np.argsort(place)
        chosen = np.zeros(len(found), bool)
        chosen[place] = True
        rebuilt = found.take(chosen)
        whole = BlockMaps(rebuilt.runs, rebuilt.tree_blocks, np.zeros(len(rebuilt), bool))
        part = _from_final_states(history, rows[mapped][by_place], "", whole)
        parts.append(replace(part, map_source=rebuilt.source, rebuilt_row=place[by_place]))
    return parts


def _rebuilt_rows(instances: Int64s, found: RebuiltMaps | None) -> Rows:
    """Row of the first rebuilt map of each instance, NO_ROW for none."""
    if found is None or not len(found):
        return np.full(len(instances), NO_ROW)
    known, first = np.unique(found.instance, return_index=True)
    return values_at(first, SortedIndex(known).rows(instances))


def _from_final_states(history: History, rows: Int64s, source: str, maps: BlockMaps) -> Candidates:
    """Candidates for the last states of instances, which do not describe the content."""
    return Candidates(
        rows,
        np.full(len(rows), source),
        _freed_tids_by_dtime(history, rows),
        np.zeros(len(rows), bool),
        maps.runs,
        maps.damaged if len(maps.damaged) else np.zeros(len(rows), bool),
        maps.tree_blocks,
        np.full(len(rows), NO_ROW),
    )


def _stale_roots(history: History, rows: Int64s) -> tuple[Bytes2D, Bools]:
    """Extent roots rebuilt from the stale entries that a deletion leaves after `eh_entries = 0`.

    A removal drops the index entries from the last to the first and clears none of them. It resets
    the depth, so the depth is read from the node that the first entry points at.

    Returns:
        (uint8 (n, 60) roots, bool (n,): a root could be rebuilt).
    """
    table = history.states.table
    roots = table.i_blocks(rows)
    sound, entries, _, _ = extents.parse_headers(roots)
    by_extents = (table.flags[rows] & int(InodeFlags.EXTENTS)) != 0
    found = sound & (entries == 0) & by_extents & table.is_regular[rows]
    slot = np.arange(4)
    every = np.arange(len(rows))[:, None]
    first, child = extents.parse_children(roots, every, slot[None, :])
    possible = (child > 0) & (child < history.fs.blocks.blocks_count) & found[:, None]
    fits, depth = np.zeros(child.shape, bool), np.zeros(child.shape, np.int64)
    fits[possible], depth[possible] = read_node_headers(history.fs, child[possible])
    fits &= depth == depth[:, :1]
    fits[:, 1:] &= first[:, 1:] > first[:, :-1]
    count = np.cumprod(fits, axis=1).sum(axis=1)
    found &= (count > 0) & (depth[:, 0] < extents.MAX_DEPTH)
    roots[:, 2] = count
    roots[:, 3] = 0
    roots[:, 6] = depth[:, 0] + 1
    return roots, found


def read_node_headers(fs: FileSystem, blocks: Int64s) -> tuple[Bools, Int64s]:
    """(True where a block is an extent node with entries, depth of the node)."""
    fits, depths = np.zeros(len(blocks), bool), np.zeros(len(blocks), np.int64)
    for start in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = slice(start, start + BLOCKS_AT_ONCE)
        data, readable = fs.fetch(blocks[some])
        sound, held, _, depths[some] = extents.parse_headers(data)
        fits[some] = sound & readable & (held > 0)
    return fits, depths


def _earlier_version_rows(history: History) -> Rows:
    """Content states of regular files whose content is not part of the instance's next state.

    The content is part of the next state if the file only grew, unless the journal has newer bytes
    for a block that both states have.
    """
    states = history.states
    rows = np.flatnonzero(states.describes_content & states.table.is_regular)
    same = states.instance[rows[1:]] == states.instance[rows[:-1]]
    earlier, later = rows[:-1][same], rows[1:][same]
    before, after = history.map_states(earlier).runs, history.map_states(later).runs
    mine, other = overlap_pairs(before.physical, before.length, after.physical, after.length)
    kept = before.owner[mine] == after.owner[other]
    mine, other = mine[kept], other[kept]
    start = np.maximum(before.physical[mine], after.physical[other])
    end = (after.physical + after.length)[other]
    end = np.minimum((before.physical + before.length)[mine], end)
    shared = np.bincount(before.owner[mine], end - start, len(earlier))
    total = np.bincount(before.owner, before.length, len(earlier))
    shrunk = states.table.size[earlier] > states.table.size[later]
    gone = (shared < total) | shrunk | _overwritten_in_journal(history, before, later)
    found: Rows = earlier[gone]
    return found


def _overwritten_in_journal(history: History, runs: Runs, later: Rows) -> Bools:
    """True where the transaction of a row of `later` journaled new data for blocks of the runs."""
    found, copies = np.zeros(len(later), bool), history.copies
    if copies is None:
        return found
    ones = np.ones_like(copies.blocks)
    mine, copy = overlap_pairs(runs.physical, runs.length, copies.blocks, ones)
    owner = runs.owner[mine]
    new = copies.tids[copy] == history.states.tid[later[owner]]
    mine, copy, owner = mine[new], copy[new], owner[new]
    logical = runs.logical[mine] + copies.blocks[copy] - runs.physical[mine]
    size = history.states.table.size
    before, after = size[later[owner] - 1], size[later[owner]]
    last, end = np.divmod(before, history.fs.superblock.block_size)
    longer = (logical == last) & (after > before)
    found[owner[~longer]] = True
    owner, copy, end = owner[longer], copy[longer], end[longer]
    # True where a copy differs below byte `end` from the copy of its block as of tid `at`.
    older = copies.newest_copies(copies.blocks[copy], history.last_valid_tid(later[owner] - 1))
    differ = np.zeros(len(copy), bool)
    rows = np.flatnonzero(older >= 0)
    for start in range(0, len(rows), BLOCKS_AT_ONCE):
        some = rows[start : start + BLOCKS_AT_ONCE]
        new = copies.log.read_copies(copies.tag_rows[copy[some]])
        changed = new != copies.log.read_copies(older[some])
        differ[some] = (changed & (np.arange(new.shape[1]) < end[some, None])).any(axis=1)
    found[owner[differ]] = True
    return found


def _concat(parts: list[Candidates]) -> Candidates:
    """Join tables of candidates."""
    names = ("state_row", "map_source", "freed_tid", "superseded", "map_damaged", "rebuilt_row")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    owners = [part.tree_blocks[0] + start for part, start in zip(parts, starts, strict=False)]
    nodes = np.concatenate(owners), np.concatenate([part.tree_blocks[1] for part in parts])
    runs = Runs.stacked([(part.runs, len(part)) for part in parts])
    return Candidates(**columns, runs=runs, tree_blocks=nodes)
