"""QCOW2 images with their backing files.

This module is used instead of libqcow. That library takes bit 0 of a compressed cluster's offset
for the zero flag. It returns every other compressed cluster of a version 3 image as zeros,
without an error.
"""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Int64s, UInt64s
from ext4kit.errors import AccessError, CorruptError, Ext4kitError, UnsupportedError
from ext4kit.evidence.beside import find_beside
from ext4kit.evidence.containers.extras import extra
from ext4kit.evidence.containers.pieces import ChunkCache, LayeredSource
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.lost import merge_ranges, unreadable_ranges
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.source import Source, peek
from ext4kit.parsers.qcow2 import (
    COMPRESSED,
    OFFSET,
    SUBCLUSTERS,
    ZERO,
    Qcow2Header,
    compressed_place,
    parse_header,
)
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from ext4kit.evidence.openers import OpenRequest

_TABLES_BYTES = 16 << 20
_MOST_FIRST_LEVEL = 32 << 20  # bytes, QEMU's limit
_LOST = -1
_DEFLATE_WINDOW = -12  # raw deflate, a window of 4 KiB


class Qcow2(LayeredSource):
    """A QCOW2 image, read cluster by cluster.

    Args:
        path: path of the image.
        file: its bytes; closed with this source.
        header: its header.
        backing: source of the clusters that the image does not have; closed with this source.
        problems: collects unreadable clusters.

    Raises:
        CorruptError: the first-level table is larger than the format allows.
    """

    def __init__(
        self,
        path: Path,
        file: Source,
        header: Qcow2Header,
        backing: Source | None,
        problems: Problems,
    ) -> None:
        super().__init__(str(path), header.size, 1 << header.cluster_bits, problems, file, backing)
        self._header = header
        self._tables = ChunkCache(_TABLES_BYTES)
        self._unpacked = ChunkCache()
        # bytes of the disk that one second-level table covers
        self._reach = self._piece // header.entry_size * self._piece
        self._places = self._open_tables()
        self._listed: tuple[int, Int64s] | None = None  # (ranges lost below, ranges)

    def _open_tables(self) -> Int64s:
        """Byte offset of each second-level table; 0 for none, `_LOST` where it cannot be read.

        Raises:
            CorruptError: the disk needs a larger first-level table than QEMU allows.
        """
        offset, entries = self._header.first_level
        needed = -(-self.size // self._reach)
        if needed * 8 > _MOST_FIRST_LEVEL:
            text = f"a disk of {self.size:,} bytes needs more than QEMU's {_MOST_FIRST_LEVEL:,}"
            raise CorruptError("QCOW2 first-level table", offset, text)
        raw = peek(self._file, offset, 8 * min(entries, needed))
        found = np.frombuffer(raw, ">u8", len(raw) // 8) & np.uint64(OFFSET)
        places = np.full(needed, _LOST)
        places[: len(found)] = found.astype(np.int64)
        self._drop(places, places == _LOST, "their part of its first-level table is not there")
        is_behind = places > self._file.size - self._piece
        self._drop(places, is_behind, "their second-level table is past the end of the file")
        _, first = np.unique(places, return_index=True)
        is_again = places > 0
        is_again[first] = False
        self._drop(places, is_again, "their second-level table is that of another range")
        return places

    def _drop(self, places: Int64s, is_lost: Bools, why: str) -> None:
        """Mark tables as lost, and report the ranges of the disk that they cover."""
        places[is_lost] = _LOST
        runs = Intervals.of_mask(is_lost)
        for start, end in zip(runs.start.tolist(), runs.end.tolist(), strict=True):
            self._lose(start * self._reach, min(end * self._reach, self.size), why)

    def _second_level(self, index: int) -> memoryview:
        """A second-level table by its index in the first level."""
        place = int(self._places[index])
        if place == _LOST:
            raise AccessError("its second-level table cannot be read")
        return self._stored(place, self._piece) if place else memoryview(b"")

    def _entry(self, cluster: int) -> bytes:
        """The entry of a cluster; empty if there is no table for it."""
        size = self._header.entry_size
        table, row = divmod(cluster, self._piece // size)
        rows = self._tables.get(table, self._second_level)
        return bytes(rows[row * size : row * size + size])

    def unreadable(self) -> Int64s:
        """Ranges of clusters that would be past the end of the file, and of damage found so far."""
        behind = merge_ranges() if self._below is None else unreadable_ranges(self._below)
        if self._listed is None or self._listed[0] != len(behind):  # not listed, or changed
            wanted = self._places >= 0 if len(behind) else self._places > 0
            found = map(self._lost_in, np.flatnonzero(wanted).tolist())
            self._listed = (len(behind), merge_ranges(*found, most=self.size))
        return merge_ranges(super().unreadable(), self._listed[1])

    def _known_lost(self, index: int) -> Int64s:
        return merge_ranges(self._lost_in(index * self._piece // self._reach), most=self.size)

    def _lost_in(self, table: int) -> Int64s:
        """Unreadable ranges of the clusters in a second-level table."""
        rows = self._piece // self._header.entry_size
        low = table * self._reach
        try:
            raw = self._tables.get(table, self._second_level)
        except AccessError:
            return np.array([[low, low + self._reach]])
        values = np.zeros(rows, np.uint64)  # without a table all entries are empty
        stored = np.frombuffer(raw, ">u8")[:: self._header.entry_size // 8]
        values[: len(stored)] = stored
        starts = low + np.arange(rows) * self._piece
        left = (values == 0) & self._is_lost_below(starts, self._piece)
        lost: Bools = left | self._is_cut(values, starts)
        ranges: Int64s = np.stack([starts, starts + self._piece], axis=1)
        return ranges[lost]

    def _is_cut(self, values: UInt64s, starts: Int64s) -> Bools:
        """True where the cluster of a table entry is past the end of the file."""
        packed = (values & np.uint64(COMPRESSED)) != 0
        places = (values & np.uint64(OFFSET)).astype(np.int64)
        ends = places + np.minimum(self._piece, self.size - starts)
        plain = ~packed & (places > 0) & ((values & np.uint64(ZERO)) == 0)
        offsets, _ = compressed_place(values.astype(np.int64), self._header.cluster_bits)
        is_cut: Bools = plain & (ends > self._file.size) | packed & (offsets >= self._file.size)
        return is_cut

    def _joined(self, offset: int, length: int, first: int, last: int) -> memoryview:
        """A range whose clusters are consecutive in the file, as one view of the file."""
        start = self._place(first)
        if start and not self._header.extended:
            size, place = self._piece, start + offset % self._piece
            in_row = (self._place(first + step) == start + step * size
                      for step in range(1, last - first + 1))  # fmt: skip
            if all(in_row) and place + length <= self._file.size:
                return self._file.read(place, length)
        return super()._joined(offset, length, first, last)

    def _place(self, cluster: int) -> int:
        """Byte offset of an uncompressed cluster in the file; 0 for any other cluster."""
        try:
            value = int.from_bytes(self._entry(cluster)[:8], "big")
        except AccessError:
            return 0
        return 0 if value & (COMPRESSED | ZERO) else value & OFFSET

    def _load(self, index: int, wanted: int) -> memoryview:
        entry = self._entry(index)
        value = int.from_bytes(entry[:8], "big")
        if value & COMPRESSED:
            return self._unpacked.get(index, lambda _: self._inflated(value))
        if self._header.extended and entry:
            return self._by_parts(index, value & OFFSET, int.from_bytes(entry[8:], "big"))
        if value & ZERO:
            return self._zeros
        if value & OFFSET:
            return self._stored(value & OFFSET, wanted)
        return self._behind(index * self._piece, wanted)

    def _by_parts(self, index: int, place: int, marks: int) -> memoryview:
        """A cluster with subclusters, each of which is stored, zero or in the backing file."""
        size = self._piece // SUBCLUSTERS
        start = index * self._piece
        parts = []
        for number in range(SUBCLUSTERS):
            wanted = min(size, self.size - start - number * size)
            if wanted <= 0:
                break
            if marks >> number & 1:
                parts.append(self._stored(place + number * size, wanted))
            elif marks >> (number + SUBCLUSTERS) & 1:
                parts.append(self._zeros[:wanted])
            else:
                parts.append(self._behind(start + number * size, wanted)[:wanted])
        return memoryview(b"".join(parts))

    def _inflated(self, entry: int) -> memoryview:
        offset, length = compressed_place(entry, self._header.cluster_bits)
        length = min(length, self._file.size - offset)
        if length <= 0:
            raise AccessError(f"it should be at byte {offset:,}, where {self.name} has ended")
        data = self._stored(offset, length)
        try:
            if self._header.zstd:
                return memoryview(_zstd(data, self._piece))
            return memoryview(zlib.decompressobj(_DEFLATE_WINDOW).decompress(data, self._piece))
        except (zlib.error, ValueError) as error:
            raise AccessError(f"its compressed data at byte {offset:,} is damaged") from error


def require_zstd() -> None:
    """Check that clusters compressed with Zstandard can be read.

    Raises:
        UnsupportedError: the library is not installed.
    """
    with extra("QCOW2 with Zstandard", "zstandard", "zstd"):
        import zstandard  # noqa: F401


def _zstd(data: memoryview, size: int) -> bytes:
    import zstandard

    try:
        reader = zstandard.ZstdDecompressor().stream_reader(data)
        return bytes(reader.read(size))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def backing_name(file: Source, header: Qcow2Header) -> str:
    """The name of the backing file as stored in the image; empty without one.

    Raises:
        Ext4kitError: the name is beyond the end of the file.
    """
    offset, length = header.backing
    raw = peek(file, offset, length)
    if len(raw) < length:
        raise Ext4kitError("QCOW2: the name of its backing file is cut off")
    return raw.decode("utf-8", "surrogateescape")


def open_container(request: OpenRequest) -> Evidence:
    """A QCOW2 image and its chain of backing files.

    Raises:
        AccessError: a backing file is missing, or cannot be read.
        CorruptError: the image is damaged.
        UnsupportedError: the image has an unsupported feature, or needs an extra.
    """
    path, problems, below = request.path, Problems(), None
    with ExitStack() as opened:
        raw = RawFile(path)
        opened.callback(raw.close)
        header, name = _header_of(path, raw)
        if name:
            below = request.below(find_beside(path, name, "backing file"), problems)
            opened.callback(below.source.close)
        if header.marked_corrupt:
            problems.add(path.name, "QEMU marked this image as corrupt", Severity.WARNING)
        if header.snapshots:
            text = f"has {header.snapshots} internal snapshots; the current state is read"
            problems.add(path.name, text, Severity.NOTE)
        source = Qcow2(path, raw, header, below.source if below else None, problems)
        opened.pop_all()  # from now on, the source closes them
    files = (path, *(below.files if below else ()))
    return Evidence(source, files, "qcow2", problems=problems)


def _header_of(path: Path, raw: RawFile) -> tuple[Qcow2Header, str]:
    """The header and the name of the backing file."""
    try:
        header = parse_header(peek(raw, 0, 4096))
        if header.zstd:
            require_zstd()
        return header, backing_name(raw, header)
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from error
