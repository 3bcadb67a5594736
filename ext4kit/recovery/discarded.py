"""Blocks of deleted files that read as zeros: discarded by the drive, or cleared by a tool.

The kernel discards free blocks at each commit (`mount -o discard`, fs/ext4/mballoc.c,
`ext4_issue_discard`) or later (`fstrim`); discarded blocks then read as zeros. Tools that clear
free space have the same effect, and so do images without unused blocks. Files contain zeros too, so
zeros alone do not show a discard. A drive discards whole units, so zeros that fill a unit may show
a discard.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import common_parts, split
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.carving import BlockFeatures
from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs, merge_adjacent
from ext4kit.history import History
from ext4kit.journal.overlay import first_byte
from ext4kit.problems import Severity
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.intervals import subtract_parts
from ext4kit.units import NANOSECONDS

BLOCKS_AT_ONCE = 4096
MOST_RANGES = 8  # maximum number of block groups that a message names
FSTRIM_STAMP = "/var/lib/systemd/timers/stamp-fstrim.timer"  # its mtime: last run of fstrim
MOUNTED_WITH_DISCARD = 0x0400  # EXT4_DEFM_DISCARD of s_default_mount_opts, fs/ext4/ext4.h
MANY = 0.1  # minimum share of zero runs; many disks have a few files of zeros
LONG = 64 << 10  # minimum bytes of zeros; archives end in about 10 KiB of zeros
UNIT = 64 << 10  # bytes, aligned on the disk; drives discard units of this size or a fraction of it


def find_discarded(
    history: History, found: Candidates, runs: Runs, features: BlockFeatures | None
) -> tuple[Runs, Runs]:
    """(certainly, possibly) discarded blocks of all candidates; `owner` is the candidate.

    A run that is all zeros shows a discard. So do many zeros at the edge of a run that continue
    beyond the run. If many runs are zeros, or if the default mount options include `discard`, every
    block of zeros is taken as discarded, because a drive may discard parts of runs. Other zeros are
    possibly discarded if they fill a discard unit.

    Args:
        history: the states.
        found: the candidates.
        runs: blocks of the candidates up to their sizes.
        features: block features of the unallocated space, if this was read; they show which blocks
            are not zeros.
    """
    table, row = history.states.table, found.state_row
    judged = (table.is_regular | table.is_symlink)[row] & ~found.size_unknown
    written = runs.take(judged[runs.owner] & ~runs.unwritten)
    numbered = replace(written, owner=np.arange(len(written)))
    if features is not None:  # parts in which the scan found no data
        data = features.start, features.length
        known = common_parts(numbered.physical, numbered.length, *data)
        numbered = subtract_parts(numbered, *known)
    zeros = _zeros(history.fs, numbered)
    taken = history.fs.bitmaps.blocks_in_use(zeros.physical)  # zeros that another owner wrote
    zeros = zeros.take(~taken)
    whole = zeros.length == written.length[zeros.owner]
    by_default = history.fs.superblock.default_mount_options & MOUNTED_WITH_DISCARD
    certain = np.ones(len(zeros), bool)
    if not by_default and whole.sum() < MANY * len(written):
        certain = whole | _reach_beyond(history.fs, written, zeros)
    possible = zeros.take(~certain)
    possible = possible.take(_fill_units(history.fs, written, possible))
    parts = zeros.take(certain), possible
    discarded, possible = (replace(part, owner=written.owner[part.owner]) for part in parts)
    return discarded, possible


def report_discarded(fs: FileSystem, table: Runs) -> None:
    """Report the discarded blocks and other evidence of discards."""
    if not len(table):
        return
    blocks, files = int(table.length.sum()), len(np.unique(table.owner))
    what = f"{blocks:,} blocks of {files:,} deleted files read as zeros: probably discarded (TRIM)"
    what += f", in {_groups_of(fs, table)}; copies in the journal remain"
    if fs.superblock.default_mount_options & MOUNTED_WITH_DISCARD:
        what += "; the file system is mounted with discard by default"
    with suppress(AccessError, CorruptError, RequestError):
        ran = fs.inode(fs.lookup(FSTRIM_STAMP)).mtime // NANOSECONDS
        what += f"; fstrim ran last at {datetime.fromtimestamp(ran, UTC):%Y-%m-%d %H:%M:%SZ}"
    fs.problems.add("unallocated space", what, Severity.WARNING)


def _groups_of(fs: FileSystem, table: Runs) -> str:
    """Text that names the block groups in which the runs begin, with ranges of consecutive ones."""
    first = table.physical - fs.superblock.first_data_block
    groups = np.unique(first // fs.superblock.blocks_per_group)
    parts = np.split(groups, np.flatnonzero(np.diff(groups) > 1) + 1)
    edges = [(part[0], part[-1]) for part in parts]
    shown = [f"{first}" if first == last else f"{first}-{last}" for first, last in edges]
    more = f" and {len(shown) - MOST_RANGES:,} ranges more" if len(shown) > MOST_RANGES else ""
    return f"block groups {', '.join(shown[:MOST_RANGES])}{more}"


def _zeros(fs: FileSystem, parts: Runs) -> Runs:
    """The readable parts of runs that are all zeros."""
    row, skip, length = split(parts.length, BLOCKS_AT_ONCE)
    batch = np.cumsum(length) // BLOCKS_AT_ONCE
    edges = np.flatnonzero(np.diff(batch, prepend=-1, append=-1)).tolist()
    found = [parts.take(slice(0))]
    for some in map(slice, edges[:-1], edges[1:]):
        piece, position = expand(length[some])
        whose, position = row[some][piece], skip[some][piece] + position
        blocks = Runs.single(
            parts.owner[whose], parts.logical[whose] + position, parts.physical[whose] + position
        )
        found.append(merge_adjacent(blocks.take(_are_zeros(fs, blocks.physical))))
    return merge_adjacent(Runs.stacked([(part, 0) for part in found]))


def _are_zeros(fs: FileSystem, blocks: Int64s) -> Bools:
    """True where a block is readable and all zeros."""
    found = np.zeros(len(blocks), bool)
    for at in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = slice(at, at + BLOCKS_AT_ONCE)
        data, readable = fs.fetch(blocks[some])
        found[some] = readable & ~data.any(axis=1)
    return found


def _reach_beyond(fs: FileSystem, runs: Runs, zeros: Runs) -> Bools:
    """True where zeros are long, are at an edge of their run and continue beyond that edge."""
    found = np.zeros(len(zeros), bool)
    long = zeros.length * fs.superblock.block_size >= LONG
    start, end = zeros.physical, zeros.physical + zeros.length
    first, last = runs.physical[zeros.owner], (runs.physical + runs.length)[zeros.owner]
    for at_edge, neighbour in ((start == first, start - 1), (end == last, end)):
        at_edge &= long & (neighbour >= 0) & (neighbour < fs.blocks.blocks_count)
        found[at_edge] |= _are_zeros(fs, neighbour[at_edge])
    return found


def _fill_units(fs: FileSystem, runs: Runs, zeros: Runs) -> Bools:
    """True where a discard unit that contains some of the zeros is all zeros.

    Allocated blocks of the unit are ignored, because they may have been written after a discard.

    Args:
        fs: the file system.
        runs: runs of the candidates.
        zeros: parts of these runs that are zeros; `owner` is the row in `runs`.
    """
    size, base = fs.superblock.block_size, first_byte(fs.blocks) or 0
    unit = max(UNIT, size)
    start, end = zeros.physical, zeros.physical + zeros.length
    low, high = runs.physical[zeros.owner], (runs.physical + runs.length)[zeros.owner]
    first, last = ((base + at * size) // unit for at in (start, end - 1))
    found = last - first >= 2  # a whole unit lies within the zeros
    for number in (first, last):
        begin, stop = -((base - number * unit) // size), ((number + 1) * unit - base) // size
        # Zeros that end before the edge of unit and run have other bytes of the file next to them.
        row = np.flatnonzero((start <= np.maximum(begin, low)) & (np.minimum(stop, high) <= end))
        row = row[~found[row]]
        units, which = np.unique(number[row], return_inverse=True)
        edges = np.zeros((2, len(units)), np.int64)
        edges[:, which] = begin[row], stop[row]
        found[row] = _are_clear(fs, *edges)[which]
    return found


def _are_clear(fs: FileSystem, start: Int64s, end: Int64s) -> Bools:
    """True where every block of a range is zero, allocated, or beyond the file system's end."""
    start, end = np.maximum(start, 0), np.minimum(end, fs.blocks.blocks_count)
    row, position = expand(end - start)
    blocks = start[row] + position
    clear = fs.bitmaps.blocks_in_use(blocks)
    clear[~clear] = _are_zeros(fs, blocks[~clear])
    found: Bools = np.bincount(row[~clear], minlength=len(start)) == 0
    return found
