"""MD5, SHA-1 and SHA-256 of evidence, all in one pass.

Every hash has a thread of its own: hashlib lets other threads run while it works. A range that
lies in another one is hashed from the same bytes, read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from ext4kit.errors import AccessError
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.holes import data_ranges
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.source import Source, Window
from ext4kit.evidence.volume import Volume
from ext4kit.fields import Digests

ALGORITHMS = ("md5", "sha1", "sha256")
_AT_ONCE = 2 << 20
_WAITING = 8  # pieces that a hash may be behind the reader
_SECTOR = 512
_ZEROS = memoryview(bytes(_AT_ONCE))

Progress = Callable[[int, int], None]  # (done, total) bytes


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that could not be read; zeros were hashed in their place."""

    offset: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes of a range of bytes.

    Attributes:
        digests: hexadecimal digits by algorithm.
        unreadable: what was not read, counted from the start of the range.
    """

    size: int
    digests: Digests
    unreadable: tuple[Unreadable, ...] = ()


def hash_evidence(
    evidence: Evidence, volumes: bool = True, progress: Progress | None = None
) -> tuple[Hashes, dict[int, Hashes]]:
    """The hashes of the disk and those of its volumes, by number.

    Partitions are hashed in the pass over the disk; what is unlocked or put together from
    volumes is read for itself.

    Args:
        evidence: opened.
        volumes: hash them too.
        progress: called with (bytes read, bytes in all).
    """
    groups: dict[int, list[Volume]] = {id(evidence.source): []}
    for volume in evidence.volumes if volumes else ():
        if not volume.source.size:  # nothing of it is there
            continue
        groups.setdefault(id(volume.source.source), []).append(volume)
    sources: dict[int, Source] = {id(each.source.source): each.source.source
                                  for each in evidence.volumes}  # fmt: skip
    sources[id(evidence.source)] = evidence.source
    wanted = {key: [_range(each.source) for each in group] for key, group in groups.items()}
    wanted[id(evidence.source)].append(range(evidence.source.size))
    tell = _Total(sum(map(_covered, wanted.values())), progress)
    found = {key: hash_ranges(sources[key], wanted[key], tell) for key in groups}
    image = found[id(evidence.source)][-1]
    return image, {
        volume.index: hashes
        for key, group in groups.items()
        for volume, hashes in zip(group, found[key], strict=False)
    }


def hash_files(paths: Sequence[Path], progress: Progress | None = None) -> dict[Path, Hashes]:
    """The hashes of files and devices themselves, whatever is in them.

    Raises:
        AccessError: one of them cannot be opened.
    """
    sources: dict[Path, Source] = {}
    try:
        for path in paths:
            sources[path] = RawFile(path)
        tell = _Total(sum(source.size for source in sources.values()), progress)
        return {
            path: hash_ranges(source, [range(source.size)], tell)[0]
            for path, source in sources.items()
        }
    finally:
        for source in sources.values():
            source.close()


def _range(window: Window) -> range:
    """The bytes of a window in its source, as far as they are there."""
    return range(window.offset, window.offset + window.size)


def _covered(ranges: Sequence[range]) -> int:
    """Bytes from the first to the last that any of the ranges has."""
    return max((each.stop for each in ranges), default=0) - min(
        (each.start for each in ranges if each), default=0
    )


class _Total:
    """Progress over several passes."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._done = total, progress, 0

    def __call__(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def hash_ranges(
    source: Source, ranges: Sequence[range], tell: Callable[[int], None] | None = None
) -> list[Hashes]:
    """The hashes of ranges of a source, which may overlap, in one pass from the first to the last.

    Args:
        source: what is read.
        ranges: of its bytes.
        tell: called with the bytes of each piece.
    """
    distinct = {(each.start, each.stop): _Lanes(each) for each in ranges}
    filled = [lanes for lanes in distinct.values() if lanes.range]
    waiting = sorted(filled, key=lambda lanes: lanes.range.start)
    active: list[_Lanes] = []
    try:
        for offset, data, lost in _pieces(source, waiting):
            while waiting and waiting[0].range.start <= offset:
                active.append(waiting.pop(0).begin())
            for lanes in active:
                lanes.put(offset, data, lost)
            active = [lanes for lanes in active if not lanes.ended(offset + len(data))]
            if tell is not None:
                tell(len(data))
    finally:
        for lanes in active:
            lanes.end()
    return [distinct[each.start, each.stop].hashes() for each in ranges]


class _Lanes:
    """The hashes of one range while they are made."""

    def __init__(self, wanted: range) -> None:
        self.range = wanted
        self._lanes: tuple[_Lane, ...] = ()
        self._digests = _by_name(_new(name).hexdigest() for name in ALGORITHMS)
        self._unreadable: list[Unreadable] = []

    def begin(self) -> _Lanes:
        self._lanes = tuple(map(_Lane, ALGORITHMS))
        return self

    def put(self, offset: int, data: Any, lost: str) -> None:
        """Hash bytes, all of which are in the range."""
        for lane in self._lanes:
            lane.put(data)
        if lost:
            _add(self._unreadable, Unreadable(offset - self.range.start, len(data), lost))

    def ended(self, offset: int) -> bool:
        """Whether the range ends there; its hashes are finished then."""
        if offset < self.range.stop:
            return False
        self._digests = self.end()
        return True

    def end(self) -> Digests:
        """Wait for the threads."""
        return _by_name(lane.digest() for lane in self._lanes)

    def hashes(self) -> Hashes:
        return Hashes(len(self.range), self._digests, tuple(self._unreadable))


def _by_name(digests: Iterable[str]) -> Digests:
    """Digests in the order of `ALGORITHMS`."""
    md5, sha1, sha256 = digests
    return {"md5": md5, "sha1": sha1, "sha256": sha256}


def _add(found: list[Unreadable], more: Unreadable) -> None:
    """Remember a range; one that goes on from the last one joins it."""
    if found and found[-1].offset + found[-1].length == more.offset:
        last = found.pop()
        more = Unreadable(last.offset, last.length + more.length, last.reason)
    found.append(more)


class _Lane:
    """One hash, made in a thread."""

    def __init__(self, name: str) -> None:
        self._hash = _new(name)
        self._queue: Queue[Any] = Queue(_WAITING)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            self._hash.update(data)

    def put(self, data: Any) -> None:
        """Hash more bytes, later."""
        self._queue.put(data)

    def digest(self) -> str:
        """The hexadecimal digits of all bytes so far; no more can come."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        return str(self._hash.hexdigest())


def _new(name: str) -> Any:
    return hashlib.new(name, usedforsecurity=False)


# ------------------------------------------------------------------------------------ reading


def _pieces(source: Source, lanes: Iterable[_Lanes]) -> Iterator[tuple[int, Any, str]]:
    """(offset, bytes, why they were lost) of all from the first range's start to the last end.

    No piece goes over the start or the end of a range.
    """
    ranges = [each.range for each in lanes]
    if not ranges:
        return
    at, end = min(each.start for each in ranges), max(each.stop for each in ranges)
    borders = sorted({border for each in ranges for border in (each.start, each.stop)})
    for start, stop, is_data in _nearby_ranges(source, at, end):
        cuts = [start, *(each for each in borders if start < each < stop), stop]
        for first, last in zip(cuts, cuts[1:], strict=False):
            for offset in range(first, last, _AT_ONCE):
                length = min(_AT_ONCE, last - offset)
                if is_data:
                    yield from _read(source, offset, length)
                else:
                    yield offset, _ZEROS[:length], ""


def _nearby_ranges(source: Source, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether there is data) in order; holes of sparse files are none."""
    for data in data_ranges(source, at, end - at):
        if data.start > at:
            yield at, data.start, False
        yield data.start, data.stop, True
        at = data.stop
    if at < end:
        yield at, end, False


def _read(source: Source, offset: int, length: int) -> Iterator[tuple[int, Any, str]]:
    """A piece, or what there is of it with zeros for the rest."""
    try:
        yield offset, source.read(offset, length), ""
        return
    except AccessError as error:
        reason = str(error)
        if offset // _SECTOR == (offset + length - 1) // _SECTOR:
            yield offset, _ZEROS[:length], reason
            return
    for start, end, is_lost in _apart(source, offset, offset + length):
        if is_lost:
            yield start, _ZEROS[: end - start], reason
        else:
            yield from _read(source, start, end - start)


def _apart(source: Source, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether it is lost) of parts of a piece that cannot be read as a whole.

    Where the source does not know what it has lost, two halves are tried.
    """
    table = unreadable_ranges(source)
    near = table[(table[:, 1] > start) & (table[:, 0] < end)].clip(start, end).tolist()
    if not near:
        middle = max((start + end) // 2 // _SECTOR, start // _SECTOR + 1) * _SECTOR
        yield from ((start, middle, False), (middle, end, False))
        return
    at = start
    for first, last in near:
        if first > at:
            yield at, first, False
        yield first, last, True
        at = last
    if at < end:
        yield at, end, False
