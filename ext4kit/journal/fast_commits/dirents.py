"""Directory entries in one area of bytes: search, insertion and removal.

Source: kernel fs/ext4/namei.c, `ext4_find_dest_de`, `ext4_insert_dentry`,
`ext4_generic_delete_entry`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.errors import CorruptError
from ext4kit.journal.fast_commits.overlay import set_fields
from ext4kit.journal.ring import Numbers
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.directory import DIRENT, DIRENT_TAIL, TAIL_FILE_TYPE, record_length
from ext4kit.parsers.layout import Buffer

ALIGNMENT = 4


@dataclass(frozen=True, slots=True)
class DirentRecord:
    """One record of a directory; `inode` is 0 if the record is not in use."""

    offset: int
    inode: int
    length: int
    file_type: int
    name: bytes

    @property
    def entry(self) -> NewDirent:
        """The entry without its location."""
        return NewDirent(self.name, self.inode, self.file_type)

    @property
    def used(self) -> int:
        """Bytes that the entry itself needs."""
        return dirent_size(len(self.name)) if self.inode else 0


@dataclass(frozen=True, slots=True)
class NewDirent:
    """An entry to add to a directory."""

    name: bytes
    inode: int
    file_type: int


def dirent_size(name_length: Numbers) -> Numbers:
    """Bytes that an entry with a name of that length (integer or column) needs."""
    return -(-(DIRENT.size + name_length) // ALIGNMENT) * ALIGNMENT


@dataclass(slots=True)
class DirentArea:
    """An area with directory entries: a leaf block up to its tail, or a part of an inode.

    Attributes:
        data: bytearray or uint8 array, changed in place.
        start: offset of the first entry in bytes.
        end: offset of the end of the entries in bytes.
        block_size: bytes; determines the encoding of record lengths.
        typed: entries hold the file type.
    """

    data: Buffer
    start: int
    end: int
    block_size: int
    typed: bool = True

    def records(self) -> Iterator[DirentRecord]:
        """Every record in order.

        Raises:
            CorruptError: a record does not fit into the area.
        """
        view, at = memoryview(self.data), self.start
        while at + DIRENT.size <= self.end:
            inode, stored, name, kind = DIRENT.table(view, 1, at)[0].item()
            length = int(record_length(stored, self.block_size))
            if length < dirent_size(0) or length % ALIGNMENT or at + length > self.end:
                raise CorruptError(DIRENT.name, at, f"record length {length}")
            if DIRENT.size + name > length:
                raise CorruptError(DIRENT.name, at, f"name length {name}")
            text = bytes(view[at + DIRENT.size : at + DIRENT.size + name])
            yield DirentRecord(at, inode, length, kind if self.typed else 0, text)
            at += length

    def entries(self) -> list[DirentRecord]:
        """The records in use."""
        return [slot for slot in self.records() if slot.inode and slot.name]

    def insert(self, entry: NewDirent) -> bool:
        """Add an entry; False if there is no room."""
        wanted = dirent_size(len(entry.name))
        for slot in self.records():
            if slot.length - slot.used < wanted:
                continue
            if slot.used:
                self._set_length(slot.offset, slot.used)
            self._write(slot.offset + slot.used, slot.length - slot.used, entry)
            return True
        return False

    def remove(self, offset: int) -> None:
        """Remove the entry at `offset` and clear its bytes."""
        before = None
        for slot in self.records():
            if slot.offset == offset:
                memoryview(self.data)[offset : offset + slot.length] = bytes(slot.length)
                first, length = (before.offset, before.length) if before else (offset, 0)
                self._set_length(first, length + slot.length)
                return
            before = slot

    def rewrite(self, entries: list[NewDirent]) -> None:
        """Replace all entries by these, packed, the last one up to the end; they must fit."""
        at = self.start
        memoryview(self.data)[self.start : self.end] = bytes(self.end - self.start)
        if not entries:
            self._set_length(at, self.end - at)
        for number, entry in enumerate(entries):
            last = number == len(entries) - 1
            length = self.end - at if last else dirent_size(len(entry.name))
            self._write(at, length, entry)
            at += length

    def _write(self, at: int, length: int, entry: NewDirent) -> None:
        size = len(entry.name)
        kind = entry.file_type if self.typed else 0
        set_fields(DIRENT, self.data, at, inode=entry.inode, name_len=size, file_type=kind)
        self._set_length(at, length)
        memoryview(self.data)[at + DIRENT.size : at + DIRENT.size + size] = entry.name

    def _set_length(self, at: int, length: int) -> None:
        stored = length
        if self.block_size >= 65536:
            stored = 65535 if length == self.block_size else (length & 65532) | (length >> 16 & 3)
        set_fields(DIRENT, self.data, at, rec_len=stored)


def entries_end(block_size: int, tailed: bool) -> int:
    """Byte offset of the end of the entries in a leaf block."""
    return block_size - DIRENT_TAIL.size if tailed else block_size


def write_tail(block: Buffer, seed: int | None) -> None:
    """Write the checksum tail of a leaf block; do nothing without checksums (`seed` None)."""
    if seed is None:
        return
    at = len(block) - DIRENT_TAIL.size
    set_fields(
        DIRENT_TAIL,
        block,
        at,
        det_reserved_zero1=0,
        det_rec_len=DIRENT_TAIL.size,
        det_reserved_zero2=0,
        det_reserved_ft=TAIL_FILE_TYPE,
        det_checksum=crc32c(seed, memoryview(block)[:at]),
    )
