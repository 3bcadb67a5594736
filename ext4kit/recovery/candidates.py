"""Candidates: which state of which life is to be brought back, and the blocks it had.

Sources of a candidate's map: a state in the log or on the disk that still has it whole (files
on the orphan list among them), and the index entries that stay behind in the root of a freed
extent tree.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ext4kit.filesystem.maps import Runs
from ext4kit.parsers import extents
from ext4kit.parsers.inode import InodeFlags
from ext4kit.past.states import NEVER, NOW, Past
from ext4kit.recovery.intervals import overlaps
from ext4kit.units import NANOSECONDS

LOG, DISK, STALE_INDEX, NOTHING = "journal", "inode table", "stale index", "none"


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is to be brought back, as columns, one row a candidate.

    Attributes:
        row: row of the state in `Past.states`.
        source: where the map comes from.
        death: order at which it is seen dead; NEVER while it still holds its blocks.
        superseded: an earlier state of a file that went on.
        runs: the content's blocks, `owner` is the candidate's row; damaged: map incomplete.
        nodes: (candidate, block) of tree blocks.
    """

    row: Any
    source: Any
    death: Any
    superseded: Any
    runs: Runs
    damaged: Any
    nodes: tuple[Any, Any]

    def __len__(self) -> int:
        return len(self.row)


def find_candidates(past: Past, versions: bool) -> Candidates:
    """Every deleted life once, in its last whole state; with `versions` earlier states too."""
    if not len(past.states):
        nothing = np.zeros(0, np.int64)
        flags = nothing.astype(bool)
        runs = Runs(nothing, nothing, nothing, nothing, flags)
        return Candidates(nothing, nothing, nothing, flags, runs, flags, (nothing, nothing))
    dead = np.flatnonzero(~past.alive_now)
    last = past.last_whole[dead]
    parts = [_whole(past, last[last >= 0], False)]
    parts += _lost(past, dead[last < 0])
    if versions:
        parts.append(_whole(past, _earlier_states(past), True))
    return _stacked(parts)


def _whole(past: Past, rows: Any, superseded: bool) -> Candidates:
    maps = past.map_states(rows)
    states = past.states
    source = np.where(states.order[rows] == NOW, DISK, LOG)
    return Candidates(
        rows,
        source,
        _deaths(past, rows),
        np.full(len(rows), superseded),
        maps.data,
        maps.damaged,
        maps.nodes,
    )


def _deaths(past: Past, rows: Any) -> Any:
    """When each state ended. One on disk holds its blocks still if its inode is in use."""
    order, following = past.states.order[rows], past.following[rows]
    held = past.fs.bitmaps.inodes_in_use(past.states.table.number[rows])
    ended = np.where(following == NEVER, NOW, following)
    return np.where((order == NOW) & held, NEVER, ended)


def _deaths_by_time(past: Past, rows: Any) -> Any:
    """The first transaction committed at or after each state's deletion time, NOW for none."""
    if past.log is None:
        return np.full(len(rows), NOW)
    known = sorted(
        (item.order, item.commit_time_ns)
        for item in past.log.transactions
        if item.commit_time_ns is not None
    )
    orders = np.array([order for order, _ in known] + [NOW], np.int64)
    times = np.maximum.accumulate(np.array([time for _, time in known] or [0], np.int64))
    place = np.searchsorted(times, past.states.table.dtime[rows] * NANOSECONDS)
    return orders[place] if known else np.full(len(rows), NOW)


def _lost(past: Past, lives: Any) -> list[Candidates]:
    """Lives of which no whole state is known: by their stale index entries, or not at all."""
    rows = np.searchsorted(past.states.life, lives, side="right") - 1
    roots, found = _stale_roots(past, rows)
    maps = past.map_states(rows[found], roots[found])
    usable = np.zeros(len(found), bool)
    usable[np.unique(maps.data.owner)] = True
    rows = np.concatenate([rows[found], rows[~found]])
    source = np.concatenate(
        [np.where(usable, STALE_INDEX, NOTHING)[: found.sum()], np.full((~found).sum(), NOTHING)]
    )
    damaged = np.concatenate([maps.damaged, np.zeros((~found).sum(), bool)])
    return [
        Candidates(
            rows,
            source,
            _deaths_by_time(past, rows),
            np.zeros(len(rows), bool),
            maps.data,
            damaged,
            maps.nodes,
        )
    ]


