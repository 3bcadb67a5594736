"""Scan of the fast commits after the ring: their tags, and which of them a recovery replays.

Source: kernel fs/ext4/fast_commit.c, `ext4_fc_replay_scan`; fs/jbd2/recovery.c,
`fc_do_one_pass`; fs/jbd2/journal.c, `jbd2_fc_get_buf`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s
from ext4kit.journal.log import Log
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.fast_commit import (
    CHECKED_IN_TAIL,
    SUPPORTED_FEATURES,
    TAG,
    FastCommitTags,
    InodeValue,
    RangeValue,
    TagKind,
    parse_value,
    read_heads,
    read_tags,
    read_tails,
    tag_name,
)
from ext4kit.problems import Severity

NONE = -1
WHERE = "fast commits"
STALE = "stale"
INTERRUPTED = "no TAIL: interrupted, or replaced by a full commit"


@dataclass(frozen=True, slots=True)
class FastCommit:
    """The tags from one tail (or from the start of a block) to the next.

    Attributes:
        first: row in `FastCommits.tags` of the commit's first tag.
        end: one past the row of its last tag.
        position: log block of its first tag.
        head_tid: stored tid of its HEAD, NONE without one.
        features: features in its HEAD; 0 without one.
        tid: stored tid of its TAIL, NONE without one.
        crc_ok: whether the tail's checksum matches; None without a tail.
        to_replay: whether a recovery replays it.
        reason: why a recovery does not replay it, "" if it does.
    """

    first: int
    end: int
    position: int
    head_tid: int
    features: int
    tid: int
    crc_ok: bool | None
    to_replay: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FastCommits:
    """Every fast commit in the area after the ring, including stale ones.

    Attributes:
        positions: int64, the log blocks of the area; `tags.row` is an index into it.
        tags: all tags of those blocks.
        commit: int64, row of `commits` of each tag, NONE for the rest of a block.
        commits: by position; those that a recovery replays are first.
        expected_tid: the stored tid that a recovery expects, NONE if it replays none.
        refusal: the damage of the first fast commit if it prevents any replay, else "".
    """

    positions: Int64s
    tags: FastCommitTags
    commit: Int64s
    commits: tuple[FastCommit, ...]
    expected_tid: int
    refusal: str = ""

    @property
    def to_replay(self) -> tuple[FastCommit, ...]:
        """The fast commits that a recovery replays, in order."""
        return tuple(one for one in self.commits if one.to_replay)

    @property
    def newest_tid(self) -> int:
        """Stored tid of the fast commit that was written last, NONE if there is none."""
        first = self.commits[0] if self.commits else None
        return NONE if first is None or self.tags.row[first.first] != 0 else first.head_tid

    def tag_values(
        self, log: Log, commits: tuple[FastCommit, ...]
    ) -> Iterator[tuple[int, int, bytes]]:
        """(log block, kind, value) of each tag of some commits, in order."""
        tags = self.tags
        for one in commits:
            rows = tags.row[one.first : one.end]
            for start, end, row in _runs(rows):
                block = log.reader.read(self.positions[row : row + 1])[0].tobytes()
                for tag in range(one.first + start, one.first + end):
                    begin = int(tags.offset[tag]) + TAG.size
                    value = block[begin : begin + int(tags.length[tag])]
                    yield int(self.positions[row]), int(tags.kind[tag]), value


def _runs(values: Int64s) -> Iterator[tuple[int, int, int]]:
    """(start, end, value) of each run of equal values."""
    starts = np.flatnonzero(starts_group(values))
    ends = np.append(starts[1:], len(values))
    return zip(starts.tolist(), ends.tolist(), values[starts].tolist(), strict=True)


def scan_fast_commits(log: Log) -> FastCommits:
    """The fast commits of a log; none if it has no area for them.

    Reports in `log.problems` why the newest fast commits cannot be replayed.
    """
    positions = fast_commit_positions(log)
    tags, marks = _read_tags(log, positions)
    commits = tuple(_split_commits(log, positions, tags, marks))
    is_due = log.superblock.start != 0 and log.needs_recovery and not log.walk.refusal
    expected = log.walk.end_order % (1 << 32) if is_due else NONE
    commits, refused = _decide(log, tags, commits, expected)
    commit = np.full(len(tags), NONE)
    for number, one in enumerate(commits):
        commit[one.first : one.end] = number
    return FastCommits(positions, tags, commit, commits, expected, refused)


def added_ranges(log: Log) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """(first block, length, inode, generation) of each range that a recovery adds to a file.

    All are int64 columns; the generation is -1 where no fast commit records it. A later fast commit
    may remove a range again.
    """
    found = scan_fast_commits(log)
    ranges = []
    for one in found.to_replay:
        values = [parse_value(kind, value) for _, kind, value in found.tag_values(log, (one,))]
        inodes = {
            value.inode: value.generation for value in values if isinstance(value, InodeValue)
        }
        ranges += [
            (value.physical, value.length, value.inode, inodes.get(value.inode, NONE))
            for value in values
            if isinstance(value, RangeValue) and value.physical >= 0
        ]
    start, length, number, generation = np.array(ranges, np.int64).reshape(-1, 4).T
    return start, length, number, generation


def fast_commit_positions(log: Log) -> Int64s:
    """The log blocks (int64) that are reserved for fast commits."""
    area = log.superblock.fast_commit_area if log.has_fast_commits else 0
    first = log.superblock.length - area + 1  # the block between ring and area is unused
    return np.arange(first, log.length) if area and first > log.ring.first else np.zeros(0, int)


@dataclass(frozen=True, slots=True)
class _HeadTailValues(Table):
    """Values of HEAD and TAIL, one row per tag of `FastCommitTags`; NONE for other tags."""

    tid: Int64s
    detail: Int64s  # features of a HEAD, checksum of a TAIL


def _read_tags(log: Log, positions: Int64s) -> tuple[FastCommitTags, _HeadTailValues]:
    """The tags of the whole area, read chunk by chunk."""
    parts, marks = [], []
    done = 0
    for _, rows in log.reader.stream(positions):
        tags = read_tags(rows)
        tid, detail = np.full((2, len(tags)), NONE)
        head, tail = (
            np.flatnonzero(tags.sound & (tags.kind == kind))
            for kind in (TagKind.HEAD, TagKind.TAIL)
        )
        detail[head], tid[head] = read_heads(rows, tags.row[head], tags.offset[head])
        tid[tail], detail[tail] = read_tails(rows, tags.row[tail], tags.offset[tail])
        marks.append(_HeadTailValues(tid, detail))
        parts.append(replace(tags, row=tags.row + done))
        done += len(rows)
    return FastCommitTags.concat(parts), _HeadTailValues.concat(marks)


def _split_commits(
    log: Log, positions: Int64s, tags: FastCommitTags, marks: _HeadTailValues
) -> Iterator[FastCommit]:
    """The tags, split after each tail, before each head and at bytes that are no tag."""
    is_head = tags.sound & (tags.kind == TagKind.HEAD)
    ends = np.flatnonzero(~tags.sound | (tags.kind == TagKind.TAIL)) + 1
    edges = np.unique(np.concatenate([[0], ends, np.flatnonzero(is_head), [len(tags)]]))
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if not tags.sound[first]:
            continue  # no tag at the start of the block: it was not written by fast commits
        last = end - 1 if tags.sound[end - 1] else end - 2
        closed = bool(tags.kind[last] == TagKind.TAIL)
        head = bool(is_head[first])
        yield FastCommit(
            first,
            last + 1,
            int(positions[tags.row[first]]),
            int(marks.tid[first]) if head else NONE,
            int(marks.detail[first]) if head else 0,
            int(marks.tid[last]) if closed else NONE,
            _checksum(log, positions, tags, first, last) == int(marks.detail[last])
            if closed
            else None,
        )


def _checksum(log: Log, positions: Int64s, tags: FastCommitTags, first: int, tail: int) -> int:
    """The checksum of the tags from `first` up to a tail."""
    register = 0
    for start, end, row in _runs(tags.row[first : tail + 1]):
        block = log.reader.read(positions[row : row + 1])[0]
        last = first + end - 1
        size = CHECKED_IN_TAIL if last == tail else TAG.size + int(tags.length[last])
        piece = block[int(tags.offset[first + start]) : int(tags.offset[last]) + size]
        register = crc32c(register, piece.tobytes())
    return register


def _decide(
    log: Log, tags: FastCommitTags, commits: tuple[FastCommit, ...], expected: int
) -> tuple[tuple[FastCommit, ...], str]:
    """(commits with the recovery's decision on each, reason why it refuses the log or "")."""
    judged: list[FastCommit] = []
    stopped, refused = "no recovery is due" if expected == NONE else "", ""
    first = commits[0] if commits else None
    if not stopped and (first is None or tags.row[first.first] != 0 or first.head_tid == NONE):
        stopped = "no HEAD at the start of the area"
    for one in commits:
        why = stopped or _stop_reason(tags, one, expected)
        if why and not stopped:
            stopped = "after the last fast commit to apply"
            if not judged and not why.startswith((STALE, INTERRUPTED)):
                refused = f"{WHERE}, log block {one.position:,}: {why}"
            _report(log, one, why, bool(judged))
        judged.append(replace(one, to_replay=not why, reason=why))
    due = [one for one in judged if one.to_replay]
    if due and not refused:
        _report_unknown_tag(log, tags, due[-1])
    return tuple(judged), refused


def _report_unknown_tag(log: Log, tags: FastCommitTags, last: FastCommit) -> None:
    """Report an unknown tag at the start of the block past the last good tail."""
    row = int(tags.row[last.end - 1]) + 1
    first = int(np.searchsorted(tags.row, row))
    if first < len(tags) and tags.row[first] == row and not tags.sound[first] and tags.kind[first]:
        what = f"unknown tag {tag_name(int(tags.kind[first]))} after the last one; they end there"
        log.problems.add(f"{WHERE}, log block {last.position:,}", what, Severity.NOTE)


def _stop_reason(tags: FastCommitTags, one: FastCommit, expected: int) -> str:
    """Why a recovery stops before this commit, or ""."""
    if one.features & ~SUPPORTED_FEATURES:
        return f"unknown features 0x{one.features:X}"
    if one.head_tid not in (NONE, expected):
        return f"{STALE}: written for transaction {one.head_tid}"
    if one.tid == NONE:
        is_followed = one.end < len(tags) and tags.row[one.end] == tags.row[one.end - 1]
        if is_followed and not tags.sound[one.end] and tags.kind[one.end]:
            return f"unknown or invalid tag {tag_name(int(tags.kind[one.end]))}"
        return INTERRUPTED
    if one.tid != expected:
        stale = f"{STALE}: written for transaction {one.tid}"
        return stale if one.head_tid == NONE else INTERRUPTED
    return "" if one.crc_ok else "bad checksum"


def _report(log: Log, one: FastCommit, why: str, later: bool) -> None:
    """Report why the replay stops, unless undamaged fast commits can also end in this way."""
    if why.startswith(STALE):
        return
    lost = "it and later ones were not applied" if later else "none was applied"
    severity = Severity.ERROR
    if why == INTERRUPTED:
        severity = Severity.NOTE if later else Severity.WARNING
    log.problems.add(f"{WHERE}, log block {one.position:,}", f"{why}; {lost}", severity)
