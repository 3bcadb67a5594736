"""Lines of text logs."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from ext4kit.errors import AccessError
from ext4kit.logs.kinds import BY_NAME, KINDS, LINE, MOST_LINE, kind_of
from ext4kit.logs.result import NO_TIME, FoundLines
from ext4kit.logs.sources import LogSource
from ext4kit.logs.stamps import Clock, TimeGround

HEAD = 24  # bytes that a torn line has in common with the whole one, at least
_CODES = {kind: code for code, kind in enumerate(KINDS)}


def find(source: LogSource, row: int, clock: Clock) -> FoundLines:
    """The lines of a text.

    Args:
        source: the text.
        row: of the source.
        clock: gives the times.
    """
    parts = [np.zeros((0, 8), np.int64)]
    before, ground = NO_TIME, TimeGround.NONE
    for start, data in _whole_lines(source):
        rows = []
        for found in LINE.finditer(data):
            assert found.lastgroup is not None
            form, line, end = BY_NAME[found.lastgroup], found[0], found.end()
            head = found[found.lastgroup]
            stamp = form.stamp(head)
            if stamp is not None:
                before, ground = clock.moment(stamp)
            kind = kind_of(form, line[len(head) :] if form.rules else b"")
            rows.append((
                hash(line), hash(line[:HEAD]) if len(line) >= HEAD else 0, start + found.start(),
                len(line), _CODES[kind], before, _ground(stamp is not None, before, ground),
                data[end : end + 1] != b"\n",
            ))  # fmt: skip
        parts.append(np.array(rows, np.int64).reshape(-1, 8))
    columns = np.concatenate(parts).T
    key, first, offset, length, kind, time, grounds, torn = columns
    codes = (each.astype(np.int8) for each in (grounds, torn))
    place = np.full(len(key), row, np.intp)
    return FoundLines(key, first, place, offset, length, kind.astype(np.int8), time, *codes)


def _ground(is_own: bool, time: int, ground: TimeGround) -> TimeGround:
    if is_own:
        return ground
    return TimeGround.NONE if time == NO_TIME else TimeGround.BEFORE


def texts(source: LogSource, offsets: list[int], lengths: list[int]) -> list[bytes]:
    """The lines at these places; b"" for what cannot be read any more."""
    if source.packing is None:
        stream = source.content.open()
        return [_read(stream, at, size) for at, size in zip(offsets, lengths, strict=True)]
    found, wanted = dict.fromkeys(offsets, b""), sorted(zip(offsets, lengths, strict=True))
    for start, data in _whole_lines(source):
        first, end = (bisect_left(wanted, (at,)) for at in (start, start + len(data)))
        found |= {at: data[at - start : at - start + size] for at, size in wanted[first:end]}
    return [found[at] for at in offsets]


def line_keys(source: LogSource) -> Iterator[bytes]:
    """All lines of a text, also those of no known form, without their ends."""
    for _, data in _whole_lines(source):
        yield from data.split(b"\n")


def _read(stream: io.BufferedReader, offset: int, length: int) -> bytes:
    try:
        stream.seek(offset)
        return stream.read(length)
    except AccessError:
        return b""


def _whole_lines(source: LogSource) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of pieces that end with a line, or before missing bytes."""
    start, held = 0, b""
    for offset, piece in source.pieces():
        if held and start + len(held) != offset:
            yield start, held
            held = b""
        start, held = (start, held + piece) if held else (offset, piece)
        end = held.rfind(b"\n") + 1
        if not end and len(held) > 2 * MOST_LINE:
            end = len(held)
        if end:
            yield start, held[:end]
            start, held = start + end, held[end:]
    if held:
        yield start, held
