"""What is searched file by file: members of packed files, YARA rules, hashes of whole files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Rows
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader, read_run_or_zeros
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node, NodeId, WalkBatch
from ext4kit.known.files import KnownFiles
from ext4kit.known.lists import KnownList
from ext4kit.search.engine import Engine
from ext4kit.search.hits import CONTEXT, MemberNode
from ext4kit.search.inside import MemberHits, Refusal, Tools, Unpacking
from ext4kit.search.packed_streams import HEAD, packing_of
from ext4kit.search.patterns import HashPattern, Pattern
from ext4kit.search.windows import StreamScanner, WindowScanner, XmlTextScanner
from ext4kit.search.yara_rules import (
    FILE_WINDOW,
    MEMBER_WINDOW,
    OVERLAP,
    YaraRules,
    YaraScanner,
)

MOST_REFUSALS = 10_000  # that are listed


class FileHit(NamedTuple):
    """A match of which the pass over the volume knows nothing.

    Attributes:
        pattern: row of the pattern.
        start: byte in the volume, -1 if it is not stored there in one piece.
        offset: byte in the file or member; NO_ROW outside of files.
        length: bytes.
    """

    pattern: int
    start: int
    offset: int
    length: int


class FileSearch(NamedTuple):
    """What is searched file by file.

    Attributes:
        is_inside: whether packed files are unpacked.
        rules: YARA rules; None for none.
        context: bytes around a hit that are kept.
        hashes: lists of hashes, of which each file that has one is a hit; None for none.
    """

    is_inside: bool = False
    rules: YaraRules | None = None
    context: int = CONTEXT
    hashes: KnownFiles | None = None


@dataclass(frozen=True, slots=True)
class NotUnpacked:
    """Something that was not unpacked, or not to its end.

    Attributes:
        node: the file.
        inside: where in it; "" for the file itself.
        reason: why.
    """

    node: Node
    inside: str
    reason: str


@dataclass(slots=True)
class Tally:
    """What was done file by file.

    Attributes:
        packed: number of files that were unpacked.
        members: number of their members.
        unpacked: number of bytes of these.
        refused: number of files and members that were not unpacked, or not to their end.
        scanned: number of bytes that YARA rules were applied to, without those of members.
        unreadable: of these, bytes that could not be read.
        skipped: files that YARA rules were not applied to: they map more than the evidence holds.
        cut: number of streams with more matches than are listed.
    """

    packed: int = 0
    members: int = 0
    unpacked: int = 0
    refused: int = 0
    scanned: int = 0
    unreadable: int = 0
    skipped: int = 0
    cut: int = 0


@dataclass(slots=True)
class FileScans:
    """The searches that read each file by itself.

    Attributes:
        blocks: reads the volume.
        engine: finds the patterns.
        is_inside: whether packed files are unpacked.
        rules: YARA rules; None for none.
        context: bytes around a hit that are kept.
        hashes: lists of hashes; None for none.
        tally: what was done.
        not_unpacked: what was not unpacked; the first `MOST_REFUSALS`.
    """

    blocks: BlockReader
    engine: Engine
    is_inside: bool
    rules: YaraRules | None
    context: int
    hashes: KnownFiles | None
    tally: Tally = field(default_factory=Tally)
    not_unpacked: list[NotUnpacked] = field(default_factory=list)
    _stored: dict[NodeId, set[tuple[int, int]]] = field(default_factory=dict)

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to do."""
        return self.is_inside or self.rules is not None or self.hashes is not None

    @property
    def patterns(self) -> list[Pattern]:
        """The patterns of the hits, by row: those of the engine, lists of hashes, rules."""
        lists = [] if self.hashes is None else [HashPattern(one.name, b"") for one in self._lists]
        return [*self.engine.patterns, *lists, *(() if self.rules is None else self.rules.patterns)]

    @property
    def _lists(self) -> Sequence[KnownList]:
        return () if self.hashes is None else self.hashes.lists

    @property
    def _first_rule(self) -> int:
        return len(self.engine.patterns) + len(self._lists)

    def rows(self, batch: WalkBatch, runs: Runs, apart: Rows) -> Iterator[int]:
        """The files of a batch that may have hits, by their first block; the others come last.

        Args:
            batch: the files.
            runs: of their contents.
            apart: rows of files whose bytes are not those of the blocks in the volume.
        """
        order = np.lexsort((runs.physical, runs.owner))
        owner, first = np.unique(runs.owner[order], return_index=True)
        by_place = owner[np.argsort(runs.physical[order][first], kind="stable")]
        if self.hashes is None:
            yield from (*by_place.tolist(), *apart.tolist())
            return
        sizes = batch.sizes.tolist()
        rest = np.setdiff1d(np.arange(len(sizes)), by_place)
        for row in (*by_place.tolist(), *rest.tolist()):
            if self.is_inside or self.rules or self.hashes.may_have_size(sizes[row]):
                yield row

    def hits(
        self, node: Node, content: Content, is_apart: bool
    ) -> Iterator[tuple[Node, list[FileHit]]]:
        """(file or member, its hits).

        Args:
            node: the file.
            content: its bytes.
            is_apart: whether these are not those of the blocks in the volume.
        """
        places = _Places([] if is_apart else list(content.segments()))
        if self.is_inside and (kind := packing_of(_head(content))):
            for one in self._members(node, content, kind):
                owner = MemberNode.of(node, one.inside, one.found)
                yield owner, [
                    FileHit(hit.pattern, places.byte(one.origin, hit.offset, hit.length),
                            hit.offset, hit.length) for hit in one.found
                ]  # fmt: skip
        if self.hashes is not None:
            match = self.hashes.match(node.identity, lambda: content)
            if match is not None:
                names = [one.name for one in self._lists]
                row = len(self.engine.patterns) + names.index(match.source)
                yield node, [FileHit(row, places.byte(0, 0, 1), 0, 0)]
        if self.rules is not None:
            covered = self._stored.get(node.id, set())
            found = [
                hit for hit in self._by_rules(content, places)
                if (hit.pattern, hit.offset) not in covered
            ]  # fmt: skip
            if found:
                yield node, found

    # -- packed files -----------------------------------------------------------------------

    def _members(self, node: Node, content: Content, kind: str) -> list[MemberHits]:
        run = Unpacking(Tools(self._scanners, self._ranges, self.rules is not None),
                        node.name.decode("utf-8", "backslashreplace"))  # fmt: skip
        run.run(content, kind)
        tally = self.tally
        tally.packed += 1
        tally.members += run.members
        tally.unpacked += run.unpacked
        tally.refused += len(run.refusals)
        tally.cut += run.cut
        for inside, reason in run.refusals.items():
            if len(self.not_unpacked) < MOST_REFUSALS:
                self.not_unpacked.append(NotUnpacked(node, *Refusal(inside, reason)))
        stored = {
            (hit.pattern, one.origin + hit.offset)
            for one in run.hits if one.origin is not None for hit in one.found
        }  # fmt: skip
        if stored:
            self._stored[node.id] = stored
        return run.hits

    def _scanners(self, is_xml: bool) -> Sequence[tuple[str, StreamScanner]]:
        found: list[tuple[str, StreamScanner]] = []
        if self.engine.patterns:
            found.append(("", WindowScanner(self.engine, self.context)))
            if is_xml:
                found.append(("text", XmlTextScanner(self.engine, self.context)))
        if self.rules is not None:
            found.append(
                ("", YaraScanner(self.rules, self._first_rule, self.context, MEMBER_WINDOW))
            )
        return found

    def _ranges(self, data: bytes) -> list[tuple[int, int]]:
        if not data or not self.engine.patterns:
            return []
        found = self.engine.matches(data)
        if found.is_cut:
            return [(0, len(data))]
        return list(zip(found.start.tolist(), found.end.tolist(), strict=True))

    def is_double(self, nodes: Sequence[Node], node: Rows, pattern: Rows, offset: Rows) -> Bools:
        """Which hits of files are those of members that are stored as they are (bool)."""
        found = np.zeros(len(node), bool)
        if not self._stored:
            return found
        sets = [self._stored.get(one.id) if type(one) is not MemberNode else None for one in nodes]
        mine = np.array([one is not None for one in (*sets, None)])
        for row in np.flatnonzero(mine[node]).tolist():
            known = sets[int(node[row])]
            found[row] = known is not None and (int(pattern[row]), int(offset[row])) in known
        return found

    # -- YARA rules -------------------------------------------------------------------------

    def _by_rules(self, content: Content, places: _Places) -> Iterator[FileHit]:
        assert self.rules is not None
        if content.is_overfull:
            self.tally.skipped += 1
            return
        first, known = self._first_rule, set()
        for number, start in enumerate(_windows(content)):
            self.rules.windowed += number == 1
            data = self._read(content, start, min(FILE_WINDOW, content.size - start))
            for row, low, high in self.rules.matches(data):
                offset = start + low if high > low else 0
                if (row, offset) not in known:
                    known.add((row, offset))
                    byte = places.byte(0, offset, max(high - low, 1))
                    yield FileHit(first + row, byte, offset, high - low)

    def _read(self, content: Content, start: int, size: int) -> bytes:
        """Some bytes of a file, zeros for those that cannot be read."""
        self.tally.scanned += size
        try:
            return content.read(start, size)
        except AccessError:
            found = bytearray(size)
        stream, at = content.open(), 0
        step = content.blocks.block_size
        while at < size:
            stream.seek(start + at)
            try:
                data = stream.read(min(step, size - at))
                found[at : at + len(data)] = data
            except AccessError:
                self.tally.unreadable += min(step, size - at)
            at += step
        return bytes(found)

    def hits_in_blocks(self, wanted: Intervals) -> Iterator[FileHit]:
        """The matches of rules in runs of blocks that are no file's."""
        if self.rules is None:
            return
        size, first = self.blocks.block_size, self._first_rule
        most, spare = FILE_WINDOW // size, OVERLAP // size
        for start, end in zip(wanted.start.tolist(), wanted.end.tolist(), strict=True):
            known: set[tuple[int, int]] = set()
            for at in range(start, max(end - spare, start + 1), most - spare):
                count = min(most, end - at)
                for row, low, high in self.rules.matches(self._blocks_at(at, count)):
                    key = first + row, at * size + low if high > low else start * size
                    if key not in known:
                        known.add(key)
                        yield FileHit(*key, -1, high - low)

    def _blocks_at(self, first: int, count: int) -> bytes:
        self.tally.scanned += count * self.blocks.block_size
        data, lost = read_run_or_zeros(self.blocks, first, count)
        self.tally.unreadable += lost * self.blocks.block_size
        return bytes(data)


