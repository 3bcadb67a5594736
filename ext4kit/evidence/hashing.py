"""MD5, SHA-1 and SHA-256 of evidence, computed in one pass.

Each hash runs in a separate thread, because hashlib releases the GIL. A range inside
another one is hashed from the same bytes, which are read once.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from ext4kit.errors import AccessError
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.holes import data_ranges
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.source import Source
from ext4kit.evidence.volume import Volume
from ext4kit.fields import Digests, HashName
from ext4kit.units import SECTOR, Progress

ALGORITHMS = ("md5", "sha1", "sha256")
_AT_ONCE = 2 << 20
_WINDOWS_AT_ONCE = 2
_WAITING = 8  # chunks that may wait for a hash
_ZEROS = memoryview(bytes(_AT_ONCE))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A range that could not be read; zeros were hashed instead."""

    offset: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes of a range of bytes.

    Attributes:
        digests: hexadecimal digits by algorithm.
        unreadable: unreadable ranges, relative to the start of the range.
    """

    size: int
    digests: Digests
    unreadable: tuple[Unreadable, ...] = ()


def hash_evidence(
    evidence: Evidence, volumes: bool = True, progress: Progress | None = None
) -> tuple[Hashes, dict[int, Hashes]]:
    """The hashes of the disk, and those of its volumes by number.

    Partitions are hashed in the pass over the disk. Unlocked and logical volumes are read
    separately.

    Args:
        evidence: the opened evidence.
        volumes: whether to hash the volumes too.
        progress: called with (bytes read, bytes in total).
    """
    disk = evidence.source
    sources: dict[int, Source] = {id(disk): disk}
    groups: dict[int, list[Volume]] = {id(disk): []}
    for volume in evidence.volumes if volumes else ():
        if volume.source.size:  # else no byte of it is in the evidence
            sources[id(volume.source.source)] = volume.source.source
            groups.setdefault(id(volume.source.source), []).append(volume)
    wanted = {
        key: [range(each.source.offset, each.source.offset + each.source.size) for each in group]
        for key, group in groups.items()
    }
    wanted[id(disk)].append(range(disk.size))
    tell = _Total(sum(map(_covered, wanted.values())), progress)
    found = {key: hash_ranges(sources[key], wanted[key], tell) for key in groups}
    image = found[id(disk)][-1]
    return image, {
        volume.index: hashes
        for key, group in groups.items()
        for volume, hashes in zip(group, found[key], strict=False)
    }


def hash_files(paths: Sequence[Path], progress: Progress | None = None) -> dict[Path, Hashes]:
    """The hashes of files and devices themselves, regardless of their format.

    Raises:
        AccessError: a file cannot be opened.
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


def _covered(ranges: Sequence[range]) -> int:
    """Number of bytes from the start of the first range to the end of the last."""
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
    """The hashes of ranges of a source, which may overlap, in one pass.

    Args:
        source: the source to read.
        ranges: byte ranges of the source.
        tell: called with the number of bytes of each chunk.
    """
    distinct = {(each.start, each.stop): _RangeHash(each) for each in ranges}
    filled = [each for each in distinct.values() if each.range]
    waiting: deque[list[Future[None]]] = deque()
    for offset, data, lost in _pieces(source, [each.range for each in filled]):
        taken: list[Future[None]] = []
        for each in filled:
            if each.range.start <= offset < each.range.stop:
                taken += each.put(offset, data, lost)
        waiting.append(taken)
        if len(waiting) > _WAITING:
            wait(waiting.popleft())
        if tell is not None:
            tell(len(data))
    return [distinct[each.start, each.stop].hashes() for each in ranges]


@dataclass(frozen=True, slots=True)
class WindowHash:
    """The hash of one of the windows of equal size that a source is divided into.

    Attributes:
        start: first byte.
        end: the byte after the last one.
        digest: hexadecimal digits.
        unreadable: unreadable ranges, relative to the start of the source.
    """

    start: int
    end: int
    digest: str
    unreadable: tuple[Unreadable, ...]


