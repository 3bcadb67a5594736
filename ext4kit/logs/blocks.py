"""Blocks without a file that hold log lines, and the contents that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bytes2D, Codes, Int64s, Rows
from ext4kit.journal import BlockHistory, Log
from ext4kit.logs.kinds import LINE
from ext4kit.parsers import journald, utmp
from ext4kit.scan import BlockBatch, Scanner

TEXT, TEXT_WITH_LINES, LOGINS, JOURNAL = 1, 2, 4, 8  # bits of `LogBlocks.holds`
BYTES_AT_ONCE = 8 << 20
_SAMPLE = 128  # bytes at the start of a block; of a text they are text
_FEWEST = 16  # of them that are no zeros
_JOURNAL_GAP = 2048  # blocks between entries of one journal: its hash tables, and large fields
_FIELDS_BEFORE = 64  # blocks
_IS_CONTROL = np.zeros(256, bool)
_IS_CONTROL[1:9] = _IS_CONTROL[14:27] = _IS_CONTROL[28:32] = _IS_CONTROL[127] = True


@dataclass(frozen=True, slots=True)
class LogBlocks(Table):
    """Blocks that seem to hold a part of a log.

    Attributes:
        block: file system block, or position in the journal.
        holds: bits.
        in_log: 1 for a position in the journal.
    """

    block: Int64s
    holds: Codes
    in_log: Codes


def _look(batch: BlockBatch) -> LogBlocks:
    holds = np.zeros(len(batch), np.int8)
    if len(batch):
        texts = _texts(batch.data)
        holds[texts] |= TEXT
        holds[_with_lines(batch.data, texts)] |= TEXT_WITH_LINES
        holds[_with_logins(batch.data)] |= LOGINS
        words = np.ascontiguousarray(batch.data).view("<u8")
        holds[journald.have_objects(words)] |= JOURNAL
    rows = np.flatnonzero(holds)
    in_log = np.full(len(rows), batch.in_log, np.int8)
    return LogBlocks(batch.blocks[rows].astype(np.int64), holds[rows], in_log)


LOG_BLOCKS = Scanner("log blocks", _look)


def _texts(data: Bytes2D) -> Rows:
    """Rows that begin as a text does."""
    sample = data[:, :_SAMPLE]
    filled = (sample != 0).sum(axis=1)
    controls = _IS_CONTROL[sample].sum(axis=1)
    holes = (sample[:, 1:] != 0) & (sample[:, :-1] == 0)  # a text ends with its first zero
    return np.flatnonzero((filled >= _FEWEST) & (controls <= 1) & ~holes.any(axis=1))


def _with_lines(data: Bytes2D, texts: Rows) -> Rows:
    """Those of the texts in which a log line starts."""
    size = data.shape[1] + 1
    apart = np.full((len(texts), size), ord("\n"), np.uint8)  # a block may begin with a line
    apart[:, 1:] = data[texts]
    starts = np.array([found.start() for found in LINE.finditer(apart.tobytes())], np.int64)
    rows: Rows = texts[np.unique(starts // size)]
    return rows


def _with_logins(data: Bytes2D) -> Rows:
    count = data.shape[1] // utmp.STEP - utmp.UTMP.size // utmp.STEP + 1
    found = np.zeros(len(data), bool)
    for place in range(max(count, 0)):
        start = place * utmp.STEP
        found |= utmp.are_records(data[:, start : start + utmp.UTMP.size])
    return np.flatnonzero(found)


def contents(found: LogBlocks, kind: int, within: Intervals) -> Iterator[tuple[int, int]]:
    """(first block, blocks) of runs that hold logs of a kind.

    Args:
        found: of all blocks, ascending.
        kind: TEXT_WITH_LINES, LOGINS or JOURNAL.
        within: runs of blocks that no file has.
    """
    if kind == TEXT_WITH_LINES:
        holds = (found.holds & (TEXT | TEXT_WITH_LINES)) > 0
        marked = found.block[(found.holds & TEXT_WITH_LINES) > 0]
        runs = Intervals.of_numbers(found.block[holds]).intersect(within)
    else:
        marked = found.block[(found.holds & kind) > 0]
        # A record may begin in the block before; fields of an entry mostly lie before it.
        before, after = (_FIELDS_BEFORE, _JOURNAL_GAP) if kind == JOURNAL else (1, 1)
        start = np.maximum(marked - before, 0)
        runs = Intervals.union(start, marked + after + 1 - start).intersect(within)
    low = np.searchsorted(marked, runs.start)
    for row in np.flatnonzero(np.searchsorted(marked, runs.end) > low).tolist():
        yield int(runs.start[row]), int(runs.length[row])


class TaggedCopies:
    """The journal copies of blocks that a descriptor names, as a source of blocks to scan.

    Args:
        log: the journal.
        copies: the copies that count.
    """

    def __init__(self, log: Log, copies: BlockHistory) -> None:
        self._log = log
        self._positions = np.unique(log.tags.position[copies.tag_rows])

    @property
    def bytes(self) -> int:
        """Size of all copies."""
        return len(self._positions) * self._log.reader.blocks.block_size

    def batches(self) -> Iterator[BlockBatch]:
        """The copies by position in the journal."""
        most = max(BYTES_AT_ONCE // self._log.reader.blocks.block_size, 1)
        for at in range(0, len(self._positions), most):
            some = self._positions[at : at + most]
            yield BlockBatch(some, self._log.reader.read(some), in_log=True)
