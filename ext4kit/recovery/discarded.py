"""Blocks of deleted files that read as zeros: discarded by the drive, or cleared by a tool.

A discard tells the drive that free blocks are unused: at each commit (`mount -o discard`,
kernel fs/ext4/mballoc.c, `ext4_issue_discard`) or later (`fstrim`). They read as zeros
afterwards. Tools that clear free space, and images without unused blocks, have the same effect.
Files contain zeros too, so zeros alone do not show a discard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.maps import Runs, spread
from ext4kit.past import Past
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.intervals import cut, overlaps, without
from ext4kit.recovery.sources.carving import Marks

BLOCKS_AT_ONCE = 4096
MOUNTED_WITH_DISCARD = 0x0400  # EXT4_DEFM_DISCARD of s_default_mount_opts, fs/ext4/ext4.h
MANY = 0.1  # of all runs; a few files of zeros are on many disks
LONG = 64 << 10  # bytes of zeros; archives end in some 10 KiB of them
REGULAR, SYMLINK = 0x8000, 0xA000


@dataclass(frozen=True, slots=True)
class Discarded:
    """Discarded pieces of the candidates' content, as int64 columns ordered by candidate.

    Attributes:
        candidate: row of the candidate.
        start: first block.
        length: blocks.
    """

    candidate: Any
    start: Any
    length: Any

    def __len__(self) -> int:
        return len(self.start)


def find_discarded(past: Past, found: Candidates, runs: Runs, marks: Marks | None) -> Discarded:
    """The discarded blocks of all candidates.

    A whole run of zeros shows a discard. So do many zeros at a run's edge that go on behind it.
    Where many runs are zeros, or the file system is mounted with `discard` by default, every
    block of zeros counts as discarded: a drive may discard parts of runs.

    Args:
        past: what is known over time.
        found: the candidates.
        runs: their blocks up to their size.
        marks: of the free space, where it was read: which free blocks are not zeros.
    """
    kind = past.states.table.mode[found.row] & 0xF000
    judged = np.isin(kind, (REGULAR, SYMLINK)) & ~found.unsized
    written = runs.take(judged[runs.owner] & ~runs.unwritten)
    every = np.arange(len(written))
    numbered = Runs(every, written.logical, written.length, written.physical, written.unwritten)
    run, start, length = _zeros(past.fs, numbered if marks is None else _outside(numbered, marks))
    whole = length == written.length[run]
    by_default = past.fs.superblock.default_mount_options & MOUNTED_WITH_DISCARD
    if not by_default and whole.sum() < MANY * len(written):
        kept = whole | _reach_beyond(past.fs, written, run, start, length)
        run, start, length = run[kept], start[kept], length[kept]
    return Discarded(written.owner[run], start, length)


def _outside(runs: Runs, marks: Marks) -> Runs:
    """The parts of runs that the survey of free space has not seen to hold data."""
    mine, theirs = overlaps(runs.physical, runs.length, marks.start, marks.length)
    first = np.maximum(runs.physical[mine], marks.start[theirs])
    end = np.minimum((runs.physical + runs.length)[mine], (marks.start + marks.length)[theirs])
    return without(runs, mine, first, end - first)


def _zeros(fs: FileSystem, parts: Runs) -> tuple[Any, Any, Any]:
    """(owner, first block, blocks) of the pieces that are readable and all zeros."""
    row, skip, length = cut(parts.length, BLOCKS_AT_ONCE)
    batch = np.cumsum(length) // BLOCKS_AT_ONCE
    edges = np.flatnonzero(np.diff(batch, prepend=-1, append=-1)).tolist()
    none = np.zeros(0, np.int64)
    found = [(none, none, none)]
    for some in map(slice, edges[:-1], edges[1:]):
        piece, position = spread(length[some])
        owner = parts.owner[row[some]][piece]
        block = (parts.physical[row[some]] + skip[some])[piece] + position
        zeros = _are_zeros(fs, block)
        found.append(_joined(owner[zeros], block[zeros], np.ones(zeros.sum(), np.int64)))
    owners, starts, lengths = map(np.concatenate, zip(*found, strict=True))
    return _joined(owners, starts, lengths)


def _joined(owner: Any, start: Any, length: Any) -> tuple[Any, Any, Any]:
    """Pieces in order, those of one owner that touch as one."""
    new = np.ones(len(owner), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (start[1:] != (start + length)[:-1])
    first = np.flatnonzero(new)
    total = np.diff(np.append(0, np.cumsum(length))[np.append(first, len(owner))])
    return owner[first], start[first], total


def _are_zeros(fs: FileSystem, blocks: Any) -> Any:
    """Per block (bool): it is readable and all zeros."""
    found = np.zeros(len(blocks), bool)
    for at in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = slice(at, at + BLOCKS_AT_ONCE)
        data, readable = fs.fetch(blocks[some])
        found[some] = readable & ~data.any(axis=1)
    return found


def _reach_beyond(fs: FileSystem, runs: Runs, run: Any, start: Any, length: Any) -> Any:
    """Per piece (bool): it is long, lies at an edge of its run, and the next block is zeros too."""
    found = np.zeros(len(run), bool)
    end, long = start + length, length * fs.superblock.block_size >= LONG
    sides = (
        (start == runs.physical[run], start - 1),
        (end == runs.physical[run] + runs.length[run], end),
    )
    for at_edge, neighbour in sides:
        at_edge &= long & (neighbour >= 0) & (neighbour < fs.blocks.blocks_count)
        found[at_edge] |= _are_zeros(fs, neighbour[at_edge])
    return found
