"""Applying fast commits in memory: the blocks that a recovery would change for them.

The tags are followed in order, as the kernel's replay does, up to the last good tail. Where
that replay leaves a file system that needs mending (links of parent directories, counts of
blocks) the sound value is written. Times of directories are not in fast commits: they stay.
Source: kernel fs/ext4/fast_commit.c, `ext4_fc_replay`; fs/ext4/namei.c, `__ext4_unlink`.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.findings import Problems
from ext4kit.journal.fast_commits.draft import ChangedBlocks, Draft, no_changes
from ext4kit.journal.fast_commits.entries import NewEntry
from ext4kit.journal.fast_commits.fields import get
from ext4kit.journal.fast_commits.folders import Folder
from ext4kit.journal.fast_commits.inodes import Subject, Subjects
from ext4kit.journal.fast_commits.reading import WHERE, read_fast_commits
from ext4kit.journal.fast_commits.space import Space
from ext4kit.journal.log import Log
from ext4kit.parsers.fast_commit import (
    EntryValue,
    InodeValue,
    RangeValue,
    TagKind,
    Value,
    parse_value,
    tag_name,
)
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.inode import INODE
from ext4kit.units import NANOSECONDS

MOST_LINKS = 65000
FILE_TYPES = {
    stat.S_IFREG: 1,
    stat.S_IFDIR: 2,
    stat.S_IFCHR: 3,
    stat.S_IFBLK: 4,
    stat.S_IFIFO: 5,
    stat.S_IFSOCK: 6,
    stat.S_IFLNK: 7,
}


@dataclass(frozen=True, slots=True)
class Record:
    """One tag to apply.

    Attributes:
        commit: number of its fast commit.
        position: log block that it stands in.
    """

    commit: int
    position: int
    kind: int
    value: Value


def apply_fast_commits(log: Log, fs: FileSystem, blocks: BlockReader) -> ChangedBlocks:
    """The blocks that the log's fast commits change.

    What cannot be applied is told in `log.problems`; the rest is applied.

    Args:
        log: the log.
        fs: the file system as it is on disk.
        blocks: its blocks with the log's transactions replayed.
    """
    records = records_of(log)
    if not records:
        return no_changes(blocks.block_size)
    try:
        return Applier(log.problems, fs.over(blocks), Due.of(log, records, fs)).run(records)
    except (AccessError, CorruptError, RequestError) as error:
        log.problems.add(WHERE, f"not applied, the newest changes are missing: {error}")
        return no_changes(blocks.block_size)


def records_of(log: Log) -> list[Record]:
    """What a recovery has to apply."""
    if not log.has_fast_commits:
        return []
    found = read_fast_commits(log)
    return [
        Record(number, position, kind, parse_value(kind, value))
        for number, one in enumerate(found.due)
        for position, kind, value in found.values(log, (one,))
    ]


@dataclass(frozen=True, slots=True)
class Due:
    """What all fast commits together say; a part of them is applied with the same in mind.

    Attributes:
        moment: seconds since 1970 that freed inodes get as time of deletion.
        reserved: (first blocks, lengths) of the ranges that they put into maps.
        inodes: the last INODE tag of an inode in a commit, by (commit, inode).
    """

    moment: int
    reserved: tuple[Any, Any]
    inodes: dict[tuple[int, int], InodeValue]

    @classmethod
    def of(cls, log: Log, records: list[Record], fs: FileSystem) -> Due:
        """What these records, which are all, say."""
        inodes = {
            (one.commit, one.value.inode): one.value
            for one in records
            if isinstance(one.value, InodeValue)
        }
        moment = _moment(log, records) or fs.superblock.write_time or 1
        return cls(moment, _reserved(records, log.home.blocks_count), inodes)


class Applier:
    """Applies records one after the other.

    Args:
        problems: told of what cannot be applied.
        fs: the file system with the log's transactions replayed.
        due: what all fast commits say.
    """

    def __init__(self, problems: Problems, fs: FileSystem, due: Due) -> None:
        self._problems = problems
        self._fs = fs
        self._draft = Draft(fs.blocks)
        self._space = Space(fs, self._draft, due.reserved)
        self._subjects = Subjects(fs, self._draft, self._space, due.moment)
        self._folders: dict[int, Folder] = {}
        self._inodes = due.inodes

    def run(self, records: list[Record]) -> ChangedBlocks:
        """The blocks that some records change, in that order.

        Raises:
            AccessError: a block that has to change cannot be read.
            CorruptError: no block is left for what has to grow.
        """
        for record in records:
            try:
                self._apply(record)
            except (AccessError, CorruptError, RequestError) as error:
                where = f"{WHERE}, log block {record.position:,}"
                what = f"a tag {tag_name(record.kind)} cannot be applied: {error}"
                self._problems.add(where, what)
        self._subjects.finish()
        clashes = self._space.finish()
        if clashes:
            what = f"{clashes:,} clusters that they use belong to other inodes as well"
            self._problems.add(WHERE, what)
        return self._draft.changes()

    def _apply(self, record: Record) -> None:
        value = record.value
        if isinstance(value, InodeValue):
            self._subjects.overwrite(value.inode, value.raw)
        elif isinstance(value, RangeValue):
            self._range(record, value)
        elif isinstance(value, EntryValue):
            if record.kind == TagKind.UNLINK:
                self._unlink(value)
            else:
                self._link(record, value)

    def _range(self, record: Record, value: RangeValue) -> None:
        """A file that left its inode has its ranges in front of the INODE tag that says so."""
        last = self._inodes.get((record.commit, value.inode))
        if self._subjects.get(value.inode).extents is None and last is not None:
            self._subjects.overwrite(last.inode, last.raw)
        if value.physical < 0:
            self._subjects.cut_range(value.inode, value.logical, value.length)
        else:
            place = value.logical, value.length, value.physical
            self._subjects.set_range(value.inode, *place, value.unwritten)

    def _folder(self, number: int) -> Folder:
        subject = self._subjects.get(number)
        if number not in self._folders or not subject.live:
            self._folders[number] = Folder(self._subjects, subject)
        return self._folders[number]

    def _unlink(self, value: EntryValue) -> None:
        """As the kernel: a name that leads elsewhere by now still costs the inode a link."""
        subject = self._subjects.get(value.inode)
        if not subject.live or not self._subjects.get(value.parent).live:
            return
        if not self._folder(value.parent).remove(value.name, value.inode):
            return
        self._subjects.unlink(subject)
        self._folders.pop(value.inode, None)
        if subject.is_directory:
            self._change_links(value.parent, -1)

    def _link(self, record: Record, value: EntryValue) -> None:
        """A name that is there already is left as it is."""
        subject = self._subjects.get(value.inode)
        last = self._inodes.get((record.commit, value.inode))
        if not subject.live and last is None:
            return
        mode = subject.get("i_mode") if last is None else get(INODE, last.raw, "i_mode")
        directory = stat.S_ISDIR(mode)
        if record.kind == TagKind.CREAT and subject.live:
            self._begin(subject, value.parent)
        folder = self._folder(value.parent)
        if folder.find(value.name):
            return
        kind = FILE_TYPES.get(stat.S_IFMT(mode), 0) if self._fs.has_file_types else 0
        folder.add(NewEntry(value.name, value.inode, kind))
        if record.kind == TagKind.LINK and subject.live:
            subject.put(i_links_count=subject.get("i_links_count") + 1)
        if directory:
            self._change_links(value.parent, 1)

    def _begin(self, subject: Subject, parent: int) -> None:
        """A new inode gets its first name; what an inline directory holds is counted already."""
        if not subject.is_directory:
            subject.put(i_links_count=1)
        elif not subject.is_inline:
            subject.put(i_links_count=2)
            self._folder(subject.number).start(parent)

    def _change_links(self, number: int, change: int) -> None:
        """A directory has one child directory more or less; many are counted as one link."""
        subject = self._subjects.get(number)
        links = subject.get("i_links_count")
        if links < 2:
            return
        links = max(links + change, 2)
        if links >= MOST_LINKS and RoCompat.DIR_NLINK in self._fs.superblock.features:
            links = 1
        subject.put(i_links_count=links)


def _reserved(records: list[Record], blocks_count: int) -> tuple[Any, Any]:
    """(first blocks, lengths) of the ranges that the records put into maps."""
    spans = [
        (one.value.physical, one.value.length)
        for one in records
        if isinstance(one.value, RangeValue) and 0 <= one.value.physical < blocks_count
    ]
    table = np.array(spans, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _moment(log: Log, records: list[Record]) -> int:
    """Seconds since 1970 before which they cannot all have been written, 0 if nothing tells."""
    commits = [one.commit_time_ns for one in log.transactions if one.to_replay]
    times = [time // NANOSECONDS for time in commits if time is not None]
    times += [
        get(INODE, one.value.raw, "i_ctime") for one in records if isinstance(one.value, InodeValue)
    ]
    return max(times, default=0)
