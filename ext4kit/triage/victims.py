"""Zero-length files after a crash, which have a name but lost their written content.

With delayed allocation, the kernel allocates the blocks of a file and then sets its size up to half
a minute after the write. If an unclean shutdown happens in between, the file has its name and
times, but its size is 0. Source: kernel Documentation/admin-guide/ext4.rst, delayed allocation.

Lock files and process id files are left out, because they look the same after they were opened
again for writing, and their content would be of no interest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import with_inodes
from ext4kit.history.journal_gaps import find_journal_gaps
from ext4kit.journal import Log
from ext4kit.parsers.inode import InodeTable
from ext4kit.timeline import EventKind, Timeline
from ext4kit.timeline.events import CODE, instance_keys
from ext4kit.triage.facts import JournalState
from ext4kit.units import NANOSECONDS

WRITEBACK = 45 * NANOSECONDS  # dirty pages are written after 30 s by a thread that runs every 5 s
SLACK = 1 * NANOSECONDS
_LOCK = re.compile(
    rb"(.*/)?((.*[._-])?(lock|lck|lk|pid)|lockfile|\.~lock\..*#)|/(var/)?(run|lock)/.*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ZeroLengthFile:
    """A zero-length file that was written shortly before an unclean shutdown.

    Attributes:
        path: a path of the file; None if it has no name.
        written: its mtime, ns; crash_time: time of the last commit before the shutdown, ns.
        was_new: True if the file was new, False if it was truncated for a rewrite.
    """

    path: bytes | None
    inode: int
    written: int
    crash_time: int
    was_new: bool


def find_zero_length_files(
    fs: FileSystem, log: Log | None, standing: JournalState, timeline: Timeline, most: int
) -> tuple[int, tuple[ZeroLengthFile, ...]]:
    """(number of zero-length files, the newest ones, at most `most`)."""
    stops = _crash_times(log, standing)
    if not len(stops):
        return 0, ()
    events = timeline.events
    emptied = (events.kind == CODE[EventKind.TRUNCATED]) & (events.new == 0)
    cut = np.unique(instance_keys(events.number[emptied], events.generation[emptied]))
    none = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
    found = [none, *(_select(table, stops, cut) for table in fs.inode_batches())]
    columns = [np.concatenate(each) for each in zip(*found, strict=True)]
    order = np.argsort(-columns[1], kind="stable")
    number, written, stopped, made = (column[order].tolist() for column in columns)
    names: dict[int, bytes] = {}  # inode number -> one of its paths
    if number:
        tree = fs.tree(only=with_inodes(columns[0][order]))
        rows = np.flatnonzero(np.isin(tree.inode, number))
        names = dict(zip(tree.inode[rows].tolist(), tree.paths_of(rows), strict=True))
    victims = [
        ZeroLengthFile(path=path, inode=inode, written=time, crash_time=crash_time, was_new=was_new)
        for inode, time, crash_time, was_new in zip(number, written, stopped, made, strict=True)
        if not _LOCK.fullmatch((path := names.get(inode)) or b"")
    ]
    return len(victims), tuple(victims[:most])


def _crash_times(log: Log | None, standing: JournalState) -> Int64s:
    """Time (ns) of the last commit before each unclean shutdown, ascending."""
    if log is None:
        return np.zeros(0, np.int64)
    breaks = find_journal_gaps(log)
    stops = [breaks.commit_time[~breaks.unmounted & ~breaks.transactions_lost]]
    if standing is JournalState.TO_REPLAY:
        known = log.transactions
        stops.append(known.commit_time_ns[np.flatnonzero(known.committed)[-1:]])
    times = np.concatenate(stops)
    return np.sort(times[times > 0])


def _select(table: InodeTable, stops: Int64s, cut: Int64s) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """(number, mtime, crash time, True if new) of the zero-length files in a part of the table.

    A file that is created empty has equal times in all fields, and `touch` sets two fields to the
    same time. After a write or a truncation, mtime is later than these. For an old file, the
    journal must show a truncation of this very instance of the inode number.
    """
    empty = table.is_regular & (table.size == 0) & (table.links_count > 0)
    empty &= table.mtime == table.ctime
    has_crtime = table.extra_isize >= 24
    born = np.where(has_crtime, table.crtime, table.atime)
    empty &= ~has_crtime | (table.mtime > born)
    made = (table.mtime > born) & (table.mtime > table.atime) & (table.mtime - born < WRITEBACK)
    had_content = np.isin(instance_keys(table.number, table.generation), cut)
    made &= ~had_content
    rows = np.flatnonzero(empty & (made | had_content))
    mtime = table.mtime[rows]
    place = np.searchsorted(stops, mtime - SLACK)
    stop = stops[np.minimum(place, len(stops) - 1)]
    near = (place < len(stops)) & (stop - mtime < WRITEBACK)
    rows, mtime, stop = rows[near], mtime[near], stop[near]
    return table.number[rows], mtime, stop, made[rows]
