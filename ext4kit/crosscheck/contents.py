"""Comparison of the content of files and symlinks in both readings, by SHA-256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.crosscheck import causes
from ext4kit.crosscheck.answers import ContentDigest, Ranges
from ext4kit.crosscheck.result import CONTENT, CrossCheck, Difference, DifferenceGroup
from ext4kit.crosscheck.second import NoTimeError, TooSlowError, TskClient
from ext4kit.crosscheck.sides import TreeView
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.content import CHUNK_BYTES, Content

_HOLES = 1 << 30  # bytes; with more bytes in holes, only stored ranges are compared
_FILES_AT_ONCE = 1024
_BYTES_AT_ONCE = 64 << 20
_UNASKED = "content of files not read by The Sleuth Kit within the time limit"
_ZEROS = bytes(CHUNK_BYTES)
_FILE, _LINK = 0o100000, 0o120000
_LONGEST_LINK = 4096
_CONTROL = re.compile(rb"[\x01-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class _Task:
    """Content to compare: its row in ext4kit's reading, its inode number, and its ranges."""

    row: int
    number: int
    content: Content
    ranges: Ranges

    @property
    def bytes(self) -> int:
        """Number of bytes to read."""
        return sum(length for _, length in self.ranges)


class ContentComparison:
    """Compares the contents of the inodes that both readers have.

    Attributes:
        rows: the first row of each file and symlink, in inode order.
    """

    def __init__(
        self, tsk: TskClient, rows: Int64s, now: TreeView, raw: TreeView | None, outcome: CrossCheck
    ) -> None:
        self.tsk_client, self.now, self.raw, self.outcome = tsk, now, raw, outcome
        kind = now.columns["mode"][rows] & 0xF000
        rows = rows[(kind == _FILE) | (kind == _LINK)]
        self.rows = rows[np.unique(now.number[rows], return_index=True)[1]]
        self.found: list[Difference] = []
        self._done = 0

    def group(self, show: Callable[[int, int], None] | None) -> DifferenceGroup:
        """Read all contents and return those that differ."""
        for tasks in self._batches():
            try:
                self._batch(tasks)
            except NoTimeError:
                self.outcome.left_out[_UNASKED] += len(self.rows) - self._done
                break
            if show is not None:
                show(self._done, len(self.rows))
        found = self.found
        return DifferenceGroup.of(CONTENT, (one.cause for one in found), found.__getitem__)

    def _batches(self) -> Iterator[list[_Task]]:
        tasks: list[_Task] = []
        size = 0
        for start in range(0, len(self.rows), _FILES_AT_ONCE):
            for task in self._tasks(self.rows[start : start + _FILES_AT_ONCE]):
                tasks.append(task)
                size += task.bytes
                if len(tasks) >= _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield tasks
                    tasks, size = [], 0
        if tasks:
            yield tasks

    def _tasks(self, rows: Int64s) -> Iterator[_Task]:
        fs = self.now.fs
        table = fs.inode_table(self.now.number[rows])
        for row, inode, runs in zip(rows.tolist(), table.each(), fs.block_maps(table), strict=True):
            content = fs.content(inode, runs)
            if content.is_overfull:
                self._leave_out("content of files larger than the evidence")
                continue
            yield _Task(row, inode.number, content, _ranges(content))

    def _batch(self, tasks: list[_Task]) -> None:
        """Let TSK hash all tasks, and hash them here meanwhile; slow ones are repeated singly."""
        self.tsk_client.ask_digests([(one.number, one.ranges) for one in tasks])
        ours = [_digest(task.content, task.ranges) for task in tasks]
        try:
            answers: Iterable[ContentDigest | None] = self.tsk_client.digests()
        except TooSlowError:
            answers = map(self._alone, tasks)
        for task, mine, answer in zip(tasks, ours, answers, strict=True):
            self._judge(task, mine, answer)

    def _alone(self, task: _Task) -> ContentDigest | None:
        try:
            self.tsk_client.ask_digests([(task.number, task.ranges)])
            return self.tsk_client.digests()[0]
        except NoTimeError:
            raise
        except TooSlowError:
            return None

    def _leave_out(self, why: str) -> None:
        self.outcome.left_out[why] += 1
        self._done += 1

    def _judge(self, task: _Task, mine: str | None, answer: ContentDigest | None) -> None:
        if answer is None or mine is None:
            slow, damaged = "whose reading took too long", "that ext4kit cannot read completely"
            self._leave_out(f"contents {slow if answer is None else damaged}")
            return
        self._done += 1
        self.outcome.contents += 1
        self.outcome.content_bytes += task.bytes
        if answer.sha256 == mine and not answer.error:
            return
        path, cause = self.now.path(task.row), self._cause(task, answer)
        self.found.append(
            Difference(path, CONTENT, task.number, mine, answer.sha256, cause, answer.error)
        )

    def _cause(self, task: _Task, answer: ContentDigest) -> causes.Cause:
        if answer.error:
            return causes.REFUSED
        if self._was_so(task, answer):
            return causes.JOURNAL
        mode = int(self.now.columns["mode"][task.row])
        if mode & 0xF000 == _LINK and task.content.size <= _LONGEST_LINK:
            target = task.content.read(0, task.content.size).split(b"\0")[0]
            cleaned = _CONTROL.sub(b"^", target)
            if hashlib.sha256(cleaned).hexdigest() == answer.sha256:
                return causes.LINK
        return causes.UNEXPLAINED

    def _was_so(self, task: _Task, answer: ContentDigest) -> bool:
        """Whether TSK's answer matches the file without the changes of the journal."""
        if self.raw is None:
            return False
        fs = self.raw.fs
        try:
            content = fs.content(fs.inode(task.number))
        except Ext4kitError:
            return False
        ends = ((start, min(length, content.size - start)) for start, length in task.ranges)
        kept = tuple((start, length) for start, length in ends if length > 0)
        return _digest(content, kept) == answer.sha256


def _ranges(content: Content) -> Ranges:
    """Ranges of a file to read: the whole file, or its stored ranges if it has very large holes."""
    stored = content.stored
    if content.size - stored <= _HOLES:
        return ((0, content.size),) if content.size else ()
    if content.runs is None:
        return ((0, stored),) if stored else ()
    return tuple((at, length) for at, length, place in content.segments() if place is not None)


def _digest(content: Content, ranges: Ranges) -> str | None:
    """SHA-256 of the ascending ranges; None when a part is unreadable."""
    digest = hashlib.sha256()
    left = iter(ranges)
    start, length = next(left, (0, 0))
    for chunk in content.chunks():
        end = chunk.offset + chunk.length
        while length and start < end:
            if chunk.lost:
                return None
            part, offset = min(length, end - start), start - chunk.offset
            if chunk.data is not None:
                digest.update(chunk.data[offset : offset + part])
            for done in range(0, part if chunk.data is None else 0, len(_ZEROS)):
                digest.update(_ZEROS[: part - done])
            start, length = start + part, length - part
            if not length:
                start, length = next(left, (0, 0))
    return digest.hexdigest()
