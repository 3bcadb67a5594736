"""Reads of byte ranges from containers that store chunks, clusters or grains."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.lost import UnreadableRanges, merge_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, check_range
from ext4kit.problems import Problems

CACHE_BYTES = 32 << 20


class ChunkCache:
    """A cache of the chunks used last, limited in bytes.

    Args:
        limit: maximum of cached bytes; the last chunk is always kept.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[int, memoryview] = OrderedDict()
        self._bytes = 0

    def get(self, index: int, make: Callable[[int], memoryview]) -> memoryview:
        """A chunk, from the cache or from `make`."""
        found = self._kept.get(index)
        if found is not None:
            self._kept.move_to_end(index)
            return found
        made = make(index)
        self._kept[index] = made
        self._bytes += len(made)
        while self._bytes > self._limit and len(self._kept) > 1:
            self._bytes -= len(self._kept.popitem(last=False)[1])
        return made


class ChunkedSource:
    """A source that is stored in chunks of one size; subclasses load a chunk.

    One thread reads at a time, because neither the cache nor the libraries are thread-safe.

    Args:
        name: its name in messages.
        size: size in bytes.
        piece: size of a chunk in bytes; the last one may be shorter.
        problems: collects unreadable byte ranges.
    """

    def __init__(self, name: str, size: int, piece: int, problems: Problems) -> None:
        self.name = name
        self.size = size
        self.problems = problems
        self._piece = piece
        self._lock = Lock()
        self._lost = UnreadableRanges()

    def unreadable(self) -> Int64s:
        """The ranges known to be unreadable, int64 (n, 2): first byte, end."""
        return self._lost.table()

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on, read only.

        Raises:
            AccessError: the range is outside the source, or a chunk in it is damaged or missing;
                the message and `problems` give the lost bytes.
        """
        check_range(self, offset, length)
        if not length:
            return memoryview(b"")
        first, start = divmod(offset, self._piece)
        last = (offset + length - 1) // self._piece
        with self._lock:
            if first == last:
                return self._whole(first)[start : start + length]
            return self._joined(offset, length, first, last)

    def _joined(self, offset: int, length: int, first: int, last: int) -> memoryview:
        parts: list[memoryview] = []
        failures: list[AccessError] = []
        for index in range(first, last + 1):
            at = index * self._piece - offset
            try:
                data = self._whole(index)
            except AccessError as error:  # the remaining chunks are reported too
                failures.append(error)
                continue
            parts.append(data[max(-at, 0) : length - at])
        if failures:
            raise failures[0]
        return memoryview(b"".join(parts))

    def _whole(self, index: int) -> memoryview:
        """A chunk with its length checked; a defect is reported once, with its full known range.

        Raises:
            AccessError: the chunk cannot be read.
        """
        start = index * self._piece
        wanted = min(self._piece, self.size - start)
        try:
            data = self._load(index, wanted)
            if len(data) < wanted:
                raise AccessError(f"only {len(data):,} of its {wanted:,} bytes are there")
        except AccessError as error:
            if self._lost.first_in(start, start + wanted) is None:
                lost = self._range_around(index, start, start + wanted)
                self._lose(*lost, f"cannot be read: {error}")
            where = f"bytes {start:,} to {start + wanted - 1:,}"
            raise AccessError(f"{self.name}: {where} cannot be read: {error}") from error
        return data[:wanted]

    def _lose(self, start: int, end: int, why: str) -> None:
        """Record and report a range that cannot be read."""
        self._lost.add(start, end)
        self.problems.add(f"image, bytes {start:,} to {end - 1:,}", why)

    def _range_around(self, index: int, start: int, end: int) -> tuple[int, int]:
        """The known lost range that contains a lost chunk, or the chunk itself."""
        for first, last in self._known_lost(index).tolist():
            if first <= start < last:
                return first, last
        return start, end

    def _known_lost(self, _index: int) -> Int64s:
        """Known lost ranges near a chunk, int64 (n, 2): first byte, end."""
        return merge_ranges()

    def _load(self, index: int, wanted: int) -> memoryview:
        """The bytes of a chunk, at least `wanted` of them.

        Raises:
            AccessError: the chunk is damaged or missing; the message gives the cause, not the
                position.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the underlying file or library."""


class LayeredSource(ChunkedSource):
    """Chunks of a file over another source, which has the chunks that the file lacks.

    Args:
        name, size, piece, problems: as for `ChunkedSource`.
        file: the file; closed with this source.
        below: the backing file or parent, None without one; closed with this source.
    """

    def __init__(
        self,
        name: str,
        size: int,
        piece: int,
        problems: Problems,
        file: Source,
        below: Source | None,
    ) -> None:
        super().__init__(name, size, piece, problems)
        self._file, self._below = file, below
        self._zeros = memoryview(bytes(piece))

    def close(self) -> None:
        """Close the file and the source below."""
        self._file.close()
        if self._below is not None:
            self._below.close()

    def _stored(self, place: int, wanted: int) -> memoryview:
        """`wanted` bytes of the file."""
        try:
            return self._file.read(place, wanted)
        except AccessError as error:
            raise AccessError(f"it should be at byte {place:,}: {error}") from error

    def _behind(self, offset: int, wanted: int) -> memoryview:
        """Bytes from the source below, and zeros after its end, as it may be shorter."""
        have = 0 if self._below is None else max(0, min(wanted, self._below.size - offset))
        if self._below is None or not have:
            return self._zeros[:wanted]
        data = self._below.read(offset, have)
        return data if have == wanted else memoryview(bytes(data) + bytes(wanted - have))

    def _is_lost_below(self, starts: Int64s, length: int) -> Bools:
        """True where the source below has an unreadable byte in a range of `length` bytes."""
        if self._below is None:
            return np.zeros(len(starts), bool)
        lost = unreadable_ranges(self._below)
        after = np.searchsorted(lost[:, 1], starts, "right")
        is_lost: Bools = np.append(lost[:, 0], np.iinfo(np.int64).max)[after] < starts + length
        return is_lost
