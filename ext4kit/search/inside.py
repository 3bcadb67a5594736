"""What packed files hold, searched while it is unpacked: members of members too, with bounds.

Each stream is scanned while what unpacks it reads it, so that nothing is held as a whole but what
must be read from several places: a zip archive in another file and a database are kept in temporary
files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from ext4kit.errors import AccessError
from ext4kit.evidence.temporary import temporary_file
from ext4kit.filesystem.content import Content
from ext4kit.search.archives import tar_parts, zip_parts
from ext4kit.search.database_cells import Cell, UnreadTable, cells, stored
from ext4kit.search.hits import StreamMatch
from ext4kit.search.packed_streams import (
    COMPRESSED,
    HEAD,
    PIECE,
    NotUnpackedError,
    PackedPart,
    Pieces,
    Reader,
    decompressed,
    packing_of,
)
from ext4kit.search.windows import StreamScanner

MOST_DEPTH = 4
MOST_MEMBERS = 100_000  # of one file
MOST_HITS = 200_000  # in one file
MOST_OF_MEMBER = 2 << 30  # bytes
MOST_OF_FILE = 8 << 30  # bytes
MOST_RATIO = 250  # bytes unpacked for each byte of the file
ALWAYS = 256 << 20  # bytes that are unpacked whatever the ratio
_MOST_HOLES = 1 << 30  # bytes of holes that are read
_BATCH = 1 << 20  # bytes of cells that are searched at once
_GAP = bytes(16)
_STEMS = {".tgz": ".tar", ".txz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".tzst": ".tar",
          ".gz": "", ".xz": "", ".bz2": "", ".zst": ""}  # fmt: skip
_Keys = set[tuple[int, int]]


class Refusal(NamedTuple):
    """Something in a file that was not unpacked, or not to its end.

    Attributes:
        inside: where in the file; "" for the file itself.
        reason: why.
    """

    inside: str
    reason: str


class MemberHits(NamedTuple):
    """The matches in one member.

    Attributes:
        inside: names from the file on to the member.
        found: the matches.
        origin: byte in the file, if the member is stored there as it is.
    """

    inside: str
    found: list[StreamMatch]
    origin: int | None


@dataclass(slots=True)
class Tools:
    """What searches the streams.

    Attributes:
        scanners: makes those for one stream; the flag tells whether it is XML of a document.
        cell_scanners: makes those for one cell that the batch does not rule out.
        has_match: whether something can match in a batch of cells.
        searches_all_cells: whether the cells are to be scanned one by one.
    """

    scanners: Callable[[bool], Sequence[tuple[str, StreamScanner]]]
    has_match: Callable[[bytes], list[tuple[int, int]]]
    searches_all_cells: bool = False


class _SpentError(NotUnpackedError):
    """The limits of the file are reached."""


@dataclass(slots=True)
class Unpacking:
    """One file that is unpacked.

    Attributes:
        tools: what searches it.
        name: name of the file.
        hits: what was found in its members.
        refusals: what was not unpacked.
        members: number of members.
        unpacked: number of bytes of these.
        cut: number of members with more matches than are listed.
    """

    tools: Tools
    name: str
    hits: list[MemberHits] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    members: int = 0
    unpacked: int = 0
    cut: int = 0
    _allowed: int = 0
    _room: int = MOST_HITS

    def run(self, content: Content, kind: str) -> None:
        """Search everything in a file.

        Args:
            content: its bytes.
            kind: from `packing_of`.
        """
        self._allowed = max(min(content.size * MOST_RATIO, MOST_OF_FILE), ALWAYS)
        file = content.open()
        self._open(kind, (), _Whole(file, content.stored + _MOST_HOLES), file, 0, 0)

    def refuse(self, inside: str, reason: str) -> None:
        """Add what was not unpacked; the first reason counts."""
        self.refusals.setdefault(inside, reason)

    def take(self, count: int) -> None:
        """Count unpacked bytes.

        Raises:
            NotUnpackedError: there are too many.
        """
        self.unpacked += count
        if self.unpacked > self._allowed:
            self._check()

    # -- containers -------------------------------------------------------------------------

    def _open(
        self,
        kind: str,
        names: tuple[str, ...],
        stream: Reader,
        file: BinaryIO | None,
        depth: int,
        origin: int | None,
    ) -> _Keys:
        """Search what a packed stream holds.

        Args:
            kind: of the packing.
            names: of the members up to the stream.
            stream: its bytes.
            file: the same, if they can be read from any place.
            depth: number of packed files around it.
            origin: byte of the file at which it is stored as it is.

        Returns:
            (pattern, byte in the stream) of what was found in members that are stored as they are.
        """
        found: _Keys = set()
        try:
            if kind == "sqlite":
                self._search_cells(names, stream)
            elif kind == "zip" and file is None:
                with temporary_file() as copy:
                    shutil.copyfileobj(cast("BinaryIO", stream), copy, PIECE)
                    self._search_parts(zip_parts(copy), names, depth, origin, found)
            else:
                parts = self._parts(kind, names, stream, file)
                self._search_parts(parts, names, depth, origin, found)
        except (NotUnpackedError, AccessError, OSError) as error:
            self.refuse(" > ".join(names), str(error))
        return found

    def _parts(
        self, kind: str, names: tuple[str, ...], stream: Reader, file: BinaryIO | None
    ) -> Iterator[PackedPart]:
        if kind in COMPRESSED:
            name = _stem(names[-1] if names else self.name)
            return iter([PackedPart(name, Pieces(decompressed(stream, kind)))])
        if kind == "tar":
            return tar_parts(stream)
        assert file is not None
        return zip_parts(file)

    def _search_parts(
        self,
        parts: Iterator[PackedPart],
        names: tuple[str, ...],
        depth: int,
        origin: int | None,
        found: _Keys,
    ) -> None:
        for part in parts:
            if self.members == MOST_MEMBERS:
                raise _SpentError(f"it has more than {MOST_MEMBERS:,} members")
            self.members += 1
            base = None if origin is None or part.base is None else origin + part.base
            inner = self._search_part(part, (*names, part.name), depth + 1, base)
            if part.base is not None:
                found |= {(pattern, part.base + offset) for pattern, offset in inner}
            self._check()

    def _check(self) -> None:
        """Raise `_SpentError` if the file has more than is searched or listed."""
        if self.unpacked > self._allowed:
            raise _SpentError(f"the limit of {self._allowed:,} unpacked bytes is reached")
        if self._room < 0:
            raise _SpentError(f"more than {MOST_HITS:,} matches are in it")

    def _search_part(
        self, part: PackedPart, names: tuple[str, ...], depth: int, origin: int | None
    ) -> _Keys:
        """Search a member and what it holds; (pattern, byte) of all that was found in its bytes."""
        inside, covered = " > ".join(names), _Keys()
        if part.stream is None:
            self.refuse(inside, part.refusal)
            return covered
        scanners = self.tools.scanners(part.name.lower().endswith(".xml"))
        stream = _Scanned(part.stream, [one for _, one in scanners], self.take)
        try:
            kind = packing_of(stream.head())
            if kind and depth < MOST_DEPTH:
                covered = self._open(kind, names, stream, None, depth, origin)
            elif kind:
                self.refuse(inside, f"is packed more than {MOST_DEPTH} times")
            stream.drain()
        except (NotUnpackedError, AccessError) as error:
            self.refuse(inside, str(error))
        own = self._finish(inside, scanners, origin, covered)
        return own | covered

    def _finish(
        self,
        inside: str,
        scanners: Sequence[tuple[str, StreamScanner]],
        origin: int | None,
        covered: _Keys,
    ) -> _Keys:
        """Add the matches that are not those of a member of the member."""
        keys = _Keys()
        for what, scanner in scanners:
            found = [
                one for one in scanner.finish() if what or (one.pattern, one.offset) not in covered
            ]
            self.cut += scanner.is_cut
            self._room -= len(found)
            if found:
                name = f"{inside}, {what}" if what else inside
                self.hits.append(MemberHits(name, found, None if what else origin))
            if not what:
                keys |= {(one.pattern, one.offset) for one in found}
        return keys

    # -- cells ------------------------------------------------------------------------------

    def _search_cells(self, names: tuple[str, ...], stream: Reader) -> None:
        """Search the cells of a database, batch by batch; those of a batch with matches singly."""
        batch: list[Cell] = []
        size = 0
        with stored(stream) as path:
            for cell in cells(path):
                if isinstance(cell, UnreadTable):
                    self.refuse(" > ".join((*names, f"table {cell.table}")), cell.reason)
                    continue
                self.take(len(cell.data))
                batch.append(cell)
                size += len(cell.data)
                if size >= _BATCH:
                    self._search_batch(names, batch)
                    batch, size = [], 0
            self._search_batch(names, batch)

    def _search_batch(self, names: tuple[str, ...], batch: list[Cell]) -> None:
        wanted = batch if self.tools.searches_all_cells else self._touched(batch)
        for cell in wanted:
            inside = " > ".join((*names, cell.name))
            scanners = self.tools.scanners(False)
            for _, scanner in scanners:
                scanner.feed(cell.data)
            self._finish(inside, scanners, None, _Keys())
            self._check()

    def _touched(self, batch: list[Cell]) -> Iterator[Cell]:
        """The cells of a batch that a match touches."""
        if not batch:
            return
        ranges = iter(self.tools.has_match(_GAP.join(cell.data for cell in batch)))
        at, current = 0, next(ranges, None)
        for cell in batch:
            end = at + len(cell.data)
            while current is not None and current[1] <= at:
                current = next(ranges, None)
            if current is None:
                return
            if current[0] < end:
                yield cell
            at = end + len(_GAP)


class _Whole:
    """A file from its start; the bytes that are read have a limit, as a hole can have any size."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._left = file, most

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        if not self._left:
            raise NotUnpackedError("only its first bytes were read: the rest is a hole")
        return data


