"""Contents without an inode joined to freed inodes without a map, by the order on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.errors import AccessError
from ext4kit.parsers.inode import InodeFlags
from ext4kit.past.states import NEVER
from ext4kit.recovery.candidates import NOTHING
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.contents import CARVED, IN_LOG, Contents, content_of
from ext4kit.recovery.sources.alignment import Aligned, align
from ext4kit.recovery.sources.laying import LARGE, Ground, Steps, Way
from ext4kit.recovery.sources.laying import NOTHING as ASKED
from ext4kit.recovery.sources.likeness import ending, fits, like
from ext4kit.recovery.sources.order import NOTHING as NO_MATCH
from ext4kit.recovery.sources.order import match_in_order
from ext4kit.recovery.sources.paths import FoundName
from ext4kit.recovery.turns import KnownFiles, Turns, group_of, in_turn, known_files

BETWEEN = "order on the disk: made between neighbours whose blocks are known"
FEW_CHANGES = 4  # i_version of what was made, written, and given times and an owner or a mode
MANY_CHANGES = 8  # from which on it may have been written more than once
REWRITTEN = 0.3  # of these, and of those since when others were made, lie elsewhere
IN_PIECES = 0.9  # of those that had more than one extent
SURE = 0.995
SURE_IN_DISORDER = 0.999
DISORDER = 1.5  # files out of their order among the nearest ones
AROUND = 10  # the nearest ones on either side
CLAIMED = 0.01  # by all other files together
CONTRADICTED = 0.2  # a content like that is so much rarer under such a name
MOST_CONTENTS = 100_000  # each of them is looked into
_HEAD = 4096
_EXTENT_STARTS = [6, 9, 12]  # words of i_block: ee_block of the second extent and of those behind


@dataclass(frozen=True, slots=True)
class Joined:
    """What order gives a freed inode.

    Attributes:
        content: row in the contents.
        basis: what that rests on.
    """

    content: int
    basis: str


def join_contents(
    columns: Columns, contents: Contents, names: Sequence[FoundName | None]
) -> dict[int, Joined]:
    """Candidate without a map -> the content that is its own by its place among others.

    Args:
        columns: the candidates.
        contents: found without an inode.
        names: of each candidate, None where it is not known.
    """
    places = _asked(columns)
    rows = np.flatnonzero(contents.source != IN_LOG)
    rows = rows[np.argsort(contents.first[rows], kind="stable")]
    if not len(places) or not len(rows):
        return {}
    known = known_files(columns)
    between = _between(columns, contents, known, places)
    if len(rows) > MOST_CONTENTS:
        return between
    return _in_turn(columns, contents, known, places, rows, names, between)


def _asked(columns: Columns) -> Any:
    """Candidates that are regular files, were freed, and of which no block is known."""
    found, table = columns.found, columns.past.states.table
    row = found.row
    # Freeing blocks sets mtime; an inode that never had any keeps its own.
    freed = (table.links_count[row] == 0) & (table.mtime[row] == table.ctime[row])
    freed &= ((table.mode[row] & 0xF000) == 0x8000) & (found.source == NOTHING)
    freed &= (found.death != NEVER) & (table.crtime[row] > 0)
    return np.flatnonzero(freed & (table.flags[row] & int(InodeFlags.INLINE_DATA) == 0))


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


def _between(
    columns: Columns, contents: Contents, known: KnownFiles, places: Any
) -> dict[int, Joined]:
    """Those that fill all that lies between two neighbours whose blocks are known."""
    table, row = columns.past.states.table, columns.found.row
    places = places[_went_last(columns, row[places])]
    places = places[table.version[row[places]] <= FEW_CHANGES]  # more: it can lie elsewhere
    carved = np.flatnonzero(contents.source == CARVED)
    carved = carved[np.argsort(contents.first[carved])]
    if not len(places) or not len(carved):
        return {}
    number = table.number[row[places]]
    wanted = (group_of(columns.fs, number), table.crtime[row[places]], number)
    lying = (contents.first[carved], contents.end[carved])
    match = match_in_order(known.placed.take(known.regular), wanted, lying, known.taken)
    pairs = zip(places.tolist(), match.tolist(), strict=True)
    return {place: Joined(int(carved[at]), BETWEEN) for place, at in pairs if at != NO_MATCH}


def _in_turn(
    columns: Columns,
    contents: Contents,
    known: KnownFiles,
    places: Any,
    rows: Any,
    names: Sequence[FoundName | None],
    between: dict[int, Joined],
) -> dict[int, Joined]:
    """Those to which all files in their order leave one answer, with what names say.

    Those between two neighbours are kept where that does not reach.
    """
    first, end = contents.first[rows], contents.end[rows]
    likes = np.array([_like(contents, row) for row in rows.tolist()])
    ground = Ground(first, end, end - first > LARGE, likes, ~contents.sure[rows])
    told = [names[place] for place in places.tolist()]
    endings, called = np.unique(
        [ending(name.name if name else None) for name in told], return_inverse=True
    )
    table = columns.past.states.table.take(columns.found.row[places])
    nothing = np.full(len(places), ASKED)
    absent = _absent(columns, places, table)
    none = np.zeros(len(places))
    asked = Steps(nothing, nothing, none.astype(bool), called + 1, absent, none)
    turns = in_turn(columns.fs, known, (table.crtime, table.number), asked)
    table_of_fits = fits(endings.tolist(), likes)
    aligned = align(ground, turns.steps, table_of_fits, turns.counted)
    mixed = _out_of_order(columns, table)
    sure = _sure(aligned, turns, ground, table_of_fits, mixed, places, rows)
    looked_at = set(places[turns.asked[turns.asked != ASKED]].tolist())
    return {place: one for place, one in between.items() if place not in looked_at} | sure


def _absent(columns: Columns, places: Any, table: Any) -> Any:
    """How likely the content of each is not where its turn was, 0 for what is usual."""
    absent = np.where(table.version > MANY_CHANGES, REWRITTEN, 0.0)
    absent[~_went_last(columns, columns.found.row[places])] = REWRITTEN
    words = np.ascontiguousarray(table.i_block).view("<u4")[:, _EXTENT_STARTS]
    mapped = (table.flags & int(InodeFlags.EXTENTS)) != 0
    return np.where(mapped & words.any(axis=1), IN_PIECES, absent)


def _out_of_order(columns: Columns, table: Any) -> Any:
    """Bool: made at the same time as another one in another group; nothing orders the two."""
    order = np.argsort(table.crtime, kind="stable")
    time, group = table.crtime[order], group_of(columns.fs, table.number)[order]
    split = (time[1:] == time[:-1]) & (group[1:] != group[:-1])
    times = np.unique(time[1:][split])
    return np.isin(table.crtime, times)


def _sure(
    aligned: Aligned,
    turns: Turns,
    ground: Ground,
    table_of_fits: Any,
    mixed: Any,
    places: Any,
    rows: Any,
) -> dict[int, Joined]:
    """The pairs that nothing else comes near to."""
    claimed = np.bincount(aligned.content, aligned.chance, len(ground))
    step, content, chance = aligned.step, aligned.content, aligned.chance
    wanted = turns.asked[step]
    fit = table_of_fits[turns.steps.called[step], ground.like[content]]
    disorder = _disorder(aligned, turns)[step]
    good = (wanted != ASKED) & (turns.steps.first[step] == ASKED)
    good &= chance >= np.where(disorder < DISORDER, SURE, SURE_IN_DISORDER)
    good &= (claimed[content] - chance < CLAIMED) & (fit > CONTRADICTED) & ~mixed[wanted]
    step, content, fit = step[good], content[good], fit[good]
    agreeing = np.cumsum(np.append(0, fit > 1))
    low = np.searchsorted(step, step - AROUND)
    high = np.searchsorted(step, step + AROUND, side="right")
    told = agreeing[high] - agreeing[low]
    return {
        int(places[turns.asked[at]]): Joined(int(rows[mine]), _basis(int(number), int(fitting)))
        for at, mine, number, fitting in zip(step, content, high - low, told, strict=True)
    }


def _basis(number: int, fitting: int) -> str:
    return (
        f"order on the disk: made one after the other, as they lie; of {number} in a row the "
        f"names of {fitting} fit their contents"
    )


def _disorder(aligned: Aligned, turns: Turns) -> Any:
    """Per step: how many of the nearest files asked for do not lie behind the one before."""
    at = np.flatnonzero((turns.asked != ASKED) & (turns.steps.first == ASKED))
    odd = 1 - aligned.ways[at][:, [Way.BEHIND, Way.NEAR]].sum(axis=1)
    sums = np.append(0, np.cumsum(odd))
    place = np.arange(len(at))
    low, high = np.maximum(place - AROUND, 0), np.minimum(place + AROUND + 1, len(at))
    found = np.zeros(len(turns.asked))
    found[at] = sums[high] - sums[low]
    return found


def _like(contents: Contents, row: int) -> int:
    """What a content looks like."""
    content = content_of(contents, row)
    try:
        head = content.read(0, min(_HEAD, content.size))
    except AccessError:
        head = b""
    return like(head, int(contents.signature[row]))
