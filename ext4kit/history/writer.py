"""The kernels that wrote a file system, inferred from its structures, and how they affect recovery.

Differences between kernels, with the first version of the new behaviour:

- 5.13 clears removed directory entries; earlier kernels leave name and inode number. Source:
  kernel fs/ext4/namei.c, `ext4_generic_delete_entry`.
- 6.1 counts changes of regular files in `i_version`; earlier kernels need a mount option. Source:
  kernel fs/ext4/super.c, `SB_I_VERSION`.
- 6.4 continues the journal at the position of the unmount and stores it in `s_head`; earlier
  kernels start at the first block at each mount. Source: kernel fs/jbd2/journal.c, `journal_reset`.
- 6.13 uses times finer than the clock tick if the times were read in between. Source: kernel
  fs/inode.c, `inode_set_ctime_current`.

A removal by debugfs or e2fsck looks like a removal by an old kernel. In a large file system, only
the first inode tables and directory blocks are examined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError
from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log
from ext4kit.journal.recovery_pass import UNMOUNT_STEP
from ext4kit.parsers.directory import DIRENT, parse_entries
from ext4kit.parsers.inode import InodeFlags, InodeTable
from ext4kit.units import NANOSECONDS

Version = tuple[int, int]

CLEARS_ENTRIES: Version = (5, 13)
COUNTS_CHANGES: Version = (6, 1)
CONTINUES_LOG: Version = (6, 4)
FINE_TIMES: Version = (6, 13)
MOST_INODES = 1 << 18
MOST_BLOCKS = 4096  # maximum blocks of directories that are read
SMALLEST_GAP = 12  # bytes of the shortest entry
# with casefold, hashes are stored between entries
_NO_PLAIN_ENTRIES = InodeFlags.INLINE_DATA | InodeFlags.ENCRYPT
_SHORTEST_TICK = 1_000_000  # ns; the highest tick rate of a kernel is 1,000 Hz
_NEEDED = {  # the first Linux version that can write to a file system with the feature
    "orphan_present": (5, 15),
    "verity": (5, 4),
    "casefold": (5, 2),
    "large_dir": (4, 13),
    "ea_inode": (4, 13),
    "project": (4, 5),
    "metadata_csum_seed": (4, 4),
    "encrypt": (4, 1),
    "inline_data": (3, 8),
    "metadata_csum": (3, 5),
    "bigalloc": (3, 2),
}


@dataclass(frozen=True, slots=True)
class Sign:
    """Evidence of the version of a kernel that wrote the file system.

    Attributes:
        ground: the fact on the disk, as a sentence without a full stop.
        since: first Linux version with this behaviour, None for no lower bound.
        before: first Linux version without this behaviour, None for no upper bound.
        time: latest time of the evidence, ns since 1970, None if it has no time.
    """

    ground: str
    since: Version | None = None
    before: Version | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """The kernels that wrote a file system.

    Attributes:
        signs: the evidence.
        since: the last writer is this Linux version or later, None for no lower bound.
        before: the last writer is earlier than this Linux version, None for no upper bound.
        several: True if kernels from before and from after the same change of behaviour wrote.
        effects: consequences for recovery, as sentences without a full stop.
    """

    signs: tuple[Sign, ...]
    since: Version | None
    before: Version | None
    several: bool
    effects: tuple[str, ...]

    @property
    def family(self) -> str:
        """Text about the last writer."""
        since, before = (each and f"{each[0]}.{each[1]}" for each in (self.since, self.before))
        if since and before:
            text = f"Linux {since} or later, before {before}"
        elif since:
            text = f"Linux {since} or later"
        else:
            text = f"Linux before {before}" if before else "unknown"
        return f"{text}; an earlier or later version also wrote" if self.several else text


def find_writer(fs: FileSystem, log: Log | None) -> Writer:
    """The kernels that wrote a file system.

    Args:
        fs: the file system.
        log: its journal, None where there is none.
    """
    found = _Found(fs)
    signs = [*_of_entries(found), *_of_log(log), *_of_changes(found), *_of_times(fs, found)]
    since, before, several = last_writer(signs)
    needed = _of_features(fs)
    if needed is not None:
        signs.append(needed)
        since = max(since or (0, 0), needed.since or (0, 0))
        if before is not None and since >= before:
            since, before, several = None, None, True
    return Writer(tuple(signs), since, before, several, tuple(_effects(signs)))


def last_writer(signs: list[Sign]) -> tuple[Version | None, Version | None, bool]:
    """(since, before, several) as in `Writer`; of two contradicting signs, the later one counts.

    A sign without a time counts as the earliest.
    """
    by_time = sorted(signs, key=lambda sign: -1 if sign.time is None else sign.time)
    since: Version | None = None
    before: Version | None = None
    several = False
    for sign in reversed(by_time):
        if sign.since is not None:
            if before is not None and sign.since >= before:
                several = True
            else:
                since = max(since or (0, 0), sign.since)
        if sign.before is not None:
            if since is not None and since >= sign.before:
                several = True
            else:
                before = min(before or (99, 0), sign.before)
    return since, before, several


def _effects(signs: list[Sign]) -> Iterator[str]:
    olds = {sign.before for sign in signs if sign.before is not None}
    news = {sign.since for sign in signs if sign.since is not None}
    if CLEARS_ENTRIES in olds:
        yield "removed names and inode numbers remain in their directories (deleted --names)"
    if any(since >= CLEARS_ENTRIES for since in news):
        yield "removed names are cleared: names of deleted files come from the journal"
    if CONTINUES_LOG in olds:
        yield "each mount overwrote the journal from its first block: earlier transactions are lost"
    if CONTINUES_LOG in news:
        yield "the journal continues across mounts: it keeps earlier mounts until it wraps"
    if COUNTS_CHANGES in olds:
        yield "changes are not counted: the absence of later writes to a file is not recorded"


@dataclass(frozen=True, slots=True)
class _Files(Table):
    """Change counts (`i_version`) and times (ns) of regular files with links."""

    version: Int64s
    ctime: Int64s
    crtime: Int64s


class _Found:
    """Facts from the first inode tables and directory blocks.

    Attributes:
        files: regular files in these inode tables.
        cleared, left: int64 (2,), number of removed entries that were cleared, or that still hold a
            name; and last change (ns) of a directory with such an entry, -1 if there is none.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.cleared, self.left = np.array([0, -1]), np.array([0, -1])
        self._blocks_left = MOST_BLOCKS
        parts: list[_Files] = []
        inodes = 0
        for table in fs.inode_batches():
            live = table.take((table.links_count > 0) & (table.number >= fs.superblock.first_inode))
            files = live.take(live.is_regular & (live.flags & InodeFlags.EA_INODE == 0))
            parts.append(_Files(files.version, files.ctime, files.crtime))
            self._read(live.take(live.is_dir & (live.flags & _NO_PLAIN_ENTRIES == 0)))
            inodes += len(table)
            if inodes >= MOST_INODES:
                break
        self.files = _Files.concat(parts)

    def _read(self, table: InodeTable) -> None:
        """Count the removed entries in the blocks of directories."""
        fs = self._fs
        runs = fs.map_table_silently(table).runs.take(slice(self._blocks_left))
        row, position = expand(np.clip(runs.length, 0, self._blocks_left))
        owner, block = runs.owner[row], runs.physical[row] + position
        known = np.flatnonzero((block > 0) & (block < fs.blocks.blocks_count))
        known = known[: self._blocks_left]
        self._blocks_left -= len(known)
        owner, block = owner[known], block[known]
        try:
            data = fs.blocks.read_many(block)
        except AccessError:  # is reported when the directories are read for their entries
            return
        entries, _ = parse_entries(data, fs.has_file_types)
        last = (entries.block[:-1] != entries.block[1:]) if len(entries) else np.zeros(0, bool)
        start = entries.offset + DIRENT.size + (entries.name_length + 3) // 4 * 4
        row, begin, end = entries.block[:-1], start[:-1], entries.offset[1:]
        gap = np.flatnonzero(~last & (end - begin >= SMALLEST_GAP))
        row, begin, end = row[gap], begin[gap], end[gap]
        used = np.zeros(data.size + 1, np.int64)
        np.cumsum(data.reshape(-1) != 0, out=used[1:])
        at = row * data.shape[1]
        is_clear = used[at + end] == used[at + begin]
        changed = table.ctime[owner[row]]
        for count, some in ((self.cleared, is_clear), (self.left, ~is_clear)):
            if some.any():
                count[:] = count[0] + some.sum(), max(count[1], int(changed[some].max()))