class _Scanned:
    """A stream that is scanned while it is read.

    Args:
        stream: the bytes.
        scanners: get them.
        take: counts them, and may raise.
    """

    def __init__(
        self, stream: Reader, scanners: Sequence[StreamScanner], take: Callable[[int], None]
    ) -> None:
        self._stream, self._scanners, self._take = stream, scanners, take
        self._rest, self._done = b"", 0

    def head(self) -> bytes:
        """The first bytes, which are read again."""
        self._rest = self._next(HEAD) + b""
        while len(self._rest) < HEAD and (more := self._next(HEAD - len(self._rest))):
            self._rest += more
        return self._rest

    def read(self, size: int = PIECE, /) -> bytes:
        """Up to `size` bytes."""
        if self._rest:
            data, self._rest = self._rest[:size], self._rest[size:]
            return data
        return self._next(size)

    def drain(self) -> None:
        """Read the rest."""
        while self.read(PIECE):
            pass

    def _next(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._take(len(data))
        self._done += len(data)
        for scanner in self._scanners:
            scanner.feed(data)
        if self._done > MOST_OF_MEMBER:
            raise NotUnpackedError(f"only the first {MOST_OF_MEMBER:,} bytes were unpacked")
        return data


def _stem(name: str) -> str:
    """The name of a file without its compression."""
    path = PurePosixPath(name)
    if path.suffix.lower() in _STEMS:
        return path.stem + _STEMS[path.suffix.lower()]
    return name
