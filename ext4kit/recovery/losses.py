"""Lost blocks of candidates: blocks that were reused or discarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.types import Bools
from ext4kit.carving import BlockFeatures
from ext4kit.errors import path_text
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.directories import with_inodes
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.block_uses import FOREIGN
from ext4kit.recovery.content import LostPiece, blocks_without_copy, drop_overlaps, total_blocks
from ext4kit.recovery.discarded import find_discarded

DISCARDED = "zeros: discarded, or never written"
UNKNOWN_OWNER = "allocated now (metadata or unidentified owner)"


@dataclass(frozen=True, slots=True)
class CandidateLosses:
    """Lost blocks of one candidate.

    Attributes:
        pieces: runs of blocks whose bytes are lost.
        reused: number of reused blocks.
        from_tagged: reused blocks with tagged copies in the journal.
        from_untagged: reused blocks with untagged copies in the journal.
        discarded: number of discarded blocks, which read as zeros.
    """

    pieces: list[LostPiece]
    reused: int
    from_tagged: int
    from_untagged: int
    discarded: int


NOTHING_LOST = CandidateLosses([], 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Losses:
    """Lost blocks of all candidates.

    Attributes:
        by_candidate: candidates with lost blocks.
        discarded: discarded blocks; `owner` is the candidate.
        may_be_discarded: bool (n,), True for candidates with possibly discarded blocks of which
            there is no copy.
    """

    by_candidate: Mapping[int, CandidateLosses]
    discarded: Runs
    may_be_discarded: Bools

    def of(self, candidate: int) -> CandidateLosses:
        """Lost blocks of one candidate."""
        return self.by_candidate.get(candidate, NOTHING_LOST)


def find_losses(blocks: BlockAttribution, features: BlockFeatures | None) -> Losses:
    """Lost blocks of all candidates.

    Args:
        blocks: block attribution of the candidates.
        features: block features of unallocated space, if this was read.
    """
    discarded, zeros = find_discarded(blocks.history, blocks.candidates, blocks.runs, features)
    bounds = row_bounds(discarded.owner, len(blocks.candidates)).tolist()
    start, length = discarded.physical.tolist(), discarded.length.tolist()
    reused = _reused_pieces(blocks)
    given_up = {
        owner: [
            LostPiece(start[row], length[row], DISCARDED)
            for row in range(*bounds[owner : owner + 2])
        ]
        for owner in np.unique(discarded.owner).tolist()
    }
    found = {
        candidate: _losses_of(
            blocks, candidate, reused.get(candidate, []), given_up.get(candidate, [])
        )
        for candidate in sorted(reused.keys() | given_up.keys())
    }
    possible = np.bincount(zeros.owner, minlength=len(blocks.candidates)) > 0
    for candidate in blocks.tagged.keys() & set(zeros.owner.tolist()):
        copied, mine = blocks.tagged[candidate][0], zeros.take(zeros.owner == candidate)
        edges = mine.physical, mine.physical + mine.length
        low, high = (np.searchsorted(copied, at) for at in edges)
        possible[candidate] = bool((high - low < mine.length).any())
    return Losses(found, discarded, possible)


def _losses_of(
    blocks: BlockAttribution, candidate: int, reused: list[LostPiece], discarded: list[LostPiece]
) -> CandidateLosses:
    pieces = drop_overlaps(reused)
    left = [total_blocks(pieces)]
    for copies in (blocks.tagged, blocks.untagged):
        if candidate in copies:
            pieces = blocks_without_copy(pieces, copies[candidate][0])
            discarded = blocks_without_copy(discarded, copies[candidate][0])
        left.append(total_blocks(pieces))
    lost = drop_overlaps(pieces + discarded) if discarded else pieces
    zeros = total_blocks([piece for piece in lost if piece.owner == DISCARDED])
    return CandidateLosses(lost, left[0], left[0] - left[1], left[1] - left[2], zeros)


def _reused_pieces(blocks: BlockAttribution) -> dict[int, list[LostPiece]]:
    """Candidate -> its reused blocks with their later owners."""
    reuse, competing = blocks.reuse, blocks.competing
    owner_text = _owner_texts(blocks)
    found: dict[int, list[LostPiece]] = {}
    columns = reuse.candidate, reuse.start, reuse.length, reuse.inode, reuse.tid
    for candidate, start, length, number, tid in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        piece = LostPiece(start, length, owner_text(number, tid))
        found.setdefault(candidate, []).append(piece)
    others = competing.candidate, competing.start, competing.length, competing.inode
    for candidate, start, length, number in zip(
        *(column.tolist() for column in others), strict=True
    ):
        piece = LostPiece(start, length, f"deleted inode {number}")
        found.setdefault(candidate, []).append(piece)
    return found


def _owner_texts(blocks: BlockAttribution) -> Callable[[int, int], str]:
    """A function that describes an owner, given its inode number and a tid."""
    paths = _owner_paths(blocks)

    def text(number: int, tid: int) -> str:
        if tid == TID_ON_DISK:
            if number == FOREIGN:
                start = blocks.history.fs.overwritten
                return start.by if start else "foreign data"
            if not number:
                return UNKNOWN_OWNER
            path = paths.get(number)
            shown = "" if path is None else " " + path_text(path)
            return f"inode {number}{shown}"
        known = blocks.transactions.get(tid)
        when = f" in transaction {known.transaction}" if known else ""
        return f"inode {number}{when}" if number else f"metadata written{when}"

    return cache(text)  # one text is used for all blocks of an owner


def _owner_paths(blocks: BlockAttribution) -> dict[int, bytes]:
    """Inode number -> path of the allocated inodes that reuse blocks of candidates."""
    wanted = np.unique(blocks.reuse.inode[blocks.reuse.tid == TID_ON_DISK])
    wanted = wanted[wanted > 0]
    if not len(wanted):
        return {}
    tree = blocks.history.fs.tree(only=with_inodes(wanted))
    rows = np.flatnonzero(np.isin(tree.inode, wanted))
    return dict(zip(tree.inode[rows].tolist(), tree.paths_of(rows), strict=True))