def _of_entries(found: _Found) -> Iterator[Sign]:
    count, time = found.cleared.tolist()
    if count:
        yield Sign(
            f"{count:,} removed directory entries are cleared", since=CLEARS_ENTRIES, time=time
        )
    count, time = found.left.tolist()
    if count:
        yield Sign(
            f"{count:,} removed directory entries still hold a name",
            before=CLEARS_ENTRIES,
            time=time,
        )


def _of_log(log: Log | None) -> Iterator[Sign]:
    """Signs from the journal position after mounts, at gaps of two missing tids."""
    if log is None or not len(log.transactions):
        return
    known = log.transactions
    end, first = log.ring.wrap(known.commit + 1), log.ring.first
    here = (np.diff(known.order) == UNMOUNT_STEP) & (known.commit[:-1] >= 0) & (end[:-1] != first)
    times = known.commit_time_ns[1:]
    continued = here & (known.start[1:] == end[:-1])
    if continued.any():
        yield Sign(
            "the journal continues at its old position after an unmount",
            since=CONTINUES_LOG,
            time=_latest(times[continued]),
        )
    head, newest = log.superblock.head, known.order[known.committed]
    if log.superblock.start == 0 and head and len(newest):
        row = int(known.row_of(newest[-1:])[0])
        if head == end[row]:
            yield Sign(
                f"the last unmount stored the journal position (s_head {head:,})",
                since=CONTINUES_LOG,
                time=_latest(known.commit_time_ns[row : row + 1]),
            )
    restarted = here & (known.start[1:] == first)
    if restarted.any():
        yield Sign(
            "the journal restarts at its first block after an unmount",
            before=CONTINUES_LOG,
            time=_latest(times[restarted]),
        )


