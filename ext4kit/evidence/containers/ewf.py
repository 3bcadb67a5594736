"""Expert Witness images: E01 and S01 in segments.

This module is used instead of libewf, which returns zeros for a chunk with a wrong checksum,
without an error in its Python binding. That library is used for Ex01 (`libraries.py`).
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.evidence.beside import require_part
from ext4kit.evidence.containers.pieces import CACHE_BYTES, ChunkCache, ChunkedSource
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.lost import merge_ranges
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.source import peek
from ext4kit.parsers.ewf import (
    DIGEST,
    SECTION,
    SEGMENT_HEADER,
    SEGMENT_HEADER_2,
    EwfSection,
    Geometry,
    parse_case,
    parse_errors,
    parse_section,
    parse_table,
    parse_volume,
    segment_number,
)
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from ext4kit.evidence.openers import OpenRequest

_CHECKSUM = 4  # bytes after an uncompressed chunk
_LEAST_CHUNK = 12  # least bytes per chunk in a file: its table entry and the shortest zlib stream
_SLACK = 1 << 10  # bytes; a compressed chunk may grow by at least this
_MOST_SECTIONS = 1 << 16  # of one segment
_MOST_BODY = 64 << 20
_MOST_ERRORS = 1000
_MOST_UNREAD = 1 << 16  # most runs of unread sectors in one list
_SUFFIXES = (4, 5)  # ".E01", ".Ex01"


class Ewf(ChunkedSource):
    """The media in a set of segments, read chunk by chunk.

    Args:
        files: the segments in order; closed with this source.
        geometry: sizes of the media and of a chunk.
        starts: int64, byte offset of each chunk in its segment.
        ends: int64, byte offset of the latest possible end of each chunk.
        packed: bool, True where a chunk is compressed.
        firsts: number of the first chunk in each segment.
        problems: collects unreadable chunks.
        unread: (first byte, end) of ranges that could not be read during the acquisition.
        cut: segments that end before a section which they announce.
    """

    def __init__(
        self,
        files: list[RawFile],
        geometry: Geometry,
        starts: Int64s,
        ends: Int64s,
        packed: Bools,
        firsts: list[int],
        problems: Problems,
        unread: Int64s,
        cut: list[RawFile],
    ) -> None:
        super().__init__(files[0].name, geometry.size, geometry.chunk, problems)
        self.sector_size = geometry.sector
        self._files, self._unread, self._cut = files, unread, cut
        self._starts, self._ends, self._packed = starts, ends, packed
        self._firsts = firsts
        self._unpacked = ChunkCache(max(CACHE_BYTES, 4 * geometry.chunk))
        if len(starts) * geometry.chunk < geometry.size:  # was reported when the segments were read
            self._lost.add(len(starts) * geometry.chunk, geometry.size)

    def close(self) -> None:
        """Close every segment."""
        for file in self._files:
            file.close()

    def unreadable(self) -> Int64s:
        """(first byte, end) of ranges that are missing, were never acquired, or are damaged."""
        return merge_ranges(self._missing, super().unreadable())

    @cached_property
    def _missing(self) -> Int64s:
        """Ranges that no present segment holds, and ranges that were never acquired."""
        sizes = np.array([file.size for file in self._files])
        segment = np.searchsorted(self._firsts, np.arange(len(self._starts)), "right") - 1
        length = np.minimum(self._ends - self._starts, self._most)
        chunks = np.flatnonzero((length <= 0) | (self._starts + length > sizes[segment]))
        cut = np.stack([chunks, chunks + 1], axis=1) * self._piece
        behind = [[len(self._starts) * self._piece, self.size]]
        return merge_ranges(self._unread, cut, behind, most=self.size)

    @property
    def _most(self) -> int:
        """Largest size of a stored chunk in bytes."""
        return 2 * self._piece + _SLACK

    def _load(self, index: int, wanted: int) -> memoryview:
        return self._unpacked.get(index, lambda number: self._chunk(number, wanted))

    def _known_lost(self, _index: int) -> Int64s:
        return self._missing

    def _chunk(self, index: int, wanted: int) -> memoryview:
        if index >= len(self._starts):
            raise AccessError("no segment that was found has it")
        file = self._files[bisect_right(self._firsts, index) - 1]
        start, length = int(self._starts[index]), int(self._ends[index] - self._starts[index])
        most = self._most
        if length <= 0 or start + min(length, most) > file.size:
            raise self._incomplete(
                file, start, file.size, "its place is beyond the end of the file"
            )
        data = file.read(start, min(length, most))
        if self._packed[index]:
            return self._inflated(data, file, start)
        if length < wanted + _CHECKSUM:
            raise self._incomplete(file, start, start + length, "it is too short")
        stored = min(self._piece, length - _CHECKSUM)
        ends = sorted({stored, wanted}, reverse=True)  # the last chunk may be short or padded
        for end in ends:
            if zlib.adler32(data[:end]) == _number(data[end : end + _CHECKSUM]):
                return data[:end]
        raise _damaged(file, start, "its checksum is wrong")

    def _inflated(self, data: memoryview, file: RawFile, start: int) -> memoryview:
        unpacker = zlib.decompressobj()
        try:
            made = unpacker.decompress(data, self._piece)
            unpacker.decompress(unpacker.unconsumed_tail, 1)  # also checks zlib's checksum
        except zlib.error as error:
            raise _damaged(file, start, "its decompression fails") from error
        if not unpacker.eof:
            raise self._incomplete(file, start, start + len(data), "its decompression fails")
        return memoryview(made)

    def _incomplete(self, file: RawFile, start: int, end: int, what: str) -> AccessError:
        """The error for a chunk that lacks its end: a truncated file, or a damaged chunk."""
        if file in self._cut and end >= file.size:
            text = f"{file.name} ends early; its chunk at byte {start:,} is not all there"
            return AccessError(text)
        return _damaged(file, start, what)


def _damaged(file: RawFile, start: int, what: str) -> AccessError:
    return AccessError(f"its chunk at byte {start:,} of {file.name} is damaged: {what}")


def _number(raw: memoryview) -> int:
    return int.from_bytes(raw, "little")


# ----------------------------------------------------------------------------------- segments


def find_segments(path: Path) -> tuple[Path, ...]:
    """The segments of a set by the numbers in their headers, regardless of their suffixes.

    Raises:
        AccessError: `path` is a later segment, a segment is missing before an existing one, or
            the system does not allow access to them.
    """
    try:
        number = _number_in(path)
        found = dict(sorted(_numbered(path)))
    except OSError as error:
        where = error.filename or path
        raise AccessError(f"{where}: cannot be read: {error.strerror or error}") from error
    found[number] = path
    if number != 1:
        first = found.get(1)
        name = first.name if first else "which is missing here"
        raise AccessError(f"{path}: is segment {number} of an EWF image; open the first, {name}")
    for wanted, here in enumerate(sorted(found), 1):
        if wanted != here:
            raise AccessError(
                f"{path}: segment {wanted} is missing, segment {here} ({found[here].name}) is "
                "there; put the missing segments into the same folder"
            )
    return tuple(found[each] for each in sorted(found))


def _numbered(path: Path) -> Iterator[tuple[int, Path]]:
    """(segment number, file) of the files next to `path` that may belong to its set."""
    stem, mark = path.stem, path.suffix[1:2]
    for each in path.parent.iterdir():
        alike = each.stem == stem and len(each.suffix) == len(path.suffix) in _SUFFIXES
        if not alike or each.suffix[1:2].islower() != mark.islower() or each == path:
            continue
        require_part(each, path)
        number = _number_in(each)
        if number:
            yield number, each


def _number_in(path: Path) -> int:
    """Segment number of a file; 0 if it is not a segment."""
    with path.open("rb") as file:
        return segment_number(file.read(SEGMENT_HEADER_2.size))


# ----------------------------------------------------------------------------------- sections


def _sections(file: RawFile, problems: Problems) -> Iterator[EwfSection]:
    """The sections of a segment, up to the first unreadable header."""
    offset = SEGMENT_HEADER.size
    for _ in range(_MOST_SECTIONS):
        try:
            found = parse_section(peek(file, offset, SECTION.size), offset)
        except CorruptError as error:
            problems.add(Path(file.name).name, f"cannot be followed further: {error}")
            return
        yield found
        if found.next <= offset or found.next == file.size:  # the last one names itself or the end
            return
        offset = found.next


class _Reader:
    """Collects the data of the sections of all segments.

    Attributes:
        cut: segments that end before a section which they announce.
        broken: the segment whose sections cannot be followed to its end, "" for none.
        placed: number of chunks listed up to the end of that segment. A table does not number its
            chunks, so the positions of chunks after missing ones are not known.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.geometry: Geometry | None = None
        self.starts: list[Int64s] = []
        self.ends: list[Int64s] = []
        self.packed: list[Bools] = []
        self.chunks = 0
        self.facts: dict[str, str] = {}
        self.hashes: dict[str, str] = {}
        self.unread: list[Int64s] = []
        self.cut: list[RawFile] = []
        self.broken = ""
        self.placed = 0
        self.is_done = False
        self.room = 0  # chunks that the current segment can still list

    def segment(self, file: RawFile) -> None:
        """Read the sections of one segment."""
        self.room = file.size // _LEAST_CHUNK
        sections = list(_sections(file, self.problems))
        borders = np.array([each.offset for each in sections] + [file.size], np.int64)
        for at, section in enumerate(sections):
            if section.kind == "table":
                second = sections[at + 1] if at + 1 < len(sections) else None
                self._table(file, section, second, borders)
            elif reader := getattr(self, f"_{section.kind}", None):
                reader(_body(file, section), section)
        last = sections[-1] if sections else None
        if last is None or last.offset < last.next != file.size:  # names neither itself nor the end
            self._break(file, last.next if last else SEGMENT_HEADER.size)

    def _break(self, file: RawFile, following: int) -> None:
        """Record a segment in which the section at byte `following` and later ones are missing."""
        name = Path(file.name).name
        why = f"the sections of {name} cannot be followed to its end"
        if following + SECTION.size > file.size:
            self.cut.append(file)
            why = f"{name} ends early"
        if not self.broken:
            self.broken, self.placed = why, self.chunks

    def known(self) -> int:
        """Number of the chunks whose position on the disk is known."""
        assert self.geometry is not None
        is_complete = self.chunks * self.geometry.chunk >= self.geometry.size
        return self.placed if self.broken and not is_complete else self.chunks

    def _table(
        self, file: RawFile, section: EwfSection, second: EwfSection | None, borders: Int64s
    ) -> None:
        """Read a table of chunks, or the copy after it if it is damaged."""
        where = Path(file.name).name
        try:
            starts, packed = parse_table(_body(file, section), section.body)
        except CorruptError as error:
            if second is None or second.kind != "table2":
                raise
            self.problems.add(where, f"{error}; its copy is used", Severity.WARNING)
            starts, packed = parse_table(_body(file, second), second.body)
        self.room -= len(starts)
        if self.room < 0:
            text = f"lists more chunks than its {file.size:,} bytes can hold"
            raise CorruptError("EWF table section", section.offset, f"{where} {text}")
        if not len(starts):
            return
        following = np.append(starts[1:], borders[-1])
        limits = borders[np.minimum(np.searchsorted(borders, starts, "right"), len(borders) - 1)]
        ends = np.where(following > starts, np.minimum(following, limits), limits)
        self.starts.append(starts)
        self.ends.append(ends)
        self.packed.append(packed)
        self.chunks += len(starts)

    def _volume(self, body: memoryview, section: EwfSection) -> None:
        self.geometry = self.geometry or parse_volume(body, section.body)

    _disk = _volume

    def _header(self, body: memoryview, _section: EwfSection) -> None:
        self.facts = {**parse_case(body), **self.facts}

    def _header2(self, body: memoryview, _section: EwfSection) -> None:
        self.facts |= parse_case(body)

    def _hash(self, body: memoryview, _section: EwfSection) -> None:
        if len(body) >= 16:
            self.hashes.setdefault("md5", bytes(body[:16]).hex())

    def _digest(self, body: memoryview, _section: EwfSection) -> None:
        if len(body) >= DIGEST.size:
            self.hashes["md5"] = bytes(body[:16]).hex()
            if any(body[16:36]):
                self.hashes["sha1"] = bytes(body[16:36]).hex()

    def _error2(self, body: memoryview, _section: EwfSection) -> None:
        self.unread.append(parse_errors(body)[:_MOST_UNREAD])
        for first, count in self.unread[-1][:_MOST_ERRORS].tolist():
            text = "could not be read when the image was made and are zeros in it"
            where = f"sectors {first:,} to {first + count - 1:,}"
            self.problems.add(f"image, {where}", text, Severity.WARNING)

    def _done(self, _body: memoryview, _section: EwfSection) -> None:
        self.is_done = True


