"""Texts of similar lines, such as logs and dumps: seams between two texts, and parts of one text.

The kernel may write a large file directly after the first parts of another one. Only the lines then
show where one text ends and the other begins. Lines are compared by their shape, in which each
number and each word is replaced by one character.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.carving.area import CarvingArea
from ext4kit.carving.boundaries import CarvedPieces
from ext4kit.carving.direct_blocks import AssembledFile
from ext4kit.carving.result import EndEvidence
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader

_LOOKED_AT = 16 << 10  # bytes that are read on each side of a position
_FEW_LINES = 6
_MOST_SHAPES = 4  # maximum shapes of the lines of a regular text
_REGULAR = 0.8  # minimum share of its lines with one of these shapes
_ALIKE = 4  # lines at the seam that must have the shapes of the lines before it
_MOST_RESTS = 64  # rests that are tried for one head
_NUMBER, _WORD, _LINE = re.compile(rb"[0-9]+"), re.compile(rb"[A-Za-z_]+"), re.compile(rb"\n")


def _shape(line: bytes) -> bytes:
    return _WORD.sub(b"a", _NUMBER.sub(b"0", line))


def _shapes(lines: list[bytes]) -> frozenset[bytes]:
    """The shapes of most of the lines; empty if the lines differ too much."""
    common = Counter(map(_shape, lines)).most_common(_MOST_SHAPES)
    enough = len(lines) >= _FEW_LINES and sum(n for _, n in common) >= _REGULAR * len(lines)
    return frozenset(shape for shape, _ in common) if enough else frozenset()


def _are_others(lines: list[bytes], shapes: frozenset[bytes]) -> bool:
    """Whether only a few of the lines have one of the shapes of a regular text."""
    alike = sum(_shape(line) in shapes for line in lines)
    return bool(shapes) and len(lines) >= _FEW_LINES and alike < (1 - _REGULAR) * len(lines)


class TextSeams:
    """Compares the lines on both sides of positions.

    Args:
        reader: the blocks.
        area: the positions.
    """

    def __init__(self, reader: BlockReader, area: CarvingArea) -> None:
        self.reader, self.area = reader, area
        self.blocks = max(_LOOKED_AT // reader.block_size, 1)

    def within(self, pieces: CarvedPieces, parts: Int64s) -> Int64s:
        """Positions within pieces of text at which a text ends and one with other lines begins.

        Args:
            pieces: the pieces, in ascending order.
            parts: int64, positions at which parts of large files may begin.
        """
        found = list[int]()
        long = np.flatnonzero(pieces.text & (pieces.count > 2 * self.blocks))
        for row in long.tolist():
            first, end = int(pieces.first[row]), int(pieces.first[row] + pieces.count[row])
            low, high = np.searchsorted(parts, [first + 1, end])
            places = [first, *parts[low:high].tolist(), end]
            tried = {*places[1:-1], *(self._change(*pair) for pair in pairwise(places))}
            found += [at for at in tried if first < at < end and self._differ(first, at, end)]
        return np.unique(np.array(found, np.int64))

    def _change(self, first: int, end: int) -> int:
        """Where lines like the first ones end, if the last lines have other shapes; else 0."""
        one = _shapes(self._lines_after(first, end - first)[1:])
        if not one or one & (_shapes(self._lines_before(end, end - first)[1:-1]) or one):
            return 0
        while end - first > 1:
            middle = (first + end) // 2
            lines = [line for line in self._lines_after(middle, 1)[1:-1] if line]
            alike = sum(_shape(line) in one for line in lines)
            first, end = (middle, end) if 2 * alike >= len(lines) else (first, middle)
        return end

    def _differ(self, first: int, at: int, end: int) -> bool:
        before = self._lines_before(at, at - first)[1:-1]
        after = self._lines_after(at, end - at)[1:]
        return _are_others(before, _shapes(after)) or _are_others(after, _shapes(before))

    def _lines_before(self, at: int, most: int) -> list[bytes]:
        count = min(most, self.blocks)
        return _LINE.split(self._read(at - count, count))

    def _lines_after(self, at: int, most: int) -> list[bytes]:
        return _LINE.split(self._read(at, min(most, self.blocks)).rstrip(b"\0"))

    def _read(self, first: int, count: int) -> bytes:
        try:
            runs = self.area.runs_of(first, count)
            return b"".join(bytes(self.reader.read(*run)) for run in runs)
        except AccessError:
            return b""

    def joined(self, pieces: CarvedPieces) -> tuple[list[AssembledFile], Int64s]:
        """Heads of texts, each joined to a rest that continues with lines of the same shapes.

        Returns:
            The files, and the rows of the pieces that they took.
        """
        text = pieces.text & (pieces.kind == 0)
        heads = np.flatnonzero(text & (pieces.end == EndEvidence.NEXT_START))
        rests = np.flatnonzero(text & (pieces.end != EndEvidence.NEXT_START))
        found, used = list[AssembledFile](), np.zeros(len(pieces), bool)
        for head in heads.tolist():
            rest = self._rest(pieces, head, rests[~used[rests]])
            if rest is not None:
                rows = (head, rest)
                runs = [(int(pieces.first[row]), int(pieces.count[row])) for row in rows]
                found.append(AssembledFile(runs, EndEvidence.TEXT_JOINED))
                used[[head, rest]] = True
        return found, np.flatnonzero(used)

    def _rest(self, pieces: CarvedPieces, head: int, rests: Int64s) -> int | None:
        end = int(pieces.first[head] + pieces.count[head])
        before = self._lines_before(end, int(pieces.count[head]))
        shapes = _shapes(before[1:-1])
        if not shapes:
            return None
        near = rests[np.argsort(np.abs(pieces.first[rests] - end), kind="stable")]
        for row in near[:_MOST_RESTS].tolist():
            after = self._lines_after(int(pieces.first[row]), int(pieces.count[row]))
            lines = [before[-1] + after[0], *after[1:_ALIKE]]
            if all(_shape(line) in shapes for line in lines if line):
                return int(row)
        return None
