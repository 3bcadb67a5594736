"""Comparison of the bytes of files and symlinks as both readers read them, by SHA-256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.crosscheck.answers import ComparisonRequest, ContentDigest
from ext4kit.crosscheck.causes import CAUSES, JOURNAL, LINK, NUMBER, REFUSED
from ext4kit.crosscheck.fields import FieldComparison
from ext4kit.crosscheck.result import CONTENT, CrossCheck, Difference, DifferenceGroup
from ext4kit.crosscheck.second import NoTimeError, TooSlowError, TskClient
from ext4kit.crosscheck.sides import TreeView
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import CHUNK_BYTES, Content

_HOLES = 1 << 30  # holes to read as zeros, bytes; with larger ones only stored ranges are compared
_FILES_AT_ONCE = 1024
_BYTES_AT_ONCE = 64 << 20
_UNASKED = "contents not read by The Sleuth Kit within the time limit"
_ZEROS = bytes(CHUNK_BYTES)
_FILE, _LINK = 0o100000, 0o120000
_LONGEST_LINK = 4096
_CONTROL = re.compile(rb"[\x01-\x1f\x7f]")
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Task:
    """A content to compare: its row among the pairs, and its ranges."""

    place: int
    content: Content
    ranges: Ranges

    @property
    def bytes(self) -> int:
        """Number of bytes to read."""
        return sum(length for _, length in self.ranges)


class ContentComparison:
    """Compares the contents of the inodes that both readers have."""

    def __init__(
        self,
        second: TskClient,
        fields: FieldComparison,
        now: TreeView,
        raw: TreeView | None,
        outcome: CrossCheck,
    ) -> None:
        self.tsk_client, self.fields, self.now, self.raw = second, fields, now, raw
        self.outcome = outcome
        self.found: list[tuple[int, str, ContentDigest]] = []
        self.causes: list[int] = []
        self._done = 0

    def group(self, show: Callable[[int, int], None] | None) -> DifferenceGroup:
        """Read all contents and return those that differ."""
        places = self._places()
        for tasks in self._batches(places):
            try:
                self._batch(tasks)
            except NoTimeError:
                self.outcome.left_out[_UNASKED] += len(places) - self._done
                break
            if show is not None:
                show(self._done, len(places))
        return DifferenceGroup(CONTENT, np.array(self.causes, np.int8), self._one)

    def _places(self) -> Any:
        """The first pair of each file and symlink, in inode order."""
        rows = self.fields.now
        kind = self.now.columns["mode"][rows] & 0xF000
        chosen = np.flatnonzero((kind == _FILE) | (kind == _LINK))
        return chosen[np.unique(self.now.number[rows[chosen]], return_index=True)[1]]

    def _batches(self, places: Any) -> Iterator[list[_Task]]:
        tasks: list[_Task] = []
        size = 0
        for start in range(0, len(places), _FILES_AT_ONCE):
            for task in self._tasks(places[start : start + _FILES_AT_ONCE]):
                tasks.append(task)
                size += task.bytes
                if len(tasks) >= _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield tasks
                    tasks, size = [], 0
        if tasks:
            yield tasks

    def _tasks(self, places: Any) -> Iterator[_Task]:
        fs = self.now.fs
        table = fs.inode_table(self.now.number[self.fields.now[places]])
        for place, inode, runs in zip(
            places.tolist(), table.each(), fs.block_maps(table), strict=True
        ):
            content = fs.content(inode, runs)
            if content.is_overfull:
                self._leave_out("contents larger than the evidence")
                continue
            yield _Task(place, content, _ranges(content))

    def _batch(self, tasks: list[_Task]) -> None:
        """Request all tasks and hash them here meanwhile; slow ones are repeated one at a time."""
        self.tsk_client.ask_digests([self._wanted(task) for task in tasks])
        ours = [_digest(task.content, task.ranges) for task in tasks]
        try:
            answers: Iterable[ContentDigest | None] = self.tsk_client.digests()
        except TooSlowError:
            answers = map(self._alone, tasks)
        for task, mine, answer in zip(tasks, ours, answers, strict=True):
            self._judge(task, mine, answer)

    def _wanted(self, task: _Task) -> ComparisonRequest:
        return ComparisonRequest(self._number(task.place), task.ranges)

    def _number(self, place: int) -> int:
        return int(self.now.number[self.fields.now[place]])

    def _alone(self, task: _Task) -> ContentDigest | None:
        try:
            self.tsk_client.ask_digests([self._wanted(task)])
            return self.tsk_client.digests()[0]
        except NoTimeError:
            raise
        except TooSlowError:
            return None

    def _leave_out(self, why: str) -> None:
        self.outcome.left_out[why] += 1
        self._done += 1

    def _judge(self, task: _Task, mine: str | None, answer: ContentDigest | None) -> None:
        if answer is None:
            self._leave_out("contents whose reading took too long")
            return
        if mine is None:
            self._leave_out("contents that ext4kit cannot read completely")
            return
        self._done += 1
        self.outcome.contents += 1
        self.outcome.content_bytes += task.bytes
        if answer.sha256 == mine and not answer.error:
            return
        self.found.append((task.place, mine, answer))
        self.causes.append(self._cause(task, answer))

    def _cause(self, task: _Task, answer: ContentDigest) -> int:
        if answer.error:
            return NUMBER[REFUSED.code]
        if self._was_so(task, answer):
            return NUMBER[JOURNAL.code]
        mode = int(self.now.columns["mode"][self.fields.now[task.place]])
        if mode & 0xF000 == _LINK and task.content.size <= _LONGEST_LINK:
            target = task.content.read(0, task.content.size).split(b"\0")[0]
            cleaned = _CONTROL.sub(b"^", target)
            if hashlib.sha256(cleaned).hexdigest() == answer.sha256:
                return NUMBER[LINK.code]
        return 0

    def _was_so(self, task: _Task, answer: ContentDigest) -> bool:
        """Whether the file without the changes of the journal has the bytes that TSK reads."""
        if self.raw is None:
            return False
        fs: FileSystem = self.raw.fs
        try:
            content = fs.content(fs.inode(self._number(task.place)))
        except Ext4kitError:
            return False
        ends = ((start, min(length, content.size - start)) for start, length in task.ranges)
        kept = tuple((start, length) for start, length in ends if length > 0)
        return _digest(content, kept) == answer.sha256

    def _one(self, index: int) -> Difference:
        place, mine, answer = self.found[index]
        row = int(self.fields.now[place])
        path, number = self.now.path(row), int(self.now.number[row])
        cause = CAUSES[self.causes[index]]
        return Difference(path, CONTENT, number, mine, answer.sha256, cause, answer.error)


def _ranges(content: Content) -> Ranges:
    """Ranges of a file to read: all of it, or its stored ranges where its holes are very large."""
    stored = content.stored
    if content.size - stored <= _HOLES:
        return ((0, content.size),) if content.size else ()
    pieces = content.segments() if content.runs is not None else ()
    found: list[tuple[int, int]] = [(0, stored)] if content.runs is None and stored else []
    for offset, length, place in pieces:
        if place is not None:
            found.append((offset, length))
    return tuple(found)


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
            part = min(length, end - start)
            _add(digest, chunk.data, start - chunk.offset, part)
            start, length = start + part, length - part
            if not length:
                start, length = next(left, (0, 0))
    return digest.hexdigest()


def _add(digest: Any, data: memoryview | bytes | None, offset: int, length: int) -> None:
    """Add the bytes of a chunk, or zeros."""
    if data is not None:
        digest.update(memoryview(data)[offset : offset + length])
        return
    for done in range(0, length, len(_ZEROS)):
        digest.update(_ZEROS[: length - done])
