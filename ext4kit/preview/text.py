"""Previews of text, from any byte on: a file of any size is read only where it is shown."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.filetypes.identify import text_encoding
from ext4kit.preview.folding import folded
from ext4kit.preview.model import Line, LineList, Preview, Role, Span
from ext4kit.preview.parts import ContentPart, NodeContent, PartState

_PIECE = 16 << 10  # bytes that are read at once
_LEAST_WIDTH = 8  # cells for the text
_MARKS: dict[PartState, Role] = {
    PartState.HOLE: "hole",
    PartState.UNWRITTEN: "hole",
    PartState.LOST: "lost",
}


@dataclass(frozen=True, slots=True)
class Encoding:
    """How bytes become text.

    Attributes:
        name: as it is shown.
        codec: of Python, without a byte order mark.
        errors: how bytes that are no text are decoded, so that they can be encoded again.
        unit: bytes of the smallest character.
        mark: bytes of the byte order mark at the start of the file.
    """

    name: str
    codec: str
    errors: str = "surrogateescape"
    unit: int = 1
    mark: int = 0

    def decoder(self) -> codecs.IncrementalDecoder:
        """A decoder from a character on."""
        return codecs.getincrementaldecoder(self.codec)(self.errors)

    def size(self, text: str) -> int:
        """Bytes of a decoded text."""
        return len(text.encode(self.codec, self.errors))

    @property
    def line_end(self) -> bytes:
        """Bytes of a line end."""
        return "\n".encode(self.codec)


_WIDE = {"utf-16": ("utf-16", 2), "utf-32": ("utf-32", 4)}
_NAMES = {"ascii": "ASCII", "utf-8": "UTF-8", "utf-8-sig": "UTF-8", "latin-1": "Latin-1",
          "cp1252": "Windows-1252"}  # fmt: skip


def encoding_of(head: bytes) -> Encoding | None:
    """The encoding of a text by its first bytes; None of other content."""
    found = text_encoding(head)
    if not found:
        return None
    if found in _WIDE:
        base, unit = _WIDE[found]
        is_little = head[:1] == b"\xff"
        codec = f"{base}-{'le' if is_little else 'be'}"
        return Encoding(f"{codec.upper()}, with a mark", codec, "replace", unit, unit)
    if found.startswith("utf-16"):
        return Encoding(found.upper(), found, "replace", 2)
    codec = found if found in ("latin-1", "cp1252") else "utf-8"
    return Encoding(_NAMES[found], codec, mark=3 if found == "utf-8-sig" else 0)


def text_preview(
    held: NodeContent, offset: int, most_lines: int, width: int, line: int | None = None
) -> Preview:
    """The lines of a text from a byte on.

    A line longer than the width takes several rows; only its first one has its number.

    Args:
        held: the content.
        offset: first byte; moved to the start of its character.
        most_lines: number of rows.
        width: cells in a row, with the line number.
        line: number of the line with that byte, from 1; None if it is unknown. The rows then have
            the bytes at which they start.
    """
    encoding = encoding_of(held.head()) or Encoding("bytes", "utf-8")
    start = _character_start(held, encoding, offset)
    rows = _TextRows(held, encoding, LineList(most_lines), width, 1 if start == 0 else line)
    rows.fill(start)
    note = "line ends are CR LF" if rows.has_returns else ""
    return Preview(
        "text", f"text, {encoding.name}", tuple(rows.shown.lines), rows.at < held.size, note,
        start, rows.at if rows.at < held.size else None, rows.line,
    )  # fmt: skip


def lines_of_bytes(data: bytes, most_lines: int, width: int) -> Iterator[Line]:
    """The first lines of a text that is at hand; none of other bytes."""
    encoding = encoding_of(data)
    if encoding is None:
        return
    text = data[encoding.mark :].decode(encoding.codec, "replace")
    rows = (row for one in text.splitlines() for row, _ in folded(one, max(width, _LEAST_WIDTH)))
    for row, _ in zip(rows, range(most_lines), strict=False):
        yield Line(tuple(row))


def _character_start(held: NodeContent, encoding: Encoding, offset: int) -> int:
    """The start of the character that has a byte."""
    offset = min(max(offset, 0), held.size)
    if offset <= encoding.mark:
        return 0 if offset < encoding.mark else offset
    if encoding.unit > 1:
        return offset - offset % encoding.unit
    if encoding.codec != "utf-8":
        return offset
    before = held.read(max(offset - 3, 0), min(offset, 3) + 1)
    for back in range(min(offset, 3) + 1):
        byte = before[-1 - back : len(before) - back]
        if byte and byte[0] & 0xC0 != 0x80:
            return offset - back if byte[0] >= 0xC0 else offset
    return offset


class _TextRows:
    """Fills rows with the text from a byte on.

    Attributes:
        at: first byte that is not shown.
        line: number of the line with that byte; None if unknown.
        has_returns: whether a line ended with CR LF.
    """

    def __init__(
        self, held: NodeContent, encoding: Encoding, shown: LineList, width: int, line: int | None
    ) -> None:
        self._held, self._encoding, self.shown = held, encoding, shown
        is_counted = line is not None and not held.lost_bytes()
        largest = (line or 0) + shown.most if is_counted else held.size
        self._digits = max(len(f"{largest:,}"), 4)
        self._width = max(width - self._digits - 1, _LEAST_WIDTH)
        self.line, self.at, self.has_returns = line, 0, False
        self._begins_line = True
        self._text = ""  # decoded, from `at` on

    def fill(self, start: int) -> None:
        """Add rows until all are full or the content ends."""
        self.at = start
        unit = self._encoding.unit
        if start > self._encoding.mark:
            before = self._held.read(start - unit, unit)
            self._begins_line = before == self._encoding.line_end
        elif start == 0:
            self.at = self._encoding.mark
        decoder, position = self._encoding.decoder(), self.at
        while position < self._held.size and not self.shown.is_cut:
            for part in self._held.parts(position, position + _PIECE):
                position = part.end
                if part.state in _MARKS:
                    self._take(decoder.decode(b"", True), True)
                    decoder.reset()
                    self._mark(part)
                else:
                    self._take(decoder.decode(bytes(part.data)), False)
                if self.shown.is_cut:
                    return
        self._take(decoder.decode(b"", True), True)
        self.at = min(self.at, self._held.size)  # the last character may be cut

    def _take(self, text: str, is_end: bool) -> None:
        """Add text; the rest of a line waits for its end, if that has room."""
        self._text += text
        while "\n" in self._text:
            line, _, rest = self._text.partition("\n")
            if not self._add_line(line):
                return
            self._text = rest
        has_no_room = len(self._text) > (self.shown.most + 1) * self._width
        if self._text and (is_end or has_no_room):
            self._add_rows(self._text, "")
            self._text = ""

    def _add_line(self, line: str) -> bool:
        end = "\n"
        if line.endswith("\r"):
            line, end, self.has_returns = line[:-1], "\r\n", True
        if not self._add_rows(line, end):
            return False
        self.line = None if self.line is None else self.line + 1
        self._begins_line = True
        return True

    def _add_rows(self, text: str, end: str) -> bool:
        """Add the rows of a line or a part of one; False if not all have room."""
        done = 0
        for spans, count in folded(text, self._width):
            if not self.shown.add(self._gutter(), *spans):
                return False
            self.at += self._encoding.size(text[done : done + count])
            done += count
            self._begins_line = False
        self.at += self._encoding.size(end)
        return True

    def _gutter(self) -> Span:
        label = "" if not self._begins_line else f"{self.at if self.line is None else self.line:,}"
        return Span(f"{label:>{self._digits}} ", "dim")

    def _mark(self, part: ContentPart) -> None:
        """Add a row for a part without bytes."""
        text = f"[{part_text(part)}]"
        if self.shown.add(Span(" " * (self._digits + 1), "dim"), Span(text, _MARKS[part.state])):
            self.at = part.end
            self._begins_line = False
            self.line = None if part.state is PartState.LOST else self.line  # it may have line ends


def part_text(part: ContentPart) -> str:
    """What a part without bytes is, in words."""
    what = {
        PartState.HOLE: "a hole, which reads as zeros",
        PartState.UNWRITTEN: "allocated and never written, reads as zeros",
        PartState.LOST: f"lost: {part.reason}",
    }[part.state]
    return f"bytes {part.offset:,} to {part.end - 1:,}: {what}"
