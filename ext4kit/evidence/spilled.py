"""Rows of equal size, which are in a temporary file instead of memory if they are many."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s, Rows, RowSlice
from ext4kit.errors import AccessError
from ext4kit.evidence.temporary import temporary_file

KEPT_BYTES = 32 << 20  # rows of this size together stay in memory
ROWS_AT_ONCE = 1 << 14
_ALL = slice(None)


class RowStore:
    """Rows that are added in pieces and read when all are there.

    If no temporary file can be created or written, all rows stay in memory.

    Args:
        width: bytes of a row.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._parts: list[Bytes2D] = []
        self._bytes = 0
        self._file: BinaryIO | None = None
        self._may_write = True

    def add(self, rows: Bytes2D) -> None:
        """Add rows, uint8 (n, width), which must not change afterwards."""
        self._parts.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > KEPT_BYTES and self._may_write:
            try:
                self._file = self._file or temporary_file(buffering=0)
                while self._parts:
                    _write_all(self._file, np.ascontiguousarray(self._parts[0]).reshape(-1).data)
                    del self._parts[0]
            except (AccessError, OSError):
                self._keep_in_memory()

    def rows(self) -> StoredRows:
        """All rows; no more may be added."""
        if self._file is None:
            nothing = np.zeros((0, self.width), np.uint8)
            return StoredRows(np.concatenate([nothing, *self._parts]), None)
        pages = mmap.mmap(self._file.fileno(), self._bytes, access=mmap.ACCESS_READ)
        self._file.close()
        return StoredRows(np.frombuffer(pages, np.uint8).reshape(-1, self.width), pages)

    def _keep_in_memory(self) -> None:
        """Read back what was written, when no more can be."""
        self._may_write = False
        if self._file is None:
            return
        data = bytearray(self._bytes - sum(part.nbytes for part in self._parts))
        self._file.seek(0)
        with self._file as file:
            _read_all(file, memoryview(data))
        self._parts.insert(0, np.frombuffer(data, np.uint8).reshape(-1, self.width))
        self._file = None


def _write_all(file: BinaryIO, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]


def _read_all(file: BinaryIO, target: memoryview) -> None:
    while len(target) and (count := file.readinto(target)):  # type: ignore[attr-defined]
        target = target[count:]


class StoredRows:
    """Rows of a `RowStore`.

    Attributes:
        data: uint8 (n, width), read only; reading it makes pages of the file resident.
        is_spilled: whether the rows are in a temporary file.
    """

    def __init__(self, data: Bytes2D, pages: mmap.mmap | None) -> None:
        self.data = data
        self.is_spilled = pages is not None
        self._pages = pages

    def release(self) -> None:
        """Return the resident pages of the file to the system; they are read again when needed."""
        if self._pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            with suppress(OSError):
                self._pages.madvise(mmap.MADV_DONTNEED)

    def pieces(self, rows: Rows | Int64s, columns: RowSlice = _ALL) -> Iterator[Bytes2D]:
        """Some rows, or some bytes of each, in the order of `rows` and in pieces."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield self.data[rows[start : start + ROWS_AT_ONCE], columns]
            self.release()

    def take(self, rows: Rows | Int64s) -> StoredRows:
        """Some rows, stored in the order of `rows`."""
        store = RowStore(self.data.shape[1])
        for piece in self.pieces(rows):
            store.add(piece)
        return store.rows()
