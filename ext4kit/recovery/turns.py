"""All files of a disk in the order in which they were made, as far as inodes tell of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.maps import Runs, spread
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.intervals import union
from ext4kit.recovery.sources.laying import LARGE, Steps
from ext4kit.recovery.sources.laying import NOTHING as ASKED
from ext4kit.recovery.sources.likeness import ANYTHING
from ext4kit.recovery.sources.order import Placed

FORGOTTEN = 0.5  # of the files whose inodes others have now still have their content
BETWEEN = 60  # inode numbers between two files made one after the other; more are another place
STRANGER = 0.3  # a stranger's content may lie in front where the inode numbers start anew
MOST_STEPS = 4000  # the latest ones; each takes some milliseconds
_INODES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Files of which inode and blocks are known.

    Attributes:
        placed: regular files, directories and all others.
        regular: bool, those that are regular files.
        taken: (first block, one past the last) of all runs that somebody has, ascending.
    """

    placed: Placed
    regular: Any
    taken: tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Turns:
    """Files in the order in which they were made.

    Attributes:
        steps: as `align` takes them.
        asked: int64 per step, row of the file that is asked for, NOTHING for all others.
        counted: bool per step, it tells of the habits of the disk.
    """

    steps: Steps
    asked: Any
    counted: Any


def known_files(columns: Columns) -> KnownFiles:
    """All files that live or whose map was found, with what they have."""
    fs, states, runs = columns.fs, columns.past.states, columns.runs
    tables = [(states.table.take(columns.found.row), runs, columns.found.superseded)]
    for table, maps in fs.live_maps():
        tables.append((table, maps.data, np.zeros(len(table), bool)))
    placed, regular = [], []
    for table, data, earlier in tables:
        mapped, *part = _placed(fs, table, data)
        placed.append(part)
        kept = ((table.mode & 0xF000) == 0x8000) & ~earlier & (table.crtime > 0)
        regular.append((kept & (table.number >= fs.superblock.first_inode))[mapped])
    start, length = union(
        np.concatenate([data.physical for _, data, _ in tables]),
        np.concatenate([data.length for _, data, _ in tables]),
    )
    known = Placed(*(np.concatenate(column) for column in zip(*placed, strict=True)))
    return KnownFiles(known, np.concatenate(regular), (start, start + length))


def _placed(fs: FileSystem, table: Any, runs: Runs) -> tuple[Any, ...]:
    """Rows of a table that have blocks, and the columns of `Placed` for them."""
    mapped, first = np.unique(runs.owner, return_index=True)
    last = np.append(first[1:], len(runs))[: len(first)] - 1
    start, end = runs.physical[first], runs.physical[last] + runs.length[last]
    number = table.number[mapped]
    group = group_of(fs, number)
    return mapped, group, table.crtime[mapped], number, start, end, first == last


def group_of(fs: FileSystem, number: Any) -> Any:
    """Block group of inodes."""
    return (number - 1) // fs.superblock.inodes_per_group


def in_turn(fs: FileSystem, known: KnownFiles, wanted: tuple[Any, Any], asked: Steps) -> Turns:
    """The files asked for with their known neighbours, and those that may have been between.

    Args:
        fs: the file system.
        known: files whose blocks are known.
        wanted: (creation time in ns, number) of the files that are asked for.
        asked: of them, in the same order; `skip` is not looked at.
    """
    some = np.flatnonzero(known.regular)
    placed = known.placed
    large = placed.end[some] - placed.first[some] > LARGE
    time = np.concatenate([placed.time[some], wanted[0]])
    number = np.concatenate([placed.number[some], wanted[1]])
    order = np.lexsort((number, time))
    order = order[_beside(order >= len(some), np.append(large, asked.large)[order])]
    order = order[-MOST_STEPS:]
    row = np.where(order < len(some), ASKED, order - len(some))
    lost, anew = _forgotten(fs, time[order], number[order])
    first = np.concatenate([placed.first[some], asked.first])[order]
    end = np.concatenate([placed.end[some], asked.end])[order]
    nothing = np.zeros(len(some))
    called = np.concatenate([nothing.astype(np.int64), asked.called])[order]
    absent = np.concatenate([nothing, asked.absent])[order]
    large = np.append(large, asked.large)[order]
    steps = Steps(first, end, large, called, absent, np.where(anew, STRANGER, 0.0))
    return _with_forgotten(steps, row, lost)


def _beside(asked: Any, large: Any) -> Any:
    """Bool: a file is asked for, or the next known one, small or large, beside such a one."""
    position = np.arange(len(asked))
    kept, here = asked.copy(), position[asked]
    for kind in (False, True):
        mine = ~asked & (large == kind)
        before = np.maximum.accumulate(np.where(mine, position, -1))[here]
        behind = np.minimum.accumulate(np.where(mine, position, len(mine))[::-1])[::-1][here]
        kept[before[before >= 0]] = True
        kept[behind[behind < len(mine)]] = True
    return kept


def _forgotten(fs: FileSystem, time: Any, number: Any) -> tuple[Any, Any]:
    """Per step: how many files may have been made right before that nobody tells of; anew.

    A number between those of two files made one after the other, whose inode was made later,
    may have been a file's then. Where the numbers go back or far on nothing is known of it.
    """
    low, high = np.append(number[:1], number[:-1] + 1), number
    ascending = (high >= low) & (high - low <= BETWEEN)
    row, position = spread(np.where(ascending, high - low, 0))
    between = low[row] + position
    asked, back = np.unique(between, return_inverse=True)
    made = np.zeros(len(asked), np.int64)
    for start in range(0, len(asked), _INODES_AT_ONCE):
        part = slice(start, start + _INODES_AT_ONCE)
        made[part] = fs.inode_table(asked[part]).crtime
    later = made[back] > time[row]
    return np.bincount(row[later], minlength=len(time)), ~ascending


def _with_forgotten(steps: Steps, row: Any, lost: Any) -> Turns:
    """The steps, in front of each one as many of files that are forgotten; they fit anything."""
    of = np.repeat(np.arange(len(steps)), 1 + lost)
    real = np.zeros(len(of), bool)
    real[np.cumsum(1 + lost) - 1] = True
    every = Steps(
        np.where(real, steps.first[of], ASKED),
        steps.end[of],
        steps.large[of],
        np.where(real, steps.called[of], ANYTHING),
        np.where(real, steps.absent[of], FORGOTTEN),
        steps.skip[of],
    )
    usual = (every.absent == 0) & (every.skip == 0) & (every.first == ASKED)
    return Turns(every, np.where(real, row[of], ASKED), usual)
