"""Previews of archives and compressed files: their members, of which nothing is unpacked to disk.

What is read and what is unpacked have limits, whatever sizes the headers state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, cast

from ext4kit.errors import AccessError
from ext4kit.preview.folding import fact_line, spans_of
from ext4kit.preview.model import LineList, Preview, Span
from ext4kit.preview.parts import NodeContent, read_error
from ext4kit.preview.text import lines_of_bytes
from ext4kit.report.times import time_text
from ext4kit.search.archives import TarMember, ZipMember, tar_members, zip_members
from ext4kit.search.packed_streams import (
    COMPRESSED,
    HEAD,
    NotUnpackedError,
    Pieces,
    Reader,
    decompressed,
    packing_of,
    read_fully,
)
from ext4kit.units import NANOSECONDS

MOST_MEMBERS = 200
MOST_READ = 32 << 20  # bytes of the file
MOST_UNPACKED = 16 << 20  # bytes
_MOST_DIRECTORY = 4 << 20  # bytes of the central directory of a zip archive
_TEXT_BYTES = 16 << 10  # unpacked bytes of which the first lines are shown
_TAR_KINDS = {b"5": "directory", b"1": "hard link", b"2": "symlink", b"3": "chardev",
              b"4": "blockdev", b"6": "fifo"}  # fmt: skip


def archive_preview(held: NodeContent, most_lines: int, width: int) -> Preview:
    """The members of an archive, or what a compressed file holds.

    Args:
        held: the content.
        most_lines: number of lines.
        width: cells in a line.
    """
    kind = packing_of(held.head()[:HEAD])
    listing = _Listing(held, LineList(most_lines), width)
    try:
        listing.fill(kind)
    except (NotUnpackedError, AccessError, OSError) as error:
        listing.notes.append(read_error(error))
    if lost := held.lost_bytes():
        listing.notes.append(f"{lost:,} bytes of it are lost and were read as zeros")
    note = "; ".join(listing.notes)
    shown = listing.shown
    return Preview("archive", listing.title, tuple(shown.lines), shown.is_cut, note)


class _Listing:
    """Fills lines with the members of an archive.

    Attributes:
        title: what it is.
        notes: what was not read, and why.
    """

    def __init__(self, held: NodeContent, shown: LineList, width: int) -> None:
        self._held, self.shown, self._width = held, shown, width
        self.title, self.notes = "", list[str]()

    def fill(self, kind: str) -> None:
        """Add the lines of all members."""
        self.title = f"{kind} archive" if kind in ("zip", "tar") else f"compressed with {kind}"
        file = self._held.file(MOST_READ)
        if kind in COMPRESSED:
            self._compressed(kind, cast("Reader", file))
        elif kind == "tar":
            self._tar(cast("Reader", file))
        elif kind == "zip":
            self._zip(cast("BinaryIO", file))
        else:
            raise NotUnpackedError("no archive that can be read")

    def _zip(self, file: BinaryIO) -> None:
        members, problem = zip_members(file, _MOST_DIRECTORY)
        if problem:
            self.notes.append(f"{problem}; read without it")
        self._table(("size", "packed", "method", "changed", "name"), map(_zip_row, members), {0, 1})

    def _tar(self, stream: Reader) -> None:
        rows = (_tar_row(one) for one in self._checked(tar_members(stream)))
        self._table(("size", "type", "changed", "name"), rows, {0})

    def _checked(self, members: Iterator[TarMember]) -> Iterator[TarMember]:
        """The members; the last one of an archive that ends early is told."""
        for one in members:
            yield one
            if self.title == "tar archive" and one.at + one.size > self._held.size:
                self.notes.append("the archive ends before the end of its last member")

    def _table(
        self, headings: tuple[str, ...], rows: Iterator[tuple[str, ...]], right: set[int]
    ) -> None:
        """Add a table of at most `MOST_MEMBERS` rows."""
        found = list[tuple[str, ...]]()
        try:
            found.extend(islice(rows, MOST_MEMBERS + 1))  # keeps the rows before an error
        except (NotUnpackedError, AccessError, OSError) as error:
            self.notes.append(read_error(error))
        if len(found) > MOST_MEMBERS:
            found, self.shown.is_cut = found[:MOST_MEMBERS], True
        columns = zip(headings, *found, strict=True)
        widths = [max(map(len, column)) for column in columns]
        for row in (headings, *found):
            cells = [
                cell.rjust(size) if place in right else cell.ljust(size)
                for place, (cell, size) in enumerate(zip(row[:-1], widths, strict=False))
            ]
            start = "  ".join(cells) + "  "
            is_head = row is headings
            name = [Span(row[-1], "key")] if is_head else spans_of(row[-1])
            if not self.shown.add(Span(start, "key" if is_head else "dim"), *name):
                return

    def _compressed(self, kind: str, stream: Reader) -> None:
        """The size of what is packed, and the first lines of a text; the members of a tar."""
        pieces = Pieces(_limited(decompressed(stream, kind)))
        start = read_fully(pieces, _TEXT_BYTES)
        if packing_of(start[:HEAD]) == "tar":
            self.title = f"tar archive, {self.title}"
            self._tar(_Rest(start, pieces))
            return
        size, reason = len(start), ""
        try:
            while piece := pieces.read(_TEXT_BYTES):
                size += len(piece)
        except (NotUnpackedError, AccessError, OSError) as error:
            reason = read_error(error)
        facts = [
            ("packed", f"{self._held.size:,} bytes"),
            ("unpacked", f"{'at least ' if reason else ''}{size:,} bytes"),
        ]
        if kind == "gzip":
            facts += _gzip_facts(self._held.head())
        self.notes += [reason] if reason else []
        for name, text in facts:
            self.shown.add(*fact_line(name, text).spans)
        lines = list(lines_of_bytes(start, self.shown.most, self._width))
        if lines:
            self.shown.add()
            self.shown.add(Span("first lines", "heading"))
        for line in lines:
            self.shown.add(*line.spans)


class _Rest:
    """Bytes that were read, followed by the rest of their stream."""

    def __init__(self, start: bytes, stream: Reader) -> None:
        self._start, self._stream = start, stream

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        return self._stream.read(size)


def _limited(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces up to `MOST_UNPACKED` bytes.

    Raises:
        NotUnpackedError: there are more.
    """
    left = MOST_UNPACKED
    for piece in pieces:
        if len(piece) > left:
            yield piece[:left]
            raise NotUnpackedError(f"only the first {MOST_UNPACKED:,} bytes were unpacked")
        left -= len(piece)
        yield piece


def _zip_row(one: ZipMember) -> tuple[str, ...]:
    sizes = ("?" if size is None else f"{size:,}" for size in (one.size, one.packed))
    method = one.method_name + ", encrypted" * one.is_encrypted
    changed = "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*one.date)
    return (*sizes, method, changed, one.name)


def _tar_row(one: TarMember) -> tuple[str, ...]:
    changed = "-" if one.mtime is None else time_text(one.mtime * NANOSECONDS)
    return f"{one.size:,}", _TAR_KINDS.get(one.kind, "file"), changed, one.name


def _gzip_facts(head: bytes) -> list[tuple[str, str]]:
    """Name and time of the packed file, as its header states them (RFC 1952, 2.3)."""
    flags, seconds = head[3], int.from_bytes(head[4:8], "little")
    facts = [("changed", time_text(seconds * NANOSECONDS))] if seconds else []
    at = 10
    if flags & 4:
        at += 2 + int.from_bytes(head[at : at + 2], "little")
    if flags & 8:
        name = head[at:].split(b"\0")[0]
        facts.append(("name", name.decode("utf-8", "surrogateescape")))
    return facts