def _body(file: RawFile, section: EwfSection) -> memoryview:
    end = min(section.end, file.size, section.body + _MOST_BODY)
    return file.read(section.body, max(0, end - section.body))


def open_container(request: OpenRequest) -> Evidence:
    """The media in the set of segments that starts with the file `request.path`.

    Raises:
        AccessError: a segment is missing before another one, or cannot be opened.
        CorruptError: there is no geometry, or both a table of chunks and its copy are damaged.
    """
    path = request.path
    paths = find_segments(path)
    problems = Problems()
    files: list[RawFile] = []
    try:
        files.extend(RawFile(each) for each in paths)
        reader = _Reader(problems)
        firsts = []
        for file in files:
            firsts.append(reader.chunks)
            reader.segment(file)
        source = _made(files, reader, firsts)
    except (AccessError, CorruptError) as error:
        for file in files:
            file.close()
        raise AccessError(f"{path}: cannot be read as an EWF image: {error}") from error
    return Evidence(source, paths, "ewf", reader.facts, reader.hashes, problems)


def _made(files: list[RawFile], reader: _Reader, firsts: list[int]) -> Ewf:
    if reader.geometry is None:
        raise CorruptError("EWF image", None, "it does not say how large the media is")
    known, geometry = reader.known(), reader.geometry
    starts = np.concatenate([np.empty(0, np.int64), *reader.starts])[:known]
    ends = np.concatenate([np.empty(0, np.int64), *reader.ends])[:known]
    packed = np.concatenate([np.empty(0, bool), *reader.packed])[:known]
    _tell_missing(files, reader)
    unread = np.concatenate([np.empty((0, 2), np.int64), *reader.unread]).cumsum(axis=1)
    unread = np.minimum(unread * geometry.sector, geometry.size)
    return Ewf(files, geometry, starts, ends, packed, firsts, reader.problems, unread, reader.cut)


def _tell_missing(files: list[RawFile], reader: _Reader) -> None:
    """Report chunks that no table lists or whose position is not known, with the cause."""
    assert reader.geometry is not None
    have, size = reader.known() * reader.geometry.chunk, reader.geometry.size
    if have >= size:
        return
    last = Path(files[-1].name).name
    missing = "no table lists them" if reader.is_done else f"the segments after {last} are missing"
    why = reader.broken or missing
    if reader.chunks > reader.known():
        why += "; where the chunks of later segments belong is therefore not known"
    reader.problems.add(f"image, bytes {have:,} to {size - 1:,}", why)
