"""Who had blocks before: recorded states of inodes, deleted files and carved contents.

Nothing is judged here. The maps of all recorded inode states, the maps of deleted files with the
reuse that recovery found, and carved contents are put into tables of runs; a question joins them
with the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.journal.block_types import BlockRole, InodeUses, uses_of_inodes
from ext4kit.recovery.records import FoundFiles


class Knowledge(IntEnum):
    """What the knowledge of an earlier use rests on, the best first."""

    JOURNAL = 0  # a tagged copy of the inode in the journal
    FAST_COMMIT = 1  # the file system before or between fast commits
    INODE_TABLE = 2  # the inode on disk, freed or on the orphan list
    UNTAGGED = 3  # an old copy of the inode without a tag: its time is a bound
    REBUILT = 4  # a map that was rebuilt from freed tree blocks


@dataclass(frozen=True, slots=True)
class EarlierUses(Table):
    """Recorded uses of blocks by inodes, as columns (n,), by place and time.

    Attributes:
        place: which of the given blocks.
        instance: of the inode, in the history.
        role: BlockRole.
        file_block: of content; -1 of tree and attribute blocks.
        first_tid: of the first state that shows the use.
        last_tid: of the last one; both TID_ON_DISK for a state on disk, TID_NONE without one.
        valid_tid: the last tid at which that one was in force.
        ended_tid: of the first later state of the inode without it, TID_NONE if there is none.
        knowledge: Knowledge.
        file: row of the deleted file, or earlier version, whose content is in the block; -1 for
            none.
        is_reused: True where recovery found a later owner of the block.
    """

    place: Rows
    instance: Int64s
    role: Int64s
    file_block: Int64s
    first_tid: Int64s
    last_tid: Int64s
    valid_tid: Int64s
    ended_tid: Int64s
    knowledge: Int64s
    file: Rows
    is_reused: Bools


class EarlierOwners:
    """Answers who had blocks before.

    Args:
        found: the deleted files of the file system, with earlier versions.
    """

    def __init__(self, found: FoundFiles) -> None:
        self.found = found
        self.history: History = found.blocks.history
        self._states, self._rows = self._state_uses()
        candidates = found.blocks.candidates
        self._file_of = np.full(len(candidates), NO_ROW)  # candidate -> row of the files
        of_inode = np.flatnonzero(found.rows >= 0)
        self._file_of[found.rows[of_inode]] = of_inode
        self._content_of = np.full(len(found.contents), NO_ROW)
        of_content = np.flatnonzero(found.rows < 0)
        self._content_of[~found.rows[of_content]] = of_content
        for candidate, match in found.matches.of_candidate.items():
            self._content_of[match.content] = self._file_of[candidate]

    def _state_uses(self) -> tuple[InodeUses, Rows]:
        """The uses by all recorded states that map content, and the state of each."""
        states = self.history.states
        rows = np.flatnonzero(states.describes_content)
        uses = uses_of_inodes(states.table.take(rows), self.history.map_states(rows))
        return uses, rows[uses.owner]

    def of(self, blocks: Int64s) -> EarlierUses:
        """The recorded uses of blocks (int64 (n,), in any order), the oldest first.

        The inode that has a block now is among them where its states are recorded.
        """
        found = EarlierUses.concat([self._by_states(blocks), self._by_rebuilt_maps(blocks)])
        return found.take(np.lexsort((found.last_tid, found.first_tid, found.place)))

    def contents(self, blocks: Int64s) -> tuple[Rows, Rows]:
        """(place, row of the deleted files) of each carved content that has one of the blocks."""
        runs = self.found.contents.runs
        place, row = overlap_pairs(blocks, np.ones_like(blocks), runs.physical, runs.length)
        file = self._content_of[runs.owner[row]]
        return place[file >= 0], file[file >= 0]

    def _by_states(self, blocks: Int64s) -> EarlierUses:
        uses, states = self._states, self.history.states
        place, use = overlap_pairs(blocks, np.ones_like(blocks), uses.start, uses.length)
        row = self._rows[use]
        inside = blocks[place] - uses.start[use]
        file_block = np.where(uses.file_block[use] >= 0, uses.file_block[use] + inside, NO_ROW)
        instance, role, tid = states.instance[row], uses.role[use], states.tid[row]
        ground = _ground(states.untagged[row], tid)
        order = np.lexsort((tid, file_block, role, instance, place))
        keys = (place[order], instance[order], role[order], file_block[order])
        first, last = np.flatnonzero(starts_group(*keys)), np.flatnonzero(ends_group(*keys))
        best = np.minimum.reduceat(ground[order], first) if len(first) else ground
        place, instance, role, file_block = (key[first] for key in keys)
        file, is_reused = self._files(blocks, place, instance)
        return EarlierUses(
            place, instance, role, file_block, tid[order[first]], tid[order[last]],
            self.history.last_valid_tid(row[order[last]]), self.history.next_tid[row[order[last]]],
            best, file, is_reused,
        )  # fmt: skip

    def _by_rebuilt_maps(self, blocks: Int64s) -> EarlierUses:
        """Uses by deleted files whose map no recorded state has."""
        runs, candidates = self.found.blocks.runs, self.found.blocks.candidates
        runs = runs.take(candidates.size_unknown[runs.owner])
        place, run = overlap_pairs(blocks, np.ones_like(blocks), runs.physical, runs.length)
        candidate = runs.owner[run]
        states, count = self.history.states, len(place)
        row = candidates.state_row[candidate]
        freed = candidates.freed_tid[candidate]
        return EarlierUses(
            place,
            states.instance[row],
            np.full(count, int(BlockRole.FILE_DATA)),
            runs.logical[run] + blocks[place] - runs.physical[run],
            np.full(count, TID_NONE),
            np.full(count, TID_NONE),
            np.full(count, TID_NONE),
            freed,
            np.full(count, int(Knowledge.REBUILT)),
            self._file_of[candidate],
            self._is_reused(blocks[place], candidate),
        )

    def _files(self, blocks: Int64s, place: Rows, instance: Int64s) -> tuple[Rows, Bools]:
        """(row of the deleted files, reused) of each use; -1 where no file has the block.

        Of several versions with a block the last one counts.
        """
        runs, candidates = self.found.blocks.runs, self.found.blocks.candidates
        states = self.history.states
        use, run = overlap_pairs(
            blocks[place], np.ones(len(place), np.int64), runs.physical, runs.length
        )
        candidate = runs.owner[run]
        state = candidates.state_row[candidate]
        own = states.instance[state] == instance[use]
        use, candidate, state = use[own], candidate[own], state[own]
        order = np.lexsort((states.tid[state], ~candidates.superseded[candidate], use))
        use, candidate = use[order], candidate[order]
        last = ends_group(use)
        use, candidate = use[last], candidate[last]
        file, is_reused = np.full(len(place), NO_ROW), np.zeros(len(place), bool)
        file[use] = self._file_of[candidate]
        is_reused[use] = self._is_reused(blocks[place[use]], candidate)
        return file, is_reused

    def _is_reused(self, block: Int64s, candidate: Rows) -> Bools:
        """True where recovery found a later owner of a block of a candidate."""
        reuse = self.found.blocks.reuse
        mine, other = overlap_pairs(block, np.ones_like(block), reuse.start, reuse.length)
        found = np.zeros(len(block), bool)
        found[mine[reuse.candidate[other] == candidate[mine]]] = True
        return found


def _ground(untagged: Bools, tid: Int64s) -> Int64s:
    """Knowledge (int64 (n,)) of states."""
    return np.select(
        [untagged, tid == TID_ON_DISK, tid >= TID_PRE_FAST_COMMIT],
        [int(Knowledge.UNTAGGED), int(Knowledge.INODE_TABLE), int(Knowledge.FAST_COMMIT)],
        int(Knowledge.JOURNAL),
    )
