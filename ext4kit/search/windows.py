"""What finds matches in a stream that is given piece by piece: no more than a window is kept."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Protocol

from ext4kit.search.engine import Engine
from ext4kit.search.hits import HitBytes, StreamMatch

WINDOW = 1 << 20  # bytes that are searched at once
MOST_FOUND = 100_000  # in one stream
_MOST_TAG = 64 << 10  # bytes
_TAG = re.compile(rb"<([^>]*)>|&(#?[0-9A-Za-z]{1,8});")
_ENTITIES = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
_LINES = frozenset((b"p", b"h", b"br", b"cr", b"line-break", b"si", b"c", b"row"))


class StreamScanner(Protocol):
    """What finds matches in one stream."""

    is_cut: bool  # whether there were more matches than are listed

    def feed(self, data: bytes) -> None:
        """The next bytes."""

    def finish(self) -> list[StreamMatch]:
        """All matches, after the last byte."""


class WindowScanner:
    """The matches of patterns.

    Args:
        engine: finds them in a window.
        context: bytes that are kept on each side of a match.
    """

    def __init__(self, engine: Engine, context: int) -> None:
        self._engine, self._context = engine, context
        self._after = engine.reach + context
        self._kept, self._base, self._from = bytearray(), 0, 0
        self._ends: dict[int, int] = {}
        self._found: list[StreamMatch] = []
        self.is_cut = False

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        self._kept += data
        while len(self._kept) - self._from >= WINDOW + self._after:
            self._search(WINDOW)

    def finish(self) -> list[StreamMatch]:
        """All matches."""
        if self._from < len(self._kept):
            self._search(len(self._kept) - self._from)
        return self._found

    def _search(self, size: int) -> None:
        """Search `size` bytes, and go on to those that follow."""
        start = self._from
        matches = self._engine.matches(bytes(self._kept[start : start + size + self._after]))
        self.is_cut |= matches.is_cut
        for row, low, high in zip(*(column.tolist() for column in matches[:3]), strict=True):
            offset, end = self._base + start + low, self._base + start + high
            if low >= size or offset < self._ends.get(row, 0):
                continue
            self._ends[row] = end
            if not self._is_wanted(offset, end):
                continue
            if len(self._found) == MOST_FOUND:
                self.is_cut = True
                break
            self._found.append(
                StreamMatch(row, offset, end - offset, self._span(start + low, high - low))
            )
        gone = max(start + size - self._context, 0)
        del self._kept[:gone]
        self._base, self._from = self._base + gone, start + size - gone

    def _span(self, at: int, length: int) -> HitBytes:
        kept, end = self._kept, at + length
        before = kept[max(at - self._context, 0) : at]
        return HitBytes(bytes(before), bytes(kept[at:end]), bytes(kept[end : end + self._context]))

    def _is_wanted(self, start: int, end: int) -> bool:  # noqa: ARG002 -- for subclasses
        return True


class XmlTextScanner(WindowScanner):
    """The matches in the text of XML that its bytes do not have: a tag or an entity is in them.

    Tags are removed, entities replaced by what they stand for. Tags that end a paragraph, a line or
    a cell become a line end, tabs and spaces of OpenDocument and Office Open XML what they show.
    """

    def __init__(self, engine: Engine, context: int) -> None:
        super().__init__(engine, context)
        self._rest, self._length = b"", 0
        self._joints: list[int] = []  # bytes of the text at which something was replaced

    def feed(self, data: bytes) -> None:
        """The next bytes of the XML."""
        data = self._rest + data
        end = max(data.rfind(b"<"), data.rfind(b"&"))
        is_open = end >= 0 and not _TAG.match(data, end) and len(data) - end < _MOST_TAG
        self._rest = data[end:] if is_open else b""
        self._feed_text(data[:end] if is_open else data)

    def finish(self) -> list[StreamMatch]:
        """All matches."""
        self._feed_text(self._rest)
        return super().finish()

    def _feed_text(self, data: bytes) -> None:
        parts, at = [], 0
        for match in _TAG.finditer(data):
            parts.append(data[at : match.start()])
            self._length += match.start() - at
            self._joints.append(self._length)
            shown = _shown(match)
            parts.append(shown)
            self._length += len(shown)
            self._joints.append(self._length)
            at = match.end()
        parts.append(data[at:])
        self._length += len(data) - at
        super().feed(b"".join(parts))

    def _search(self, size: int) -> None:
        super()._search(size)
        del self._joints[: bisect_right(self._joints, self._base)]

    def _is_wanted(self, start: int, end: int) -> bool:
        row = bisect_right(self._joints, start)
        return row < len(self._joints) and self._joints[row] < end


def _shown(match: re.Match[bytes]) -> bytes:
    """What a tag or an entity stands for."""
    tag, entity = match.groups()
    if entity is not None:
        return _entity(entity)
    words = tag.strip(b"/").split(maxsplit=1)
    prefix, _, name = (words[0] if words else b"").rpartition(b":")
    if name in _LINES:
        return b"\n"
    if name == b"tab":
        return b"\t"
    return b" " if (prefix, name) == (b"text", b"s") else b""


def _entity(name: bytes) -> bytes:
    if name[:1] != b"#":
        return _ENTITIES.get(name, b"")
    try:
        code = int(name[2:], 16) if name[1:2] in b"xX" else int(name[1:])
        return chr(code).encode()
    except (ValueError, OverflowError):
        return b""
