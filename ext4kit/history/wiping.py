"""Files that a wiping program overwrote before it deleted them, and their true names.

`shred -u` overwrites a file, cuts it to zero bytes and renames it until one character is left; each
step is committed. The true name is the one before these names. A chain of names counts only if its
steps follow each other shortly and the content was cut at the same time. A program that writes
whole units leaves a second mark: the file grows to the end of its last unit just before the
deletion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.types import NO_ROW, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE
from ext4kit.history.names import NameTable, commit_times
from ext4kit.history.wipers import BLEACHBIT, LONG, SRM, find_chain, may_end_chain
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.parsers.directory import parse_entries
from ext4kit.units import NANOSECONDS

REGULAR_TYPE = 1  # file type in entries
STEP = 60 * NANOSECONDS  # longest time between two steps of a program
_UNKNOWN = np.iinfo(np.int64).max  # as in `commit_times`
ROUNDERS = "shred, wipe, scrub or BleachBit"  # programs that fill up the last block


@dataclass(frozen=True, slots=True)
class Wiping:
    """The wiping of a deleted file.

    Attributes:
        tools: the programs that leave these marks.
        names: the names that the program gave the file, as far as the journal has them.
        size: size before the wiping, None if unknown.
        started: commit time (ns) of the first sign of it, None if unknown.
        true_name: the name before `names`, None if it is unknown or if there are no such names.
        true_row: row in the name table of that name, NO_ROW if it is not from there.
        is_certain: whether harmless causes are rare; False if only the size shows it.
    """

    tools: str
    names: tuple[bytes, ...]
    size: int | None
    started: int | None
    true_name: bytes | None
    true_row: int
    is_certain: bool


def find_wipings(history: History, names: NameTable) -> dict[int, Wiping]:
    """The wiping of each deleted regular file that shows one, by instance.

    Args:
        history: the states.
        names: names of the instances.
    """
    found: dict[int, Wiping] = {}
    for instance, rows in _renamed_files(history, names):
        wiping = _by_names(history, names, instance, rows)
        if wiping is not None:
            found[instance] = wiping
    for instance in _grown_to_units(history):
        if instance not in found and (wiping := _by_size(history, instance)) is not None:
            found[instance] = wiping
    return found


def _renamed_files(history: History, names: NameTable) -> Iterator[tuple[int, Rows]]:
    """(instance, rows of its names in the journal) of deleted files that had several names."""
    of = names.instance
    several = np.unique(of[:-1][of[1:] == of[:-1]])
    is_regular = history.states.table.is_regular[history.last_rows[several]]
    for instance in several[is_regular & ~history.is_allocated[several]].tolist():
        start, end = np.searchsorted(of, [instance, instance + 1]).tolist()
        if not may_end_chain(names.name[end - 2], names.name[end - 1]):
            continue
        rows = [row for row in range(start, end) if names.last_seen[row] >= 0]
        keys = [(names.directory[row], names.name[row]) for row in rows]
        kept = [at for at in range(len(rows)) if keys[at : at + 1] != keys[at + 1 : at + 2]]
        if kept and rows[-1] == end - 1:
            yield instance, np.array(rows)[kept]


class _ContentChanges:
    """The changes of the content of a file, from its linked states.

    Attributes:
        sizes: sizes, oldest first, without repetitions; times: mtime (ns) of the first state with
            each of them; empty without a state.
        mtime: time of the last change, ns.
        tid: of the first state; last_tid: of the first one with the last change.
        was_written: whether the content changed after the creation.
    """

    def __init__(self, history: History, instance: int) -> None:
        states, table = history.states, history.states.table
        first, end = np.searchsorted(states.instance, [instance, instance + 1]).tolist()
        rows = np.arange(first, end)[states.is_linked[first:end]]
        new = rows[starts_group(table.size[rows])]
        self.sizes, self.times = table.size[new].tolist(), table.mtime[new].tolist()
        last = rows[table.mtime[rows] == table.mtime[rows[-1:]]] if len(rows) else rows
        self.mtime = int(table.mtime[rows[-1]]) if len(rows) else TID_NONE
        self.tid, self.last_tid = (
            int(states.tid[some[0]]) if len(some) else TID_NONE for some in (rows, last)
        )
        self.was_written = bool((table.mtime[rows] != table.crtime[rows]).any())
        self.units = history.fs.superblock.block_size, BLEACHBIT.unit

    @property
    def is_cut(self) -> bool:
        """Whether the last change made the file shorter."""
        return len(self.uncut) < len(self.sizes)

    @cached_property
    def uncut(self) -> list[int]:
        """The sizes without those that the file was cut to within a short time at the end."""
        sizes: list[int] = self.sizes
        count = len(sizes)
        while count > 1 and self.sizes[count - 1] < self.sizes[count - 2]:
            if self.times[count - 1] < self.mtime - STEP:
                break
            count -= 1
        return sizes[:count]

    @property
    def is_filled_up(self) -> bool:
        """Whether the file had whole units before it was cut, and not before that."""
        *_, before, after = 0, 0, *self.uncut
        if not 0 < before < after:
            return False
        return any(-(-before // unit) * unit == after for unit in self.units)

    @property
    def is_for_srm(self) -> bool:
        """Whether the file had a size before it was cut that only `srm` gives."""
        *_, before, after = 0, 0, *self.uncut
        return 0 < before < after and after % SRM.unit == 0

    @property
    def size_before(self) -> int | None:
        """The size before a program filled up the last unit and cut the file."""
        sizes: list[int] = self.uncut
        if self.is_for_srm:  # it writes a unit in parts
            sizes = [size for size in sizes if size % (SRM.unit - 1) > size // (SRM.unit - 1)]
            return sizes[-1] if sizes else None
        return sizes[-2] if self.is_filled_up else sizes[-1] if sizes else None


def _by_names(history: History, names: NameTable, instance: int, rows: Rows) -> Wiping | None:
    """The wiping that the names of a file show; None if they show none."""
    chain = find_chain([(int(names.directory[row]), names.name[row]) for row in rows.tolist()])
    if chain is None:
        return None
    own, content = rows[chain.start :], _ContentChanges(history, instance)
    begun = int(max(names.valid_from[own[0]], names.in_force_by[own[0]]))
    if chain.follows and int(names.removed[rows[chain.start - 1]]) != begun:
        chain = chain._replace(follows=False)
    started = int(commit_times(history, np.array([begun]))[0])
    times = np.append(started, commit_times(history, names.removed[own]))
    if chain.steps >= LONG:
        times = times[:-1]  # a program that was stopped leaves the file to a later deletion
    is_seen = content.tid < begun
    if not content.sizes or not _is_quick(times, content.mtime):
        return None
    cut_from = content.uncut[-1] if content.is_cut else None
    if not chain.shows_wiping(cut_from, content.sizes[-1], is_seen, content.was_written):
        return None
    true_row = int(rows[chain.start - 1]) if chain.follows else NO_ROW
    true_name = names.name[true_row] if chain.follows else None
    if not chain.start:
        true_name = _name_before_replay(history, names, int(own[0]), begun)
    return Wiping(
        chain.wiper.tools,
        tuple(names.name[row] for row in own.tolist()),
        content.size_before if is_seen else None,
        None if started == _UNKNOWN else started,
        true_name,
        true_row,
        is_certain=True,
    )


def _name_before_replay(history: History, names: NameTable, row: int, begun: int) -> bytes | None:
    """The name that the first one of a chain replaced, in the directory block as it is on disk.

    If a recovery would write a block, the disk has an older state of it. That state is the one
    before a transaction if no earlier transaction to replay has a copy of the block.

    Args:
        history: the states.
        names: names of the instances.
        row: the first name of the chain.
        begun: tid of the transaction that gave this name.
    """
    reader, block, copies = history.fs.blocks, int(names.block[row]), history.copies
    if copies is None or not isinstance(reader, ReplayedBlocks) or block <= 0:
        return None
    before = int(copies.newest_copies(np.array([block]), begun - 1)[0])
    if before != NO_ROW and int(copies.log.tags.order[before]) in reader.plan.walk:
        return None
    try:
        data = reader.base.read_many(np.array([block]))
    except AccessError:
        return None
    entries, _ = parse_entries(data, history.fs.has_file_types, dots=False)
    own = entries.take(entries.inode == history.number[names.instance[row]])
    found = own.names(data)
    first = names.name[row]
    fits = len(found) == 1 and len(found[0]) == len(first) and found[0] != first
    return found[0] if fits and own.file_type[0] in (0, REGULAR_TYPE) else None


def _is_quick(times: Int64s, mtime: int) -> bool:
    """Whether steps follow a change of the content, and each other, within a short time."""
    known = times[times != _UNKNOWN]
    if not len(known):
        return True
    return bool((np.diff(known) <= STEP).all()) and mtime >= int(known[0]) - STEP


def _grown_to_units(history: History) -> list[int]:
    """Deleted regular files with a state that fills whole units, other than the state before."""
    states = history.states
    size, instance = states.table.size, states.instance
    before, after = size[:-1], size[1:]
    grown = (instance[1:] == instance[:-1]) & states.is_linked[:-1] & states.is_linked[1:]
    grown &= states.table.is_regular[:-1] & (before > 0) & (before < after)
    filled = after % SRM.unit == 0
    for unit in (history.fs.superblock.block_size, BLEACHBIT.unit):
        filled |= (before + unit - 1) // unit * unit == after
    chosen = np.unique(instance[:-1][grown & filled])
    deleted: list[int] = chosen[~history.is_allocated[chosen]].tolist()
    return deleted


def _by_size(history: History, instance: int) -> Wiping | None:
    """The wiping that the sizes of a file show; None if they show none."""
    content, last = _ContentChanges(history, instance), history.last_rows[instance]
    removed = (int(history.states.table.dtime[last]) + 1) * NANOSECONDS
    if not history.is_freed[last] or not 0 <= removed - content.mtime <= STEP:
        return None
    is_emptied = content.is_cut and content.sizes[-1] == 0
    if (content.is_cut and not is_emptied) or not (content.is_for_srm or content.is_filled_up):
        return None
    started = int(commit_times(history, np.array([content.last_tid]))[0])
    return Wiping(
        SRM.tools if content.is_for_srm else ROUNDERS,
        (),
        content.size_before,
        None if started == _UNKNOWN else started,
        None,
        NO_ROW,
        is_certain=content.is_for_srm or is_emptied,
    )