def _latest(times: Int64s) -> int | None:
    latest = int(times.max(initial=-1))
    return None if latest < 0 else latest


def _of_changes(found: _Found) -> Iterator[Sign]:
    version, ctime, crtime = found.files.version, found.files.ctime, found.files.crtime
    counted = (version > 1) & (version < 1 << 32)
    if counted.any():
        yield Sign(
            f"changes of {counted.sum():,} regular files are counted in i_version",
            since=COUNTS_CHANGES,
            time=_latest(ctime[counted]),
        )
    later = ctime - crtime > NANOSECONDS
    uncounted = (version <= 1) & later & (crtime > 0)
    if uncounted.any():
        yield Sign(
            f"changes of {uncounted.sum():,} regular files are not counted in i_version",
            before=COUNTS_CHANGES,
            time=_latest(ctime[uncounted]),
        )


def _of_times(fs: FileSystem, found: _Found) -> Iterator[Sign]:
    ctime = np.unique(found.files.ctime)
    ctime = ctime[ctime > (fs.superblock.mkfs_time + 1) * NANOSECONDS]
    close = np.flatnonzero(np.diff(ctime) < _SHORTEST_TICK)
    if len(close):
        yield Sign(
            f"{len(close):,} pairs of change times are less than a clock tick apart",
            since=FINE_TIMES,
            time=int(ctime[close[-1] + 1]),
        )


def _of_features(fs: FileSystem) -> Sign | None:
    """The kernel version that the features require for writing; None if they require none."""
    needed = [(_NEEDED[name], name) for name in fs.superblock.features.names if name in _NEEDED]
    if not needed:
        return None
    since, name = max(needed)
    return Sign(f"writing requires a kernel with the feature {name}", since)
