"""Replay of fast commits in memory: the blocks that it changes.

Tags are replayed in order up to the last good tail, as in the kernel. The kernel's replay leaves
some values wrong (links of parent directories, block counts); here, the correct values are written.
Fast commits do not record the times of directories, so these times do not change.
Source: kernel fs/ext4/fast_commit.c, `ext4_fc_replay`; fs/ext4/namei.c, `__ext4_unlink`.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.fast_commits.allocation import BlockAllocator
from ext4kit.journal.fast_commits.directories import DirectoryEditor
from ext4kit.journal.fast_commits.dirents import NewDirent
from ext4kit.journal.fast_commits.inodes import InodeEditor, InodeEditors
from ext4kit.journal.fast_commits.overlay import BlockOverlay, ChangedBlocks, get_field, no_changes
from ext4kit.journal.fast_commits.scan import WHERE, scan_fast_commits
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
from ext4kit.problems import Problems, Severity
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
class FastCommitRecord:
    """One tag to replay.

    Attributes:
        commit: index of the fast commit that has the tag.
        position: log block that contains the tag.
    """

    commit: int
    position: int
    kind: int
    value: Value


def replay_fast_commits(log: Log, fs: FileSystem, blocks: BlockReader) -> ChangedBlocks:
    """The blocks that the log's fast commits change.

    Reports records that cannot be replayed in `log.problems` and replays the rest.

    Args:
        log: the log.
        fs: the file system as it is on disk.
        blocks: the blocks of the file system with the log's transactions replayed.
    """
    records = replay_records(log)
    if not records:
        return no_changes(blocks.block_size)
    due, before = ReplayContext.of(log, records, fs), fs.with_blocks(blocks)
    try:
        return FastCommitReplayer(log.problems, before, due).run(records)
    except (AccessError, CorruptError, RequestError) as error:
        log.problems.add(WHERE, f"not applied; the newest changes are missing: {error}")
        return no_changes(blocks.block_size)


def replay_records(log: Log) -> list[FastCommitRecord]:
    """The tags that a recovery has to replay."""
    if not log.has_fast_commits:
        return []
    found = scan_fast_commits(log)
    return [
        FastCommitRecord(number, position, kind, parse_value(kind, value))
        for number, one in enumerate(found.to_replay)
        for position, kind, value in found.tag_values(log, (one,))
    ]


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """Values derived from all fast commits; a replay of only some of them uses the same values.

    Attributes:
        deletion_time: deletion time given to freed inodes, seconds since 1970; this is the earliest
            time at which all records can have been written.
        reserved_ranges: (first blocks, lengths) of the ranges that fast commits add to maps.
        last_inode_tags: the last INODE tag of an inode in a commit, by (commit, inode).
    """

    deletion_time: int
    reserved_ranges: tuple[Int64s, Int64s]
    last_inode_tags: dict[tuple[int, int], InodeValue]

    @classmethod
    def of(cls, log: Log, records: list[FastCommitRecord], fs: FileSystem) -> ReplayContext:
        """The context from all records of a log."""
        tags = [(one.commit, one.value) for one in records if isinstance(one.value, InodeValue)]
        spans = [
            (one.value.physical, one.value.length)
            for one in records
            if isinstance(one.value, RangeValue) and 0 <= one.value.physical < log.home.blocks_count
        ]
        first, length = np.array(spans, np.int64).reshape(-1, 2).T
        commits = [one.commit_time_ns for one in log.transactions if one.to_replay]
        times = [time // NANOSECONDS for time in commits if time is not None]
        times += [get_field(INODE, value.raw, "i_ctime") for _, value in tags]
        moment = max(times, default=0) or fs.superblock.write_time or 1
        return cls(moment, (first, length), {(at, value.inode): value for at, value in tags})


class FastCommitReplayer:
    """Replays records in order.

    Args:
        problems: collects records that cannot be replayed.
        fs: the file system with the log's transactions replayed.
        due: the values derived from all fast commits.
    """

    def __init__(self, problems: Problems, fs: FileSystem, due: ReplayContext) -> None:
        self._problems = problems
        self._fs = fs
        self._draft = BlockOverlay(fs.blocks)
        self._space = BlockAllocator(fs, self._draft, due.reserved_ranges)
        self._subjects = InodeEditors(fs, self._draft, self._space, due.deletion_time)
        self._folders: dict[int, DirectoryEditor] = {}
        self._inodes = due.last_inode_tags

    def run(self, records: list[FastCommitRecord]) -> ChangedBlocks:
        """Replay records in the given order, and return the blocks that they change.

        Raises:
            AccessError: a block that has to change cannot be read.
            CorruptError: no block is free for a tree or directory that has to grow.
        """
        for record in records:
            try:
                self._apply(record)
            except (AccessError, CorruptError, RequestError) as error:
                where = f"{WHERE}, log block {record.position:,}"
                what = f"a tag {tag_name(record.kind)} cannot be applied: {error}"
                self._problems.add(where, what)
        self._subjects.write_all()
        clashes = self._space.write_all()
        if clashes:
            what = f"{clashes:,} clusters that they use are also mapped by other inodes"
            self._problems.add(WHERE, what)
        return self._draft.changes()

    def _apply(self, record: FastCommitRecord) -> None:
        value = record.value
        if isinstance(value, InodeValue):
            if not self._subjects.get(value.inode).in_use:
                self._folders.pop(value.inode, None)
            self._subjects.replay_inode_tag(value.inode, value.raw)
        elif isinstance(value, RangeValue):
            self._range(record, value)
        elif isinstance(value, EntryValue):
            if record.kind == TagKind.UNLINK:
                self._unlink(value)
            else:
                self._link(record, value)

    def _range(self, record: FastCommitRecord, value: RangeValue) -> None:
        """Replay a range; ranges of a file that is no longer inline precede its INODE tag."""
        self._folders.pop(value.inode, None)
        last = self._inodes.get((record.commit, value.inode))
        if self._subjects.get(value.inode).extents is None and last is not None:
            self._subjects.replay_inode_tag(last.inode, last.raw)
        if value.physical < 0:
            self._subjects.remove_range(value.inode, value.logical, value.length)
        else:
            place = value.logical, value.length, value.physical
            self._subjects.add_range(value.inode, *place, value.unwritten)

    def _directory(self, number: int) -> DirectoryEditor:
        """The editor of a directory; it caches blocks and names, so all changes must use it."""
        subject = self._subjects.get(number)
        if number not in self._folders or not (subject.in_use and subject.is_directory):
            self._folders[number] = DirectoryEditor(self._subjects, subject)
        return self._folders[number]

    def _unlink(self, value: EntryValue) -> None:
        """Replay an unlink; as in the kernel, the inode loses a link even if its name is reused."""
        subject = self._subjects.get(value.inode)
        if not subject.in_use or not self._subjects.get(value.parent).in_use:
            return
        if not self._directory(value.parent).remove(value.name, value.inode):
            return
        self._subjects.unlink(subject)
        self._folders.pop(value.inode, None)
        if subject.is_directory:
            self._adjust_parent_links(value.parent, -1)

    def _link(self, record: FastCommitRecord, value: EntryValue) -> None:
        """Replay a link; an existing name does not change."""
        subject = self._subjects.get(value.inode)
        last = self._inodes.get((record.commit, value.inode))
        if not subject.in_use and last is None:
            return
        mode = subject.get("i_mode") if last is None else get_field(INODE, last.raw, "i_mode")
        directory = stat.S_ISDIR(mode)
        if record.kind == TagKind.CREAT and subject.in_use:
            self._init_new_inode(subject, value.parent)
        folder = self._directory(value.parent)
        if folder.find(value.name):
            return
        kind = FILE_TYPES.get(stat.S_IFMT(mode), 0) if self._fs.has_file_types else 0
        folder.add(NewDirent(value.name, value.inode, kind))
        if record.kind == TagKind.LINK and subject.in_use:
            subject.put(i_links_count=subject.get("i_links_count") + 1)
        if directory:
            self._adjust_parent_links(value.parent, 1)

    def _init_new_inode(self, subject: InodeEditor, parent: int) -> None:
        """Initialise a new inode; the entries of an inline directory have been counted already."""
        if not subject.is_directory:
            subject.put(i_links_count=1)
        elif not subject.is_inline:
            subject.put(i_links_count=2)
            self._directory(subject.number).init_first_block(parent)

    def _adjust_parent_links(self, number: int, change: int) -> None:
        """Adjust a directory's link count by one child; a count beyond the limit is stored as 1."""
        subject = self._subjects.get(number)
        links = subject.get("i_links_count")
        if links < 2:
            return
        links = max(links + change, 2)
        if links >= MOST_LINKS and RoCompat.DIR_NLINK in self._fs.superblock.features:
            links = 1
        subject.put(i_links_count=links)


