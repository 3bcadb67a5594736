"""Features of unallocated blocks for carving: where data ends in zeros and where files start.

Only a few cache lines of each block are read. A block is read completely only if it ends in zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, UInt8s, UInt16s
from ext4kit.filetypes.signatures import match_signatures
from ext4kit.scan import BlockBatch, Scanner

_SAMPLE = 64  # bytes sampled at the start, in the middle and at the end of a block to detect text
_FEW_ZEROS = 3  # in three samples; in compressed data one byte in 256 is zero
_WHOLE_AT_ONCE = 256  # blocks read completely at a time, so that they stay in the cache


def _control_characters() -> Bools:
    table = np.zeros(256, bool)
    table[1:32] = True
    table[[7, 8, 9, 10, 11, 12, 13, 27]] = False
    table[127] = True
    return table


_UNLIKE_TEXT = _control_characters()  # control characters; 0 is tested separately


@dataclass(frozen=True, slots=True)
class BlockFeatures:
    """Features of the unallocated blocks of a part of the disk.

    A block is an event if it ends in zeros, starts with a signature or starts a run. It is also an
    event if only one of it and the previous block is text.

    Attributes:
        start: int64 (r,), first blocks of the runs of blocks that are not all zero, ascending.
        length: int64 (r,), lengths in blocks.
        block: int64 (k,), the events, ascending.
        tail: uint16 (k,), zero bytes at the end of the block.
        kind: uint8 (k,), index in `SIGNATURE_NAMES` of the signature at its start.
        text: bool (k,), True where the block looks like text.
        dense: bool (k,), True where the block is not text and has almost no zeros before the zero
            bytes at its end.
    """

    start: Int64s
    length: Int64s
    block: Int64s
    tail: UInt16s
    kind: UInt8s
    text: Bools
    dense: Bools

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The features of several batches as one table, ascending; empty for none.

        A run that continues in the next batch is joined, and the first block of a batch is not an
        event merely because a batch starts there. The result therefore does not depend on how the
        blocks were divided into batches.
        """
        parts = [part for part in parts if len(part.block)] or [cls._none()]
        names = [field.name for field in fields(cls)]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        sizes = np.array([len(part.block) for part in parts[:-1]], np.int64)
        first = np.cumsum(sizes)  # first row of each further batch
        goes_on = np.array([part.start[-1] + part.length[-1] for part in parts[:-1]], np.int64)
        event = {name: columns[name] for name in _OF_EVENTS}
        seam = first[event["block"][first] == goes_on]
        seam = seam[(event["tail"][seam] == 0) & (event["kind"][seam] == 0)]
        seam = seam[event["text"][seam] == event["text"][seam - 1]]
        kept = np.ones(len(event["block"]), bool)
        kept[seam] = False
        runs = Intervals.union(columns["start"], columns["length"])
        return cls(runs.start, runs.length, *(event[name][kept] for name in _OF_EVENTS))

    def between(self, first: int, end: int) -> Self:
        """The features of the blocks from `first` up to `end`; longer runs are not clipped."""
        low, high = np.searchsorted(self.block, [first, end])
        index = slice(low, high)
        runs = slice(
            int(np.searchsorted(self.start + self.length, first, side="right")),
            int(np.searchsorted(self.start, end)),
        )
        columns = {name: getattr(self, name)[index] for name in _OF_EVENTS}
        return type(self)(self.start[runs], self.length[runs], **columns)

    def without(self, blocks: Int64s) -> Self:
        """These features as they would be if some blocks (ascending) were all zero."""
        runs = Intervals(self.start, self.length).subtract(Intervals.of_numbers(blocks))
        kept = ~np.isin(self.block, blocks)
        columns = {name: getattr(self, name)[kept] for name in _OF_EVENTS}
        return type(self)(runs.start, runs.length, **columns)

    @classmethod
    def _none(cls) -> Self:
        empty = np.zeros(0, np.int64)
        tail, kind, flag = empty.astype(np.uint16), empty.astype(np.uint8), empty.astype(bool)
        return cls(empty, empty, empty, tail, kind, flag, flag)


_OF_EVENTS = ("block", "tail", "kind", "text", "dense")


def _features_of(batch: BlockBatch) -> BlockFeatures | None:
    """Features of one batch; None if its blocks are in the journal or all zero."""
    if batch.in_log or not len(batch):
        return None
    tail = zero_tails(batch.data)
    filled = np.flatnonzero(tail < batch.data.shape[1])
    if not len(filled):
        return None
    blocks, data = batch.blocks, batch.data
    if len(filled) < len(tail):
        blocks, tail = blocks[filled], tail[filled]
    found = match_signatures(data)
    kind = found if len(filled) == len(data) else found[filled]
    size = data.shape[1]
    odd, zeros = np.zeros(len(filled), bool), np.zeros(len(filled), np.int64)
    for at in (0, size // 2, size - _SAMPLE):
        sample = data[:, at : at + _SAMPLE]
        sample = sample if len(filled) == len(data) else sample[filled]
        odd |= _UNLIKE_TEXT[sample].any(axis=1)
        in_tail = np.clip(at + _SAMPLE - (size - tail), 0, _SAMPLE)
        zeros += (sample == 0).sum(axis=1) - in_tail
    text = ~odd & (zeros == 0)  # no control characters, and no zeros before the tail
    dense = ~text & (zeros <= _FEW_ZEROS)
    runs = Intervals.of_numbers(blocks)
    event = (tail > 0) | (kind > 0) | (np.diff(blocks, prepend=-2) != 1)
    event[1:] |= text[1:] != text[:-1]
    return BlockFeatures(
        runs.start,
        runs.length,
        blocks[event],
        tail[event].astype(np.uint16),
        kind[event],
        text[event],
        dense[event],
    )


def zero_tails(data: Bytes2D) -> Int64s:
    """int64 (n,): zero bytes at the end of each block; the block size for a block of zeros."""
    size, tail = data.shape[1], np.zeros(len(data), np.int64)
    rows = np.flatnonzero(data[:, -1] == 0)
    for at in range(0, len(rows), _WHOLE_AT_ONCE):
        some = data[rows[at : at + _WHOLE_AT_ONCE]]
        words, every = some.view(np.uint64) != 0, np.arange(len(some))
        last = words.shape[1] - 1 - np.argmax(words[:, ::-1], axis=1)
        rest = some.reshape(len(some), -1, 8)[every, last] != 0
        zeros = size - (last + 1) * 8 + np.argmax(rest[:, ::-1], axis=1)
        tail[rows[at : at + _WHOLE_AT_ONCE]] = np.where(words[every, last], zeros, size)
    return tail


feature_scanner = Scanner("features", _features_of)
