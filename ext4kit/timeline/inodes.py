"""One pass over the inode states in the log: what changed, and the turns of each inode.

The states come in pieces of the log and only columns of what changed are kept, so memory goes
with the number of changes and not with the number of states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import inode_place
from ext4kit.journal import History, InodeVersions, inode_version_pieces
from ext4kit.parsers.inode import InodeTable, inode_checksums_ok, parse_inodes
from ext4kit.past import NOW
from ext4kit.past.states import are_ordinary
from ext4kit.timeline.attributes import attribute_events, first_sights
from ext4kit.timeline.clock import Clock
from ext4kit.timeline.events import Pool
from ext4kit.timeline.hints import disk_hints, state_hints
from ext4kit.timeline.states import NONE, Stage, States, Turns, joined_turns, stages_of, turns_of
from ext4kit.timeline.xattrs import AttributeChanges
from ext4kit.units import NANOSECONDS

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class InodeHistory:
    """What the pass found.

    Attributes:
        turns: of all inodes.
        events: what changed in inodes that went on, and hints.
        changes: the values of extended attributes that the events point at.
    """

    turns: Turns
    events: Pool
    changes: AttributeChanges


def read_inodes(
    fs: FileSystem, history: History, clock: Clock, complete: bool, progress: Progress | None
) -> InodeHistory:
    """Go over all inode states in the log.

    Args:
        fs: the file system as it is now.
        history: the log's copies.
        clock: its transactions.
        complete: the disk as `fs` shows it is what the newest transaction left.
        progress: told (done, total) in table blocks.
    """
    reader = _Reader(fs, history, clock, complete)
    total = max(len(history.tags), 1)
    done = 0
    for piece in inode_version_pieces(fs, history, of_other_layout=False):
        reader.take(piece)
        done = min(done + history.log.reader.chunk, total)
        if progress is not None:
            progress(done, total)
    if progress is not None:
        progress(total, total)
    return reader.finish()


class _Reader:
    def __init__(self, fs: FileSystem, history: History, clock: Clock, complete: bool) -> None:
        self.fs, self.history, self.clock, self.complete = fs, history, clock, complete
        self.changes = AttributeChanges(fs, history)
        self._turns: list[Turns] = []
        self._events = Pool()
        nothing = np.zeros((0, fs.superblock.inode_size), np.uint8)
        none = np.zeros(0, np.int64)
        self._carry = InodeVersions(none, none, none, nothing)

    def take(self, piece: InodeVersions) -> None:
        """One piece, put behind what the last one left over."""
        carried = len(self._carry)
        versions = InodeVersions.concat([self._carry, piece])
        states = self._states(versions, carried)
        if not len(states):
            return
        last = ends_group(states.table.number)
        block = self._table_blocks(states.table.number)
        unfinished = block == self.history.log.tags.block[piece.tag[-1]] if len(piece) else last
        self._carry = _versions_of(states, np.flatnonzero(last & unfinished))
        self._compare(states, np.flatnonzero(last & ~unfinished))
        self._collect(states)

    def finish(self) -> InodeHistory:
        """What is left over is complete now."""
        states = self._states(self._carry, len(self._carry))
        self._compare(states, np.arange(len(states)))
        turns = joined_turns(self._turns)
        return InodeHistory(turns, self._events, self.changes)

    # -- states ---------------------------------------------------------------------------

    def _states(self, versions: InodeVersions, carried: int) -> States:
        superblock = self.fs.superblock
        table = parse_inodes(versions.rows, versions.number, superblock)
        empty = table.mode == 0
        kept = are_ordinary(self.fs, table) | (empty & ~versions.rows.any(axis=1))
        index = np.flatnonzero(kept)
        index = index[np.lexsort((versions.order[index], versions.number[index]))]
        index = index[self._are_sound(table, index)]
        number = versions.number[index]
        leading = starts_group(number)
        index = index[~(leading & empty[index])]  # nothing is known to have been there before
        table = table.take(index)
        order, tag = versions.order[index], versions.tag[index]
        before = np.arange(len(index)) - 1
        before[1:][table.number[1:] != table.number[:-1]] = NONE
        copy = self.history.latest(self._table_blocks(table.number), order - 1)
        copy_order = np.where(copy >= 0, self.history.log.tags.order[copy], NONE)
        return States(
            table,
            order,
            tag,
            before,
            index < carried,
            stages_of(self.fs, table),
            np.where(copy >= 0, copy_order, order - 1) >= self.clock.baseline(order),
            (copy >= 0) & (before < 0),
        )

    def _are_sound(self, table: InodeTable, index: Any) -> Any:
        """Per row of `index` (bool): the checksum of its life's first state there fits.

        What stands in a slot that was never used need not be an inode.
        """
        number, generation = table.number[index], table.generation[index]
        starts = starts_group(number, generation)
        sound = np.ones(int(starts.sum()), bool)
        if self.fs.superblock.has_metadata_checksums and len(index):
            firsts = table.take(index[starts])
            sound = inode_checksums_ok(firsts, self.fs.superblock) | (firsts.mode == 0)
        return sound[np.cumsum(starts) - 1]

    def _table_blocks(self, numbers: Any) -> Any:
        """The inode table block of each inode."""
        superblock = self.fs.superblock
        group, slot = inode_place(superblock, numbers)
        per_block = superblock.block_size // superblock.inode_size
        return self.fs.groups.inode_table[group] + slot // per_block

    def _collect(self, states: States) -> None:
        """Turns and events of the states that are new in this piece."""
        fresh, since = self._fresh(states), self.clock.known_since(states.order)
        self._turns.append(turns_of(states, fresh, self._freed(states)))
        self._events.add(first_sights(states, fresh, since))
        for part in (*attribute_events(states, self.changes), *state_hints(states, self.clock)):
            self._events.add(part)

    def _compare(self, states: States, last: Any) -> None:
        """Hints where the disk shows another inode than the newest copy does."""
        copy_order = states.order[last]
        newest = self.history.latest(self._table_blocks(states.table.number[last]), NOW)
        if len(last):
            copy_order = self.history.log.tags.order[newest]
        if self.complete and len(last):
            kept = last[copy_order >= self.clock.last_baseline]
            self._events.add(disk_hints(self.fs, states.table.take(kept), states.tag[kept]))

    # -- beginnings -----------------------------------------------------------------------

    def _fresh(self, states: States) -> Any:
        """Per state (bool): the first one of a life that began in the log."""
        before = np.maximum(states.before, 0)
        went_on = states.before >= 0
        reborn = went_on & (states.stage > Stage.FREED)
        other = states.table.generation != states.table.generation[before]
        reborn &= other | (states.stage[before] == Stage.NOTHING)
        fresh = reborn | (~went_on & states.known_zero)
        unknown = np.flatnonzero(~went_on & ~states.known_zero)
        fresh[unknown] = self._created_since(states, unknown)
        return fresh & (states.stage > Stage.NOTHING)

    def _freed(self, states: States) -> Any:
        """Per state (bool): it was freed in this transaction, as far as its deletion time tells."""
        since = self.clock.known_since(states.order)
        later = states.table.dtime * NANOSECONDS >= since
        return (states.stage == Stage.FREED) & ((states.before >= 0) | states.known_zero | later)

    def _created_since(self, states: States, rows: Any) -> Any:
        """Whether inodes of which no earlier state is known were created in the log's time.

        By their creation time where they have one, else by the bitmap of inodes.
        """
        table = states.table
        since = self.clock.known_since(states.order[rows])
        crtime, has = table.crtime[rows], table.extra_isize[rows] >= 24
        by_time = (crtime > since) & ((crtime % NANOSECONDS != 0) | (since != self.clock.made))
        proven = np.where(has, by_time, False)
        old = np.flatnonzero(~has)
        proven[old] = self._allocated(table.take(rows[old]), states.order[rows[old]])
        return proven

    def _allocated(self, table: InodeTable, order: Any) -> Any:
        """Whether the inode bitmap shows that each was allocated in that transaction."""
        group, slot = inode_place(self.fs.superblock, table.number)
        block = self.fs.groups.inode_bitmap[group]
        tags = self.history.log.tags
        now, before = self.history.latest(block, order), self.history.latest(block, order - 1)
        touched = (now >= 0) & (tags.order[now] == order)
        result = np.zeros(len(order), bool)
        proven = np.flatnonzero(touched & (before >= 0))
        if len(proven):
            copies, place = np.unique(before[proven], return_inverse=True)
            byte = self.history.log.read_copies(copies)[place, slot[proven] >> 3]
            result[proven] = (byte >> (slot[proven] & 7)) & 1 == 0
        oldest = np.minimum(np.minimum(table.atime, table.mtime), table.ctime)
        first = self.fs.superblock.first_usable_inode
        whole = touched & (before < 0) & self.clock.is_whole & (table.number > first)
        return result | (whole & (oldest >= self.clock.made))


def _versions_of(states: States, rows: Any) -> InodeVersions:
    return InodeVersions(
        states.table.number[rows],
        states.order[rows],
        states.tag[rows],
        states.table.raw[rows].copy(),
    )
