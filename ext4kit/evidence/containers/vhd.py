"""VHD: dynamic and differencing disks.

This module is used instead of libvhdi. Behind a sector that the child of a differencing disk has,
that library also reads all sectors up to the next multiple of eight from the child, without an
error. The library reads VHDX (`libyal.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.errors import AccessError, CorruptError
from ext4kit.evidence.containers.pieces import ChunkCache, ChunkedSource
from ext4kit.evidence.lost import merge_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, peek
from ext4kit.parsers.vhd import (
    ABSENT,
    DIFFERENCING,
    FOOTER,
    HEADER,
    MAGIC,
    SECTOR,
    VhdFooter,
    VhdHeader,
    parse_footer,
    parse_header,
)
from ext4kit.problems import Problems

_PIECE = 64 << 10


class Vhd(ChunkedSource):
    """A disk in blocks, each preceded by a bitmap of its sectors.

    Args:
        file: the image file; closed with this source.
        footer: its footer.
        header: its header.
        parent: source of the sectors that the image does not have; closed with this source.
        problems: collects unreadable blocks.

    Raises:
        CorruptError: the table of blocks is truncated.
    """

    def __init__(
        self,
        file: Source,
        footer: VhdFooter,
        header: VhdHeader,
        parent: Source | None,
        problems: Problems,
    ) -> None:
        super().__init__(file.name, footer.size, min(_PIECE, header.block), problems)
        self._file, self._parent = file, parent
        self._block = header.block
        count = -(-footer.size // header.block)
        raw = peek(file, header.table[0], 4 * count)
        if header.table[1] < count or len(raw) < 4 * count:
            raise CorruptError("VHD block allocation table", header.table[0], "is cut off")
        self._bitmap = -(-(header.block // SECTOR) // (8 * SECTOR)) * SECTOR
        self._places = np.frombuffer(raw, ">u4").astype(np.int64) * SECTOR
        self._absent = self._places == ABSENT * SECTOR
        self._mixed = ChunkCache()
        self._zeros = memoryview(bytes(self._piece))

    def close(self) -> None:
        """Close the image and its parent."""
        self._file.close()
        if self._parent is not None:
            self._parent.close()

    def unreadable(self) -> Any:
        """Blocks behind the end of the file, lost ranges of the parent, damage found so far."""
        ends = self._places + self._bitmap + self._block
        cut = np.flatnonzero(~self._absent & (ends > self._file.size))
        found = [super().unreadable(), np.stack([cut, cut + 1], axis=1) * self._block]
        if self._parent is not None:
            found.append(self._left_behind(unreadable_ranges(self._parent)))
        return np.minimum(merge_ranges(np.concatenate(found)), self.size)

    def _left_behind(self, lost: Any) -> Any:
        """Unreadable ranges of the parent in blocks that are read from it, whole or in part."""
        starts = np.arange(len(self._places)) * self._block
        after = np.searchsorted(lost[:, 1], starts, "right")
        first = np.append(lost[:, 0], np.iinfo(np.int64).max)[after]
        hit = starts[self._absent & (first < starts + self._block)]
        return np.stack([hit, hit + self._block], axis=1)

    def _load(self, index: int, wanted: int) -> memoryview:
        offset = index * self._piece
        block, within = divmod(offset, self._block)
        if self._absent[block]:
            return self._behind(offset, wanted)
        place = int(self._places[block])
        if self._parent is None:
            return self._stored(place + self._bitmap + within, wanted)
        return self._mixed.get(index, lambda _: self._both(place, within, offset, wanted))

    def _stored(self, place: int, wanted: int) -> memoryview:
        try:
            return self._file.read(place, wanted)
        except AccessError as error:
            raise AccessError(f"it should be at byte {place:,}: {error}") from error

    def _behind(self, offset: int, wanted: int) -> memoryview:
        """Bytes from the parent, which may be shorter; zeros behind its end."""
        have = 0 if self._parent is None else max(0, min(wanted, self._parent.size - offset))
        if self._parent is None or not have:
            return self._zeros[:wanted]
        data = self._parent.read(offset, have)
        return data if have == wanted else memoryview(bytes(data) + bytes(wanted - have))

    def _both(self, place: int, within: int, offset: int, wanted: int) -> memoryview:
        """A block with each sector from the child if its bit is set, else from the parent."""
        first, count = within // SECTOR, -(-wanted // SECTOR)
        marks = np.frombuffer(self._stored(place + first // 8, -(-count // 8)), np.uint8)
        own = np.unpackbits(marks)[first % 8 :][:count].astype(bool)
        if own.all():
            return self._stored(place + self._bitmap + within, wanted)
        data = bytearray(self._behind(offset, wanted))
        if own.any():
            stored = self._stored(place + self._bitmap + within, wanted)
            runs = Intervals.of_mask(own)
            for start, end in zip(runs.start.tolist(), runs.end.tolist(), strict=True):
                sectors = slice(start * SECTOR, end * SECTOR)
                data[sectors] = stored[sectors]
        return memoryview(data).toreadonly()


def read_footer(file: Source) -> VhdFooter:
    """The footer of a VHD: at its end, or the copy at the start of one that is not fixed.

    Raises:
        CorruptError: there is no valid footer.
        UnsupportedError: the type of disk is not supported.
    """
    found: list[VhdFooter] = []
    failure = CorruptError(FOOTER.name, None, "is missing")
    for offset in (0, max(0, file.size - FOOTER.size)):
        data = peek(file, offset, FOOTER.size)
        try:
            found += [parse_footer(data)] if data[: len(MAGIC)] == MAGIC else []
        except CorruptError as error:
            failure = error
    if not found:
        raise failure
    return next((each for each in found if each.is_sound), found[0])


def read_header(file: Source, footer: VhdFooter) -> VhdHeader:
    """The header of a VHD that is not fixed.

    Raises:
        CorruptError: the header is damaged.
    """
    data = peek(file, footer.header, HEADER.size)
    if len(data) < HEADER.size:
        raise CorruptError(HEADER.name, footer.header, "the file ends before it")
    return parse_header(data, footer.header)


def parent_names(file: Source, footer: VhdFooter, header: VhdHeader) -> tuple[str, ...]:
    """Possible names of the parent, the most likely first; empty without a parent."""
    if footer.kind != DIFFERENCING:
        return ()
    located = [
        peek(file, *place).decode("utf-16-le", "replace").rstrip("\0") for place in header.locators
    ]
    return tuple(dict.fromkeys(name for name in (*located, header.name) if name)) or ("",)
