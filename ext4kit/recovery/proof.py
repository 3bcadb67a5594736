"""Byte offsets of the evidence for each deleted file, for verification with other tools.

Offsets refer to the disk inside a container, or to the logical or unlocked volume. A structure
read from the journal also has the transaction of its copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.history.directory_blocks import SRC_DISK
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.journal import Log
from ext4kit.journal.overlay import first_byte
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.evidence_places import (
    EntryPlace,
    EvidencePlaces,
    InodePlace,
    LastOwner,
    Place,
)
from ext4kit.recovery.names import CandidateNames

_I_BLOCK = 40  # first byte of an inode at which inline entries may begin
_ENTRY = 8  # bytes of a directory entry before its name


@dataclass(frozen=True, slots=True)
class _InodePlaces(Table):
    """Where inode states were read: byte, block, stored tid of the copy or -1, and checksum."""

    offset: Int64s
    block: Int64s
    tid: Int64s
    checksum: Int64s
    is_known: Bools  # whether a state has a single place


class Proofs:
    """Evidence places of all candidates; each column is computed when it is first used.

    Args:
        blocks: block attribution of the candidates.
        names: names of the candidates.
    """

    def __init__(self, blocks: BlockAttribution, names: CandidateNames) -> None:
        self._tagged, self._found, self._history = blocks.tagged, blocks.candidates, blocks.history
        self._fs, self._journal_copies = blocks.history.fs, blocks.history.copies
        self._names, self._name_rows = names.paths.names.table, names.rows

    def of(self, place: int) -> EvidencePlaces | None:
        """Evidence places of one candidate as JSON values; None if no byte offset is defined."""
        if self._base is None:
            return None
        first, last = self._node_slices[place : place + 2]
        return {
            "file_system_at": self._base,
            "inode_at": self._inode_place(self._inodes, place),
            "freed_at": self._inode_place(self._freed, place),
            "map_at": self._nodes[first:last],
            "name_at": self._name_place(place),
            "content_at": self._content_places(place),
            "last_owner": self._owner(place),
            "copies": {"older": int(self._copies[0][place]), "newer": int(self._copies[1][place])},
        }

    # -- places of blocks -----------------------------------------------------------------

    @cached_property
    def _base(self) -> int | None:
        return first_byte(self._fs.blocks)

    def _of_copies(self, copies: Int64s, log: Log | None) -> tuple[Int64s, Int64s]:
        """(byte, stored tid) of journal copies; -1 for none or on an external journal device.

        Args:
            copies: rows of the tags of `log`.
            log: the log with these tags.
        """
        if log is None or not len(log.tags) or log.reader.blocks is not log.home:
            return np.full(len(copies), NO_ROW), np.full(len(copies), NO_ROW)
        is_here = copies >= 0
        block = log.reader.log_blocks[log.tags.position[copies]]
        tid = log.tags.order[copies] % (1 << 32)
        return np.where(is_here, self._bytes(block), NO_ROW), np.where(is_here, tid, NO_ROW)

    def _bytes(self, blocks: Int64s) -> Int64s:
        return (self._base or 0) + blocks * self._fs.superblock.block_size

    def _now(self, blocks: Int64s) -> tuple[Int64s, Int64s]:
        """(byte, stored tid) of the current blocks: on disk, or in the journal to be replayed."""
        offset, tid = self._bytes(blocks), np.full(len(blocks), NO_ROW)
        view = self._fs.blocks
        if not isinstance(view, ReplayedBlocks):
            return offset, tid
        copies = view.copies_of(blocks)
        logged = copies >= 0
        offset[logged], tid[logged] = self._of_copies(copies[logged], view.log)
        offset[view.changed.rows_of(blocks) >= 0] = NO_ROW
        return offset, tid

    def _in_copies(self, blocks: Int64s, copies: Rows) -> tuple[Int64s, Int64s]:
        """(byte, stored tid) of blocks in journal copies (rows of `log.tags`), else as `_now`."""
        offset, tid = self._now(blocks)
        logged = copies >= 0
        if logged.any():
            offset[logged], tid[logged] = self._of_copies(copies[logged], self._history.log)
        return offset, tid

    # -- inodes ---------------------------------------------------------------------------

    def _states(self, rows: Int64s) -> _InodePlaces:
        """Where each state was read."""
        states = self._history.states
        order = states.tid[rows]
        block, skip = self._fs.inode_location(states.table.number[rows])
        offset, tid = self._now(block)
        logged = (order < TID_PRE_FAST_COMMIT) & (order >= self._history.epochs.first_of_layout)
        if self._journal_copies is not None and logged.any():
            copies = self._journal_copies.newest_copies(block, order)
            logged &= copies >= 0
            assert self._history.log is not None
            logged[logged] = self._history.log.tags.order[copies[logged]] == order[logged]
            offset[logged], tid[logged] = self._of_copies(copies[logged], self._history.log)
        known = (offset >= 0) & (logged | (order == TID_ON_DISK))
        known &= ~states.untagged[rows] & (rows >= 0)
        return _InodePlaces(offset + skip, block, tid, states.table.checksum[rows], known)

    def _inode_place(self, places: _InodePlaces, row: int) -> InodePlace | None:
        """One place as JSON values; None if the state has no single place."""
        if not places.is_known[row]:
            return None
        proven = self._fs.superblock.has_metadata_checksums
        place = _place(int(places.offset[row]), int(places.block[row]), int(places.tid[row]))
        return {**place, "checksum": int(places.checksum[row]) if proven else None}

    @cached_property
    def _inodes(self) -> _InodePlaces:
        return self._states(self._found.state_row)

    @cached_property
    def _freed(self) -> _InodePlaces:
        """Place of the first later state of each candidate that shows it freed.

        A freed inode keeps its inline data, so this can be the candidate's own state.
        """
        states = self._history.states
        table = states.table
        inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
        freed = ~states.describes_content | (inline & (table.dtime > 0))
        freed &= table.links_count == 0
        rows = np.where(freed, np.arange(len(states)), len(states))
        following = np.minimum.accumulate(rows[::-1])[::-1]
        row = following[self._found.state_row] if len(states) else self._found.state_row
        there = row < len(states)
        there[there] = states.instance[row[there]] == states.instance[self._found.state_row[there]]
        return self._states(np.where(there, row, NO_ROW))

    @cached_property
    def _table_blocks(self) -> Int64s:
        """Inode table block of each candidate."""
        return self._fs.inode_location(self._history.states.table.number[self._found.state_row])[0]

    def _owner(self, place: int) -> LastOwner:
        """A candidate as the last owner, with the first and last transaction that show this."""
        table, row = self._history.states.table, int(self._found.state_row[place])
        first, last = (int(column[place]) for column in self._owned)
        return {
            "inode": int(table.number[row]),
            "generation": int(table.generation[row]),
            "first": None if first < 0 else first,
            "last": None if last < 0 else last,
        }

    @cached_property
    def _owned(self) -> tuple[Int64s, Int64s]:
        """The first and the last transaction that show each candidate as the owner; -1 for none."""
        states, row = self._history.states, self._found.state_row
        order = states.tid[row]
        blocks, at = self._table_blocks, np.where(order < TID_PRE_FAST_COMMIT, order, TID_NONE)
        copies = np.full(len(blocks), NO_ROW)
        if self._journal_copies is not None:
            copies = self._journal_copies.newest_copies(blocks, at)
        _, first = self._in_copies(blocks, copies)
        last = first
        if self._journal_copies is not None:
            until = self._history.last_valid_tid(row)
            newest = self._journal_copies.newest_copies(blocks, until)
            _, last = self._of_copies(newest, self._history.log)
        on_disk = order >= TID_PRE_FAST_COMMIT
        return np.where(on_disk, NO_ROW, first), np.where(on_disk, NO_ROW, last)

    @cached_property
    def _copies(self) -> tuple[Int64s, Int64s]:
        """Numbers of older and of newer copies of each candidate's inode table block."""
        if self._journal_copies is None:
            none = np.zeros(len(self._found), np.int64)
            return none, none
        order = self._history.states.tid[self._found.state_row]
        return self._journal_copies.around(self._table_blocks, order)

    # -- map, content, name ---------------------------------------------------------------

    @cached_property
    def _node_order(self) -> Rows:
        return np.argsort(self._found.tree_blocks[0], kind="stable")

    @cached_property
    def _node_slices(self) -> list[int]:
        owner = self._found.tree_blocks[0][self._node_order]
        found: list[int] = row_bounds(owner, len(self._found)).tolist()
        return found

    @cached_property
    def _nodes(self) -> list[Place]:
        """The tree blocks of all candidates, grouped by candidate."""
        owner, block = (column[self._node_order] for column in self._found.tree_blocks)
        row = self._found.state_row[owner]
        at = self._history.last_valid_tid(row)
        copies = self._history.tree_block_copies(row, at, block)
        return _blocks(block, *self._in_copies(block, copies))

    @cached_property
    def _are_directories(self) -> Bools:
        return self._history.states.table.is_dir[self._found.state_row]

    def _content_places(self, place: int) -> list[Place]:
        """Places of content blocks that are read from the journal."""
        if place not in self._tagged or self._are_directories[place]:
            return []
        blocks, copies = self._tagged[place]
        return _blocks(blocks, *self._of_copies(copies, self._history.log))

    def _name_place(self, place: int) -> EntryPlace | None:
        """Place of the directory entry of a candidate."""
        offset, block, tid, is_inline = (column[place] for column in self._named)
        if is_inline:
            return self._inline_name(int(self._name_rows[place]), place)
        return None if offset < 0 else _place(int(offset), int(block), int(tid))

    @cached_property
    def _named(self) -> tuple[Int64s, Int64s, Int64s, Bools]:
        """(byte or -1, block, stored tid, True if inline) of each candidate's directory entry."""
        here = self._name_rows >= 0
        if not len(self._names):
            none = np.full(len(here), NO_ROW)
            return none, none, none, here
        rows = np.maximum(self._name_rows, 0)
        block, source = self._names.block[rows], self._names.source[rows]
        offset, tid = self._now(np.maximum(block, 0))
        logged = here & (source >= 0)
        offset[logged], tid[logged] = self._of_copies(
            np.where(block < 0, NO_ROW, source)[logged], self._history.log
        )
        known = here & (block >= 0) & (offset >= 0) & (logged | (source == SRC_DISK))
        place = np.where(known, offset + self._names.at[rows], NO_ROW)
        return place, block, tid, logged & (block < 0)

    def _inline_name(self, row: int, place: int) -> EntryPlace | None:
        """Place of an entry of an inline directory."""
        state, name = self._names.source[row], self._names.name[row]
        where = self._inode_place(self._states(np.array([state])), 0)
        raw = self._history.states.table.raw[state].tobytes()
        number = int(self._history.states.table.number[self._found.state_row[place]])
        start = raw.find(name, _I_BLOCK + _ENTRY)
        while where is not None and start >= 0:
            entry = raw[start - _ENTRY : start]
            if entry[:4] == number.to_bytes(4, "little") and entry[6] == len(name):
                at, block = where["offset"] + start - _ENTRY, where["block"]
                return {"offset": at, "block": block, "transaction": where["transaction"]}
            start = raw.find(name, start + 1)
        return None


def _blocks(block: Int64s, offset: Int64s, tid: Int64s) -> list[Place]:
    """Places as JSON values."""
    columns = offset.tolist(), block.tolist(), tid.tolist()
    return [
        {**_place(*place), "offset": None if place[0] < 0 else place[0]}
        for place in zip(*columns, strict=True)
    ]


def _place(offset: int, block: int, tid: int) -> EntryPlace:
    return {"offset": offset, "block": block, "transaction": None if tid < 0 else tid}
