"""Verdicts on fast commits: their checksums, and commits that damage has made unrecognisable.

The newest fast commits start at the first block of the area. They are followed by the rest of older
ones, whose first blocks may be overwritten. A failed checksum is damage if one changed bit explains
it, or if the beginning of the commit is known to be in the area.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, UInt8s
from ext4kit.audit.bit_repair import NOWHERE, find_bit_repairs
from ext4kit.audit.damage import FindingBuilder, changed_bit
from ext4kit.audit.result import BAD, OK, UNCHECKED, Part, VerdictCounts
from ext4kit.journal.fast_commits.scan import NONE, FastCommit, FastCommits, scan_fast_commits
from ext4kit.journal.log import Log
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.fast_commit import CHECKED_IN_TAIL, TAG, TAIL, TagKind

MOST_BLOCKS = 64  # most blocks of a fast commit that is reassembled
MEANING = "a recovery would stop before this fast commit; it and the later ones would be lost"


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A fast commit with one changed bit.

    Attributes:
        first: row of its first block in the area.
        last: row of the block with its tail.
        tid: tid in its tail, after the repair.
        byte: offset of the damaged byte from the first block's start.
        mask: the changed bit.
    """

    first: int
    last: int
    tid: int
    byte: int
    mask: int


def tell_fast_commits(places: FindingBuilder, tally: VerdictCounts) -> None:
    """Judge every fast commit of the log, stale ones included."""
    found = scan_fast_commits(places.log)
    if not len(found.positions):
        return
    tids = np.full(len(found.positions), NONE)  # tid of the recognised commit in each block
    verdicts = []
    for one in found.commits:
        if one.crc_ok:
            first, last = _rows(found, one)
            tids[first : last + 1] = one.tid
            verdicts.append(OK)
    for damaged in _pieced_together(places.log, found, tids != NONE):
        _tell(places, found, damaged)
        tids[damaged.first : damaged.last + 1] = damaged.tid
        verdicts.append(BAD)
    left = Intervals.of_mask(tids == NONE)
    for first, end in zip(left.start.tolist(), left.end.tolist(), strict=True):
        verdicts += _judge_run(places, found, tids, first, end)
    tally.add(Part.FAST_COMMIT, np.array(verdicts, np.int64))


def _judge_run(
    places: FindingBuilder, found: FastCommits, tids: Int64s, first: int, end: int
) -> list[int]:
    """Verdicts on blocks that belong to no recognised fast commit.

    All fast commits of one transaction follow each other from the first block of the area on.
    Therefore blocks between two fast commits, or before the first one, held fast commits as well.
    """
    inside = [one for one in found.commits if first <= _rows(found, one)[0] < end]
    before = int(tids[first - 1]) if first else NONE
    behind = int(tids[end]) if end < len(tids) else NONE
    # transaction whose fast commits overwrite the old ones from the start
    restarted = any(one.head_tid not in (NONE, behind) for one in inside)
    if behind != NONE and (before == behind or (first == 0 and not restarted)):
        position = int(found.positions[first])
        places.add(
            "fast-commit-missing", behind, position, expected="a fast commit with a valid checksum",
            read="blocks without a readable fast commit", meaning=MEANING,
        )  # fmt: skip
        return [BAD]
    verdicts = []
    for one in inside:
        begins = one.head_tid == one.tid if first == 0 else one.tid == before
        is_whole = begins and one.crc_ok is False and _rows(found, one)[0] == first
        verdicts.append(BAD if is_whole else UNCHECKED)
        if is_whole:
            places.add(
                "fast-commit-checksum", one.tid, one.position, read="a wrong checksum",
                expected="the checksum of the tags before the tail", meaning=MEANING,
            )  # fmt: skip
    return verdicts


def _rows(found: FastCommits, one: FastCommit) -> tuple[int, int]:
    """(first, last) row of a commit's blocks in the area."""
    return int(found.tags.row[one.first]), int(found.tags.row[one.end - 1])


def _pieced_together(log: Log, found: FastCommits, settled: Bools) -> list[_Damaged]:
    """Commits in the remaining blocks whose failed checksum is explained by one changed bit."""
    damaged: list[_Damaged] = []
    row, size = 0, log.reader.blocks.block_size
    while row < len(settled):
        rows = log.reader.read(found.positions[row : _run_end(settled, row)])
        hit = _explained(rows, row, size) if len(rows) and rows[0].any() else None
        if hit is not None:
            damaged.append(hit)
        row = row + 1 if hit is None else hit.last + 1
    return damaged


def _run_end(settled: Bools, row: int) -> int:
    """One past the last block from `row` on that may belong to the same commit."""
    stop = np.flatnonzero(settled[row : row + MOST_BLOCKS])
    return row + int(stop[0]) if len(stop) else min(row + MOST_BLOCKS, len(settled))


def _explained(rows: Bytes2D, first: int, size: int) -> _Damaged | None:
    """The commit from the first of these blocks to the next tail, if a changed bit explains it."""
    for last in range(len(rows)):
        tails, is_whole = _tails(rows[last], size)
        data = rows[: last + 1].reshape(-1)
        for offset in tails:
            hit = _check(data, first, first + last, last * size + offset)
            if hit is not None:
                return hit
        if is_whole:
            return None
    return None


def _tails(row: UInt8s, size: int) -> tuple[list[int], bool]:
    """(offsets at which a tail up to the end of the block may begin, whether one is undamaged).

    Several offsets are possible, as times in an inode can look like a tail with one changed bit.
    """
    offsets = np.arange(size - TAG.size - TAIL.size + 1)
    headers = np.lib.stride_tricks.sliding_window_view(row, TAG.size)[: len(offsets)]
    wanted = np.zeros((len(offsets), TAG.size), np.uint8)
    wanted[:, 0] = TagKind.TAIL
    wanted[:, 2:] = (size - TAG.size - offsets).astype("<u2").view(np.uint8).reshape(-1, 2)
    changed = np.unpackbits(headers ^ wanted, axis=1).sum(axis=1)
    return offsets[changed <= 1].tolist(), bool((changed == 0).any())


def _check(data: UInt8s, first: int, last: int, tail: int) -> _Damaged | None:
    """The commit up to a tail at byte `tail`, if one changed bit explains its failed checksum."""
    end = tail + CHECKED_IN_TAIL
    stored = int.from_bytes(data[end : end + 4].tobytes(), "little")
    difference = crc32c(0, data[:end].tobytes()) ^ stored
    if not difference:
        return None
    mends = find_bit_repairs(np.array([difference]), end, NONE)
    byte, mask = int(mends.byte[0]), int(mends.mask[0])
    if byte == NOWHERE and difference & (difference - 1) == 0:
        bit = difference.bit_length() - 1
        byte, mask = end + bit // 8, 1 << bit % 8
    if byte == NOWHERE:
        return None
    tid = bytearray(data[end - 4 : end].tobytes())
    if end - 4 <= byte < end:
        tid[byte - end + 4] ^= mask
    return _Damaged(first, last, int.from_bytes(tid, "little"), byte, mask)


def _tell(places: FindingBuilder, found: FastCommits, damaged: _Damaged) -> None:
    block, byte = divmod(damaged.byte, places.log.reader.blocks.block_size)
    position = found.positions[damaged.first + block]
    data = places.log.reader.read(np.array([position]))[0]
    read, expected = changed_bit(data, byte, damaged.mask)
    places.add(
        "fast-commit-checksum", damaged.tid, int(position), byte=byte, read=read,
        expected=expected, meaning=MEANING,
    )  # fmt: skip