class _Places:
    """Where the bytes of a file are in the volume.

    Args:
        segments: (offset, length, byte in the volume) of its runs.
    """

    def __init__(self, segments: list[tuple[int, int, int | None]]) -> None:
        stored = [one for one in segments if one[2] is not None]
        self._table = np.array(stored, np.int64).reshape(-1, 3)

    def byte(self, origin: int | None, offset: int, length: int) -> int:
        """The byte in the volume of a range of the file; -1 where it is not in one piece."""
        if origin is None:
            return -1
        start = origin + offset
        row = int(np.searchsorted(self._table[:, 0], start, side="right")) - 1
        if row < 0:
            return -1
        first, size, place = self._table[row].tolist()
        return place + start - first if start + length <= first + size else -1


def _windows(content: Content) -> Iterator[int]:
    """The first byte of each window in which a file has stored bytes."""
    if content.size <= FILE_WINDOW:
        yield from (0,) if content.size else ()
        return
    end = 0
    for offset, length, place in content.segments():
        if place is None:
            continue
        start = max(offset, end - OVERLAP) if end > offset else offset
        while start < offset + length and end < offset + length:
            yield start
            end = start + FILE_WINDOW
            start = end - OVERLAP


def _head(content: Content) -> bytes:
    try:
        return content.read(0, HEAD)
    except AccessError:
        return b""
