"""Inodes whose bytes are in a temporary file.

A disk has millions of inode states, and only a few of their fields are asked often. These are
columns in memory; the bytes are read from the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, RowSlice
from ext4kit.evidence.spilled import RowStore, StoredRows
from ext4kit.parsers.inode import FIELD_NAMES, I_BLOCK, Inode, InodeTable
from ext4kit.parsers.superblock import Superblock

_MOST_COLUMNS = 8  # in memory; deriving one of a million inodes takes a few hundredths of a second


class SpilledInodes(InodeTable):
    """As `InodeTable`, with the bytes of the inodes in a temporary file.

    Args:
        number: int64 (n,).
        rows: the bytes of the inodes.
        superblock: the superblock of the file system.
    """

    def __init__(self, number: Int64s, rows: StoredRows, superblock: Superblock) -> None:
        super().__init__(number, rows.data, superblock)
        self._rows = rows

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name == "i_block":
            return super().__getattr__(name)
        column = np.concatenate([getattr(piece, name) for piece in self.pieces()])
        for oldest in [each for each in vars(self) if each in FIELD_NAMES][: 1 - _MOST_COLUMNS]:
            del self.__dict__[oldest]
        self.__dict__[name] = column
        return column

    def forget_columns(self) -> None:
        """Drop all columns but the numbers; they are derived again when they are needed."""
        for name in FIELD_NAMES & vars(self).keys():
            del self.__dict__[name]

    def pieces(self) -> Iterator[InodeTable]:
        """The table in consecutive parts."""
        for piece in super().pieces():
            yield piece
            self._rows.release()

    def i_blocks(self, rows: Rows | Int64s) -> Bytes2D:
        """`i_block` of some rows, uint8 (n, 60)."""
        found = np.empty((len(rows), I_BLOCK.stop - I_BLOCK.start), np.uint8)
        at = 0
        for piece in self._rows.pieces(rows, I_BLOCK):
            found[at : at + len(piece)] = piece
            at += len(piece)
        return found

    def one(self, row: int) -> Inode:
        """One row as an `Inode` with exact times."""
        return self.take(np.array([row])).one(0)

    def take(self, index: Rows | Int64s | Bools | RowSlice) -> InodeTable:
        """The rows that `index` (positions or a boolean mask) selects."""
        rows = np.arange(len(self))[index]
        return _stored_inodes(self.number[rows], self._rows.take(rows), self._superblock)


def _stored_inodes(number: Int64s, rows: StoredRows, superblock: Superblock) -> InodeTable:
    if rows.is_spilled:
        return SpilledInodes(number, rows, superblock)
    return InodeTable(number, rows.data, superblock)


class InodeStore:
    """Inodes that are added in pieces and become one table.

    Args:
        superblock: the superblock of their file system.
    """

    def __init__(self, superblock: Superblock) -> None:
        self._superblock = superblock
        self._numbers = [np.zeros(0, np.int64)]
        self._rows = RowStore(superblock.inode_size)

    def add(self, table: InodeTable) -> None:
        """Add inodes."""
        self._numbers.append(table.number)
        for piece in table.pieces():
            self._rows.add(piece.raw)

    @property
    def numbers(self) -> Int64s:
        """The inode numbers of all rows."""
        return np.concatenate(self._numbers)

    def table(self) -> InodeTable:
        """All inodes; no more may be added."""
        return _stored_inodes(self.numbers, self._rows.rows(), self._superblock)


def joined_inodes(superblock: Superblock, tables: Iterable[InodeTable]) -> InodeTable:
    """One table from several tables of the same file system."""
    store = InodeStore(superblock)
    for table in tables:
        store.add(table)
    return store.table()