MAX_INTERMEDIATE = 64  # each needs a separate replay


@dataclass(frozen=True, slots=True)
class IntermediateState:
    """The file system between two fast commits.

    Attributes:
        changed: the blocks that the fast commits up to this point change.
        numbers: int64, inodes that these fast commits created or changed and the next one removes.
    """

    changed: ChangedBlocks
    numbers: Int64s


def find_intermediate_states(log: Log, before: FileSystem) -> list[IntermediateState]:
    """The states before each fast commit that removes an inode of an earlier fast commit.

    The last state of such an inode is in no transaction, nor in the file system before or after all
    fast commits.

    Args:
        log: the log.
        before: the file system with the log's transactions replayed.

    Returns:
        The last `MAX_INTERMEDIATE` states, oldest first.
    """
    records = replay_records(log)
    due, found = ReplayContext.of(log, records, before), []
    removals = sorted(_inodes_removed_later(records).items())
    if len(removals) > MAX_INTERMEDIATE:
        what = f"{len(removals)} of them remove inodes; only the last {MAX_INTERMEDIATE} are used"
        log.problems.add(WHERE, what, Severity.WARNING)
    for commit, numbers in removals[-MAX_INTERMEDIATE:]:
        earlier = [one for one in records if one.commit < commit]
        try:
            changed = FastCommitReplayer(Problems(), before, due).run(earlier)
        except (AccessError, CorruptError, RequestError):
            continue  # reported by the replay of all fast commits
        found.append(IntermediateState(changed, np.array(sorted(numbers), np.int64)))
    return found


def _inodes_removed_later(records: list[FastCommitRecord]) -> dict[int, set[int]]:
    """Per commit: the inodes that it removes and that earlier commits created or changed."""
    last_tags: dict[int, tuple[int, int]] = {}  # inode -> (the last commit with it, its generation)
    ends = {
        (one.commit, one.value.inode): one.value.generation
        for one in records
        if isinstance(one.value, InodeValue) and one.value.links_count > 0
    }
    removed: dict[int, set[int]] = {}
    for one in records:
        value = one.value
        if isinstance(value, InodeValue) and value.links_count > 0:
            last_tags[value.inode] = one.commit, value.generation
        elif isinstance(value, EntryValue) and one.kind == TagKind.UNLINK:
            commit, generation = last_tags.get(value.inode, (one.commit, -1))
            stays = ends.get((one.commit, value.inode), -1) == generation
            if commit < one.commit and not stays:
                removed.setdefault(one.commit, set()).add(value.inode)
    return removed