def window_count(source: Source, size: int) -> int:
    """Number of windows of `size` bytes, of which the last may be shorter."""
    return -(-source.size // size)


def window_hashes(
    source: Source, size: int, numbers: range, algorithm: HashName
) -> Iterator[WindowHash]:
    """The hashes of some windows, in their order; two are computed at a time.

    Args:
        source: the source to read.
        size: bytes of a window.
        numbers: numbers of the windows.
        algorithm: the hash.
    """

    def one(number: int) -> WindowHash:
        window = range(number * size, min((number + 1) * size, source.size))
        state, lost = hashlib.new(algorithm, usedforsecurity=False), list[Unreadable]()
        for offset, data, why in _pieces(source, [window]):
            state.update(data)
            if why:
                _add(lost, Unreadable(offset, len(data), why))
        return WindowHash(window.start, window.stop, state.hexdigest(), tuple(lost))

    waiting: deque[Future[WindowHash]] = deque()
    with ThreadPoolExecutor(_WINDOWS_AT_ONCE) as pool:
        for number in numbers:
            waiting.append(pool.submit(one, number))
            if len(waiting) > _WINDOWS_AT_ONCE:
                yield waiting.popleft().result()
        for each in waiting:
            yield each.result()


class _RangeHash:
    """The hashes of one range in computation."""

    def __init__(self, wanted: range) -> None:
        self.range = wanted
        self._states = [hashlib.new(name, usedforsecurity=False) for name in ALGORITHMS]
        self._pools = [ThreadPoolExecutor(1) for _ in ALGORITHMS]  # a thread each, at first use
        self._unreadable: list[Unreadable] = []

    def put(self, offset: int, data: memoryview, lost: str) -> list[Future[None]]:
        """Add bytes of the range to its hashes; the thread of each hash processes them in order."""
        if lost:
            _add(self._unreadable, Unreadable(offset - self.range.start, len(data), lost))
        pairs = zip(self._pools, self._states, strict=True)
        taken = [pool.submit(state.update, data) for pool, state in pairs]
        if offset + len(data) == self.range.stop:
            for pool in self._pools:
                pool.shutdown(wait=False)
        return taken

    def hashes(self) -> Hashes:
        for pool in self._pools:
            pool.shutdown()
        md5, sha1, sha256 = (state.hexdigest() for state in self._states)
        digests: Digests = {"md5": md5, "sha1": sha1, "sha256": sha256}
        return Hashes(len(self.range), digests, tuple(self._unreadable))


def _add(found: list[Unreadable], more: Unreadable) -> None:
    """Add a range; one that continues the last one is merged with it."""
    if found and found[-1].offset + found[-1].length == more.offset:
        last = found.pop()
        more = Unreadable(last.offset, last.length + more.length, last.reason)
    found.append(more)


# ------------------------------------------------------------------------------------ reading


def _pieces(source: Source, ranges: Sequence[range]) -> Iterator[tuple[int, memoryview, str]]:
    """(offset, bytes, why they were lost) of each chunk of the area that the ranges cover.

    No chunk crosses the start or the end of a range.
    """
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
    """(start, end, whether it holds data) of parts in order; holes of sparse files hold none."""
    for data in data_ranges(source, at, end - at):
        if data.start > at:
            yield at, data.start, False
        yield data.start, data.stop, True
        at = data.stop
    if at < end:
        yield at, end, False


def _read(source: Source, offset: int, length: int) -> Iterator[tuple[int, memoryview, str]]:
    """The parts of a chunk, with zeros for unreadable ones."""
    try:
        yield offset, source.read(offset, length), ""
        return
    except AccessError as error:
        reason = str(error)
        if offset // SECTOR == (offset + length - 1) // SECTOR:
            yield offset, _ZEROS[:length], reason
            return
    for start, end, is_lost in _apart(source, offset, offset + length):
        if is_lost:
            yield start, _ZEROS[: end - start], reason
        else:
            yield from _read(source, start, end - start)


def _apart(source: Source, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether it is lost) of the parts of a chunk that could not be read as a whole.

    If the source does not record its unreadable ranges, the chunk is halved repeatedly.
    """
    table = unreadable_ranges(source)
    near = table[(table[:, 1] > start) & (table[:, 0] < end)].clip(start, end).tolist()
    if not near:
        middle = max((start + end) // 2 // SECTOR, start // SECTOR + 1) * SECTOR
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