def _stale_roots(past: Past, rows: Any) -> tuple[Any, Any]:
    """Extent roots rebuilt from what a deletion leaves behind `eh_entries = 0`.

    Removal takes index entries away from the last to the first and clears none of them; the
    depth is reset, so it is learnt from the node that the first entry points at.

    Returns:
        (uint8 (n, 60) roots, bool (n,): a root could be rebuilt).
    """
    table = past.states.table
    roots = table.i_block[rows].copy()
    sound, entries, _, _ = extents.parse_headers(roots)
    by_extents = (table.flags[rows] & int(InodeFlags.EXTENTS)) != 0
    found = sound & (entries == 0) & by_extents & ((table.mode[rows] & 0xF000) == 0x8000)
    slot = np.arange(4)
    every = np.arange(len(rows))[:, None]
    first, child = extents.parse_children(roots, every, slot[None, :])
    data, readable = past.fs.fetch(child.reshape(-1))
    fits, held, _, depth = (column.reshape(child.shape) for column in extents.parse_headers(data))
    fits = fits & readable.reshape(child.shape) & (held > 0) & (child > 0)
    fits &= depth == depth[:, :1]
    fits[:, 1:] &= first[:, 1:] > first[:, :-1]
    count = np.cumprod(fits, axis=1).sum(axis=1)
    found &= (count > 0) & (depth[:, 0] < extents.MAX_DEPTH)
    roots[:, 2] = count
    roots[:, 3] = 0
    roots[:, 6] = depth[:, 0] + 1
    return roots, found


def _earlier_states(past: Past) -> Any:
    """Whole states of regular files that the life's next state does not contain.

    A state that only grew lies in the next one: it has no block and no byte that went.
    """
    states = past.states
    rows = np.flatnonzero(states.whole & ((states.table.mode & 0xF000) == 0x8000))
    same = states.life[rows[1:]] == states.life[rows[:-1]]
    earlier, later = rows[:-1][same], rows[1:][same]
    before, after = past.map_states(earlier).data, past.map_states(later).data
    mine, other = overlaps(before.physical, before.length, after.physical, after.length)
    kept = before.owner[mine] == after.owner[other]
    mine, other = mine[kept], other[kept]
    start = np.maximum(before.physical[mine], after.physical[other])
    end = np.minimum(
        before.physical[mine] + before.length[mine], after.physical[other] + after.length[other]
    )
    shared = np.bincount(before.owner[mine], end - start, len(earlier))
    total = np.bincount(before.owner, before.length, len(earlier))
    shrunk = states.table.size[earlier] > states.table.size[later]
    return earlier[(shared < total) | shrunk]


def _stacked(parts: list[Candidates]) -> Candidates:
    """Several tables of candidates as one."""
    offsets = np.cumsum([0] + [len(part) for part in parts])[:-1].tolist()
    shifted = [
        replace(
            part,
            runs=replace(part.runs, owner=part.runs.owner + offset),
            nodes=(part.nodes[0] + offset, part.nodes[1]),
        )
        for part, offset in zip(parts, offsets, strict=True)
    ]
    columns = {
        name: np.concatenate([getattr(part, name) for part in shifted])
        for name in ("row", "source", "death", "superseded", "damaged")
    }
    runs = {
        part.name: np.concatenate([getattr(one.runs, part.name) for one in shifted])
        for part in fields(Runs)
    }
    owners, blocks = (
        np.concatenate(column) for column in zip(*(part.nodes for part in shifted), strict=True)
    )
    return Candidates(**columns, runs=Runs(**runs), nodes=(owners, blocks))
