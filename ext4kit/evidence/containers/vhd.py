"""VHD: dynamic and differencing disks.

This module is used instead of libvhdi. After a sector that is stored in the child of a differencing
disk, that library wrongly takes all sectors up to the next multiple of eight from the child,
without an error. It is used for VHDX only (`libraries.py`).
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, UnsupportedError
from ext4kit.evidence.beside import find_beside
from ext4kit.evidence.containers.pieces import ChunkCache, LayeredSource
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.lost import merge_ranges
from ext4kit.evidence.openers import is_fixed_vhd
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.source import Source, Window, peek
from ext4kit.parsers.vhd import (
    ABSENT,
    DIFFERENCING,
    FOOTER,
    HEADER,
    MAGIC,
    VhdFooter,
    VhdHeader,
    parse_footer,
    parse_header,
)
from ext4kit.problems import Problems, Severity
from ext4kit.units import SECTOR

if TYPE_CHECKING:
    from ext4kit.evidence.openers import OpenRequest

_PIECE = 64 << 10
_MOST_TABLE = 32 << 20  # bytes; the largest VHD, of 2,040 GiB, needs 4 MiB


class Vhd(LayeredSource):
    """A disk in blocks, each preceded by a bitmap of its sectors.

    Args:
        file: the image file; closed with this source.
        footer: its footer.
        header: its header.
        parent: source of the sectors that the image does not have; closed with this source.
        problems: collects unreadable blocks.

    Raises:
        CorruptError: the table of blocks is truncated, or too large for a VHD.
    """

    def __init__(
        self,
        file: Source,
        footer: VhdFooter,
        header: VhdHeader,
        parent: Source | None,
        problems: Problems,
    ) -> None:
        piece = min(_PIECE, header.block)
        super().__init__(file.name, footer.size, piece, problems, file, parent)
        self._block = header.block
        count = -(-footer.size // header.block)
        if 4 * count > _MOST_TABLE:
            text = f"a disk of {footer.size:,} bytes in blocks of {header.block:,}"
            raise CorruptError("VHD block allocation table", header.table[0], text)
        raw = peek(file, header.table[0], 4 * count)
        if header.table[1] < count or len(raw) < 4 * count:
            raise CorruptError("VHD block allocation table", header.table[0], "is cut off")
        self._bitmap = -(-(header.block // SECTOR) // (8 * SECTOR)) * SECTOR
        self._places = np.frombuffer(raw, ">u4").astype(np.int64) * SECTOR
        self._absent = self._places == ABSENT * SECTOR
        self._mixed = ChunkCache()

    def unreadable(self) -> Int64s:
        """Ranges that are past the end of the file, lost in the parent, or known as damaged."""
        starts = np.arange(len(self._places)) * self._block
        behind = starts[self._absent & self._is_lost_below(starts, self._block)]
        lost = np.stack([behind, behind + self._block], axis=1)
        return merge_ranges(super().unreadable(), self._cut, lost, most=self.size)

    @cached_property
    def _cut(self) -> Int64s:
        """Ranges of the blocks that are past the end of the file."""
        is_cut = self._places + self._bitmap + self._block > self._file.size
        runs = Intervals.of_mask(is_cut & ~self._absent)
        return np.stack([runs.start, runs.end], axis=1) * self._block

    def _known_lost(self, _index: int) -> Int64s:
        return self._cut.clip(max=self.size)

    def _load(self, index: int, wanted: int) -> memoryview:
        offset = index * self._piece
        block, within = divmod(offset, self._block)
        if self._absent[block]:
            return self._behind(offset, wanted)
        place = int(self._places[block])
        if self._below is None:
            return self._stored(place + self._bitmap + within, wanted)
        return self._mixed.get(index, lambda _: self._both(place, within, offset, wanted))

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
    """The footer at the end of a VHD, or its copy at the start, which fixed disks do not have.

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


def open_container(request: OpenRequest) -> Evidence:
    """A fixed, dynamic or differencing VHD, the last one with its parent.

    Raises:
        AccessError: the parent is missing, or cannot be read.
        CorruptError: the VHD is damaged.
        UnsupportedError: the type of disk is not supported.
    """
    path, problems, below = request.path, Problems(), None
    with ExitStack() as opened:
        raw = RawFile(path)
        opened.callback(raw.close)
        if is_fixed_vhd(raw):
            opened.pop_all()
            disk = Window(raw, 0, raw.size - FOOTER.size, owns=True)
            return Evidence(disk, raw.paths, "vhd", problems=raw.problems)
        footer = read_footer(raw)
        header = read_header(raw, footer)
        if not (footer.is_sound and header.is_sound):
            problems.add(path.name, "the checksum of its header is wrong", Severity.WARNING)
        if names := parent_names(raw, footer, header):
            below = request.below(_parent(path, names, header.parent), problems)
            opened.callback(below.source.close)
        source = Vhd(raw, footer, header, below.source if below else None, problems)
        opened.pop_all()  # from now on, the source closes them
    return Evidence(source, (path, *(below.files if below else ())), "vhd", problems=problems)


def _parent(path: Path, names: tuple[str, ...], identifier: bytes) -> Path:
    """The file of a VHD's parent.

    Raises:
        AccessError: the parent is missing, or has another identifier.
    """
    failure = AccessError(f"{path}: its parent is missing")
    for name in names:
        try:
            found = find_beside(path, name, "parent")
        except AccessError as error:
            failure = error
            continue
        file = RawFile(found)
        try:
            if read_footer(file).identifier == identifier:
                return found
        except (CorruptError, UnsupportedError):
            pass
        finally:
            file.close()
        failure = AccessError(f"{path}: {found.name} is not the parent that it was made from")
    raise failure
