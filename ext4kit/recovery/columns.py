"""What is known of all candidates at once: blocks, who took them, what speaks against them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import ends_group, expand, row_bounds
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.history import TID_NONE, TID_ON_DISK
from ext4kit.parsers.inode import InodeFlags
from ext4kit.reasons import Reason
from ext4kit.recovery.artifacts import Artifacts
from ext4kit.recovery.attribution import BlockReuse, Ownership
from ext4kit.recovery.candidates import INODE_TABLE, NO_MAP, NO_ROW, STALE_INDEX, Candidates
from ext4kit.recovery.deletion import DeletionFacts, find_deletion_facts
from ext4kit.recovery.grading import overwritten_copies
from ext4kit.recovery.grading.checks import run_checks
from ext4kit.recovery.grading.discarded import find_discarded
from ext4kit.recovery.maps.ends import sizes_to_last_nonzero
from ext4kit.recovery.maps.stale_entries import stale_extent_starts
from ext4kit.recovery.model import TransactionTime
from ext4kit.recovery.untagged_content import WantedFiles, place_contents
from ext4kit.units import NANOSECONDS


class Columns:
    """Columns and look-ups over all candidates; each is worked out when it is first asked for."""

    def __init__(self, findings: Artifacts, found: Candidates) -> None:
        self.history, self.found, self.maps = findings.history, found, findings.maps
        self.fs, self._loose, self._marks = (
            self.history.fs,
            findings.untagged,
            findings.block_features,
        )
        self.ownership = Ownership(self.history)
        self.block_size = self.fs.superblock.block_size

    @cached_property
    def runs(self) -> Runs:
        """The content's blocks up to each candidate's size."""
        runs, table = self.found.runs, self.history.states.table
        size = table.size[self.found.state_row][runs.owner]
        unknown = self.found.size_unknown[runs.owner]
        left = -(-size // self.block_size) - runs.logical
        length = np.where(unknown, runs.length, np.minimum(left, runs.length))
        kept = length > 0
        return Runs(
            runs.owner[kept],
            runs.logical[kept],
            length[kept],
            runs.physical[kept],
            runs.unwritten[kept],
        )

    @cached_property
    def slices(self) -> list[int]:
        """Where each candidate's rows in `runs` begin, and the last one's end."""
        return self._sliced(self.runs.owner)

    def _sliced(self, candidate: Any) -> list[int]:
        """Where each candidate's rows begin and the last one's end; `candidate` ascends."""
        found: list[int] = row_bounds(candidate, len(self.found)).tolist()
        return found

    @cached_property
    def sizes(self) -> list[int]:
        """Per candidate: bytes, up to the last one that is not zero where no inode tells."""
        found, size = self.found, self.history.states.table.size[self.found.state_row]
        stale = found.map_source == STALE_INDEX
        row = np.cumsum(stale) - 1
        runs = self.runs.take(stale[self.runs.owner])
        last = sizes_to_last_nonzero(
            self.fs, replace(runs, owner=row[runs.owner]), int(stale.sum())
        )
        size[stale] = last
        mapped = found.rebuilt_row != NO_ROW
        size[mapped] = self.maps.size[found.rebuilt_row[mapped]]
        sizes: list[int] = size.tolist()
        return sizes

    @cached_property
    def stale_extents(self) -> dict[int, tuple[int, int]]:
        """(extents, first file block of the last one) of candidates without a map, if several."""
        places = np.flatnonzero(self.found.map_source == NO_MAP)
        starts, count = stale_extent_starts(
            self.history.states.table.take(self.found.state_row[places])
        )
        several = np.flatnonzero(count > 1)
        last = starts[several, count[several] - 1]
        rows = np.stack([places[several], count[several], last], axis=1).tolist()
        return {place: (extents, begin) for place, extents, begin in rows}

    @cached_property
    def block_counts(self) -> list[int]:
        """Per candidate: blocks of content."""
        ends = np.concatenate([[0], np.cumsum(self.runs.length)])[self.slices]
        found: list[int] = np.diff(ends).tolist()
        return found

    @cached_property
    def deletion(self) -> DeletionFacts:
        """What the states around each candidate's own tell of its end."""
        return find_deletion_facts(self.history, self.found)

    @cached_property
    def source_names(self) -> list[str]:
        """Per candidate: what its map rests on."""
        return [str(source) for source in self.found.map_source.tolist()]

    @cached_property
    def _deaths(self) -> Any:
        """Per candidate: after which order a use by others counts as a later one."""
        death, order = self.found.freed_tid, self.history.states.tid[self.found.state_row]
        death = np.where(death == TID_ON_DISK, order, death)
        # An earlier state may have been written over in the transaction that ended it.
        return np.where(self.found.superseded & (death > order), death - 1, death)

    @cached_property
    def _since(self) -> Any:
        """Per candidate: the order of its state; who has a block of it later took it."""
        order = self.history.states.tid[self.found.state_row]
        return np.where(order == TID_ON_DISK, self._deaths, order)

    @cached_property
    def reuse(self) -> BlockReuse:
        """Blocks of the candidates that others took later."""
        life = self.history.states.life[self.found.state_row]
        return self.ownership.find_reuse(self.runs, life, self._since, self._deaths)

    @cached_property
    def reuse_slices(self) -> list[int]:
        """The same for `reuse`."""
        return self._sliced(self.reuse.candidate)

    @property
    def discarded(self) -> Runs:
        """Blocks of the candidates that were discarded."""
        return self._zeros[0]

    @cached_property
    def _zeros(self) -> tuple[Runs, Runs]:
        return find_discarded(self.history, self.found, self.runs, self._marks)

    @property
    def _may_be_discarded(self) -> Any:
        """Candidates (bool) with zeros that a discard may have made, and that no copy confirms."""
        zeros = self._zeros[1]
        found = np.bincount(zeros.owner, minlength=len(self.found)) > 0
        for place in self.journaled.keys() & set(zeros.owner.tolist()):
            copied, mine = self.journaled[place][0], zeros.take(zeros.owner == place)
            edges = mine.physical, mine.physical + mine.length
            low, high = (np.searchsorted(copied, at) for at in edges)
            found[place] = (high - low < mine.length).any()
        return found

    @cached_property
    def discarded_slices(self) -> list[int]:
        """The same for `discarded`."""
        return self._sliced(self.discarded.owner)

    @cached_property
    def untrusted(self) -> set[int]:
        """Candidates of which others used a tree block that nothing vouches for."""
        owner, block = self.found.tree_blocks
        life = self.history.states.life[self.found.state_row]
        by_extents = self.history.states.table.flags[self.found.state_row] & int(InodeFlags.EXTENTS)
        proven = (by_extents != 0) & self.fs.superblock.has_metadata_checksums
        logged = np.zeros(len(block), bool)
        if self.history.copies is not None and len(block):
            at = self.history.last_valid_tid(self.found.state_row)[owner]
            logged = self.history.copies.newest_copies(block, at) >= 0
        kept = ~proven[owner] & ~logged
        owner, block = owner[kept], block[kept]
        runs = Runs.single(owner, np.zeros_like(block), block)
        reuse = self.ownership.find_reuse(runs, life, self._since, self._deaths)
        return set(reuse.candidate.tolist())

    @cached_property
    def _doubts(self) -> tuple[list[tuple[Any, Reason]], list[tuple[Any, Reason]]]:
        """What `run_checks` finds, with the doubts of maps that were found elsewhere."""
        doubts, possible = run_checks(
            self.history, self.found, self.runs, self.ownership, self.journaled, self.reuse
        )
        mapped = np.flatnonzero(self.found.rebuilt_row != NO_ROW)
        for doubtful, reason in self.maps.reasons:
            every = np.zeros(len(self.found), bool)
            every[mapped] = doubtful[self.found.rebuilt_row[mapped]]
            doubts.append((every, reason))
        doubts.append((self._contradicted, reasons.UNMOUNT_DISK_CONFLICT))
        return doubts, [*possible, (self._may_be_discarded, reasons.ZEROS_POSSIBLY_DISCARDED)]

    @property
    def _contradicted(self) -> Any:
        """Per candidate: the disk contradicts the log's copy of a block that nobody else took."""
        rival, start, length, _ = self.freed_rivals
        reuse = self.reuse
        taken = (
            np.concatenate([reuse.candidate, rival]),
            np.concatenate([reuse.start, start]),
            np.concatenate([reuse.length, length]),
        )
        return overwritten_copies.are_contradicted(
            self.history, self.journaled, self._deaths, taken
        )

    @cached_property
    def reasons(self) -> dict[int, list[Reason]]:
        """Per candidate: the reasons against intact, where there are any."""
        return _by_candidate(self._doubts[0])

    @cached_property
    def unrecorded(self) -> dict[int, list[Reason]]:
        """Per candidate: why it is consistent at most, where there is a reason."""
        return _by_candidate(self._doubts[1])

    @cached_property
    def freed_rivals(self) -> Any:
        """(candidate, start, length, number) of blocks that an inode freed later also had.

        Of an inode whose blocks the log says nothing of, its deletion time tells whether it
        came last; in the same second it may have.
        """
        states, runs = self.history.states, self.runs
        freed = self.found.size_unknown | (self.found.map_source == INODE_TABLE)
        freed &= self.found.freed_tid != TID_NONE
        others = runs.take(freed[runs.owner])
        mine, other = overlap_pairs(runs.physical, runs.length, others.physical, others.length)
        life = states.life[self.found.state_row]
        last = np.searchsorted(states.life, life, side="right") - 1
        dtime = states.table.dtime[last]
        dtime = np.where(dtime > 0, dtime, states.table.ctime[last] // NANOSECONDS)
        number = states.table.number[self.found.state_row]
        later = dtime[others.owner[other]] >= dtime[runs.owner[mine]]
        later &= life[others.owner[other]] != life[runs.owner[mine]]
        later &= self.found.freed_tid[runs.owner[mine]] != TID_NONE
        mine, other = mine[later], other[later]
        start = np.maximum(runs.physical[mine], others.physical[other])
        end = np.minimum(
            runs.physical[mine] + runs.length[mine], others.physical[other] + others.length[other]
        )
        return runs.owner[mine], start, end - start, number[others.owner[other]]

    @cached_property
    def rival_slices(self) -> list[int]:
        """The same for `freed_rivals`."""
        return self._sliced(self.freed_rivals[0])

    @cached_property
    def journaled(self) -> dict[int, tuple[Any, Any]]:
        """Per candidate: (blocks that ascend, log copies) of content that the log has as data.

        A copy belongs to the file when the file had the block by then: content that is
        journaled is so from the transaction on that gives the file its block.
        """
        history = self.history.copies
        if history is None or not len(self.runs):
            return {}
        runs, states = self.runs, self.history.states
        ones = np.ones(len(history.blocks), np.int64)
        mine, tag = overlap_pairs(runs.physical, runs.length, history.blocks, ones)
        candidate = runs.owner[mine]
        order, death = history.tids[tag], self._deaths[candidate]
        row = self.found.state_row[candidate]
        fits = (death == TID_NONE) | (
            order <= np.where(death == TID_ON_DISK, states.tid[row], death)
        )
        fits &= order >= self._owned_since(row, history.blocks[tag])
        candidate, tag = candidate[fits], tag[fits]
        order = np.lexsort((tag, candidate))  # tags ascend by block, then by age; runs need not
        candidate, tag = candidate[order], tag[order]
        found: dict[int, tuple[Any, Any]] = {}
        places, starts = np.unique(candidate, return_index=True)  # in order of candidates
        for place, tags in zip(places.tolist(), np.split(tag, starts[1:]), strict=False):
            blocks = history.blocks[tags]
            last = ends_group(blocks)
            found[place] = (blocks[last], history.tag_rows[tags[last]])
        return found

    @cached_property
    def loose(self) -> dict[int, tuple[Any, Any]]:
        """Per candidate: (blocks, log blocks) of content whose copies no descriptor names.

        Of files alone that others wrote over: elsewhere the disk tells.
        """
        places, first, _ = self._placed
        reused = np.isin(places, self.reuse.candidate) & (first >= 0)
        found: dict[int, tuple[Any, Any]] = {}
        for place, at in zip(places[reused].tolist(), first[reused].tolist(), strict=True):
            runs = self.runs.take(slice(*self.slices[place : place + 2]))
            run, position = expand(runs.length)
            blocks, logical = runs.physical[run] + position, runs.logical[run] + position
            order = np.argsort(blocks)
            found[place] = blocks[order], self._loose.position[at + logical[order]]
        return found

    @cached_property
    def _placed(self) -> tuple[Any, Any, Any]:
        """(candidates, row of the first of each one's loose copies or -1, number of blocks)."""
        places = self._whole_files if len(self._loose) else np.zeros(0, np.int64)
        table, row = self.history.states.table, self.found.state_row[places]
        wanted = WantedFiles(
            table.size[row], self.history.states.tid[row], table.crtime[row], table.number[row]
        )
        first = place_contents(self._loose, wanted, self.block_size)
        return places, first, -(-wanted.size // self.block_size)

    @cached_property
    def unplaced(self) -> Any:
        """Log blocks (int64) without a descriptor that hold contents of files nobody knows.

        Only of transactions in which other files were found.
        """
        _, first, count = self._placed
        first, count = first[first >= 0], count[first >= 0]
        row, position = expand(count)
        taken = np.zeros(len(self._loose), bool)
        taken[first[row] + position] = True
        evident = np.isin(self._loose.order, self._loose.order[first])
        return self._loose.position[evident & ~taken]

    @property
    def _whole_files(self) -> Any:
        """Candidates that are regular files in their last state, all blocks mapped and written."""
        table, row = self.history.states.table, self.found.state_row
        size = table.size[row]
        written = self.runs.length * ~self.runs.unwritten
        mapped = np.bincount(self.runs.owner, written, len(self.found))
        kept = ((table.mode[row] & 0xF000) == 0x8000) & (size > 0) & ~self.found.size_unknown
        kept &= ~self.found.superseded & (mapped == -(-size // self.block_size))
        return np.flatnonzero(kept)

    def _owned_since(self, row: Any, block: Any) -> Any:
        """Per (state, block): since when it was content of that life alone, TID_ON_DISK for never.

        What a file truncates comes back: as a tree block of its own, or by way of others.
        """
        claims, states = self.ownership.logged, self.history.states
        mine, other = overlap_pairs(block, np.ones_like(block), claims.start, claims.length)
        earlier = claims.order[other] <= states.tid[row[mine]]
        mine, other = mine[earlier], other[earlier]
        own = claims.is_content[other] & (claims.instance[other] == states.life[row[mine]])
        lent, since = np.full(len(row), TID_NONE), np.full(len(row), TID_ON_DISK)
        np.maximum.at(lent, mine[~own], claims.order[other[~own]])
        own &= claims.order[other] > lent[mine]
        np.minimum.at(since, mine[own], claims.order[other[own]])
        return since

    @cached_property
    def moments(self) -> dict[int, TransactionTime]:
        """The transactions of the log, by order."""
        if self.history.log is None:
            return {}
        return {
            item.order: TransactionTime(int(item.id), item.commit_time_ns)
            for item in self.history.log.transactions
        }

    @cached_property
    def owner_paths(self) -> dict[int, bytes]:
        """Paths of the live inodes that took blocks of deleted files."""
        wanted = np.unique(self.reuse.number)
        tree = self.fs.tree()
        rows = np.flatnonzero(np.isin(tree.inode, wanted))
        return dict(zip(tree.inode[rows].tolist(), tree.paths_of(rows), strict=True))


def _by_candidate(pairs: list[tuple[Any, Reason]]) -> dict[int, list[Reason]]:
    found: dict[int, list[Reason]] = {}
    for doubtful, reason in pairs:
        for place in np.flatnonzero(doubtful).tolist():
            found.setdefault(place, []).append(reason)
    return found
