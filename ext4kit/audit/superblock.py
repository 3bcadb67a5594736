"""The check of the journal superblock, and the repair of one changed bit in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.audit import messages
from ext4kit.audit.bit_repair import NOWHERE, find_bit_repairs
from ext4kit.audit.result import (
    BAD,
    OK,
    UNCHECKED,
    AuditFinding,
    AuditFindings,
    Part,
    VerdictCounts,
)
from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.evidence.source import Source, peek
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import SourceBlocks
from ext4kit.journal.log import Log
from ext4kit.parsers.journal import SUPERBLOCK, JournalSuperblock
from ext4kit.parsers.superblock import MAGIC as DEVICE_MAGIC
from ext4kit.parsers.superblock import SUPERBLOCK as DEVICE_SUPERBLOCK
from ext4kit.parsers.superblock import SUPERBLOCK_OFFSET, Superblock
from ext4kit.problems import Severity


@dataclass(frozen=True, slots=True)
class SuperblockPlace:
    """Location of a journal superblock: `block` of `source`, and its 1,024 bytes."""

    source: Source
    block: int
    block_size: int
    data: bytes

    @property
    def offset(self) -> int:
        """Byte offset of the superblock in `source`."""
        return self.block * self.block_size


class PatchedSource:
    """A byte source with some bytes replaced in memory; nothing is written.

    Args:
        source: gives all other bytes.
        at: offset of the replaced bytes.
        data: their replacement.
    """

    def __init__(self, source: Source, at: int, data: bytes) -> None:
        self.source = source
        self.name = source.name
        self.size = source.size
        self._at = at
        self._data = data

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on.

        Raises:
            AccessError: as `source`.
        """
        data = self.source.read(offset, length)
        start, end = max(offset, self._at), min(offset + length, self._at + len(self._data))
        if start >= end:
            return data
        changed = bytearray(data)
        changed[start - offset : end - offset] = self._data[start - self._at : end - self._at]
        return memoryview(bytes(changed))

    def close(self) -> None:
        """Do nothing: the owner of the source closes it."""


def check_superblock(fs: FileSystem, findings: AuditFindings, tally: VerdictCounts) -> FileSystem:
    """Judge the journal superblock.

    Returns:
        The file system to read the log with. If one changed bit explains a failed checksum, that
        bit is repaired in it.
    """
    place = _place(fs)
    if place is None:
        return fs
    superblock = JournalSuperblock.parse(place.data)
    byte, mask = _changed_bit(superblock)
    mended = _with_bit(place.data, byte, mask)
    truly = JournalSuperblock.parse(mended)
    if not truly.features.has_block_checksums:
        tally.add(Part.SUPERBLOCK, np.array([UNCHECKED]))
        return fs
    is_ok = superblock.checksum == superblock.computed_checksum
    tally.add(Part.SUPERBLOCK, np.array([OK if is_ok else BAD]))
    if is_ok:
        return fs
    findings.add(_finding(place, superblock, byte, mask))
    return fs if byte == NOWHERE else _reading(fs, place, mended)


def _changed_bit(superblock: JournalSuperblock) -> tuple[int, int]:
    """(byte, bit) that explains the failed checksum; (-1, 0) if no bit does."""
    difference = superblock.checksum ^ superblock.computed_checksum
    if not difference or not superblock.checksum:
        return NOWHERE, 0
    hole = SUPERBLOCK.offset_of("s_checksum")
    mends = find_bit_repairs(np.array([difference]), SUPERBLOCK.size, hole)
    return int(mends.byte[0]), int(mends.mask[0])


def _with_bit(data: bytes, byte: int, mask: int) -> bytes:
    body = bytearray(data)
    if byte != NOWHERE:
        body[byte] ^= mask
    return bytes(body)


def _finding(
    place: SuperblockPlace, superblock: JournalSuperblock, byte: int, mask: int
) -> AuditFinding:
    read = f"checksum 0x{superblock.checksum:08x}"
    expected = f"checksum 0x{superblock.computed_checksum:08x}"
    if byte != NOWHERE:
        value = place.data[byte]
        read, expected = f"byte 0x{value:02x}", f"byte 0x{value ^ mask:02x}"
    return AuditFinding(
        code="superblock-checksum",
        severity=Severity.ERROR,
        transaction=None,
        log_block=0,
        fs_block=place.block,
        byte_offset=place.offset + max(byte, 0),
        target=None,
        read=read,
        expected=expected,
        meaning=messages.SUPERBLOCK,
    )


def tell_refusal(log: Log, findings: AuditFindings) -> None:
    """Report why a recovery would not load the log, apart from its checksum."""
    if not log.refusal or findings.counts:
        return
    block = log.superblock_block
    findings.add(
        AuditFinding(
            code="superblock-refused",
            severity=Severity.ERROR,
            transaction=None,
            log_block=0,
            fs_block=block,
            byte_offset=block * log.reader.blocks.block_size,
            target=None,
            read=log.refusal,
            expected="a journal superblock that a recovery accepts",
            meaning=messages.SUPERBLOCK,
        )
    )


def _place(fs: FileSystem) -> SuperblockPlace | None:
    """Location of the journal superblock; None if it is not found."""
    size = fs.blocks.block_size
    try:
        if fs.journal_device is not None:
            source = fs.journal_device
            block = SUPERBLOCK_OFFSET // size + 1 if _is_device(source) else 0
        elif isinstance(fs.blocks, SourceBlocks) and fs.superblock.journal_inode:
            source, block = fs.blocks.source, _first_block(fs)
        else:
            return None
        return SuperblockPlace(
            source, block, size, bytes(source.read(block * size, SUPERBLOCK.size))
        )
    except (AccessError, CorruptError, RequestError):
        return None


def _is_device(source: Source) -> bool:
    """Whether the journal is a device: it starts with an ext4 superblock, unlike an inode's log."""
    header = peek(source, SUPERBLOCK_OFFSET, DEVICE_SUPERBLOCK.size)
    if len(header) < DEVICE_SUPERBLOCK.size:
        return False
    return Superblock.parse(header).magic == DEVICE_MAGIC


def _first_block(fs: FileSystem) -> int:
    inode = fs.inode(fs.superblock.journal_inode)
    runs = fs.block_map(inode)
    if not len(runs) or runs.logical[0] != 0:
        raise CorruptError("journal inode", None, "has no first block")
    return int(runs.physical[0])


def _reading(fs: FileSystem, place: SuperblockPlace, data: bytes) -> FileSystem:
    """The file system, read with the repaired journal superblock."""
    mended = PatchedSource(place.source, place.offset, data)
    if place.source is fs.journal_device:
        other = fs.with_blocks(fs.blocks)
        other.journal_device = mended
        return other
    return fs.with_blocks(SourceBlocks(mended, fs.blocks.block_size, fs.blocks.blocks_count))
