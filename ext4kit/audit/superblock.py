"""The check of the journal superblock, and the repair of one changed bit in memory."""

from __future__ import annotations

import numpy as np

from ext4kit.audit import messages
from ext4kit.audit.bit_repair import NOWHERE, find_bit_repairs
from ext4kit.audit.damage import changed_bit
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


class PatchedSource:
    """A byte source with some bytes replaced in memory; nothing is written.

    Args:
        source: source of all other bytes.
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
            AccessError: as `read` of `source`.
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
        The file system to read the log with. If one changed bit explains a failed checksum, this
        file system has that bit repaired in memory.
    """
    place = _place(fs)
    if place is None:
        return fs
    source, block, data = place
    superblock = JournalSuperblock.parse(data)
    byte, mask = _changed_bit(superblock)
    mended = bytearray(data)
    if byte != NOWHERE:
        mended[byte] ^= mask
    if not JournalSuperblock.parse(mended).features.has_block_checksums:
        tally.add(Part.SUPERBLOCK, np.array([UNCHECKED]))
        return fs
    is_ok = superblock.checksum == superblock.computed_checksum
    tally.add(Part.SUPERBLOCK, np.array([OK if is_ok else BAD]))
    if is_ok:
        return fs
    read = f"checksum 0x{superblock.checksum:08x}"
    expected = f"checksum 0x{superblock.computed_checksum:08x}"
    if byte != NOWHERE:
        read, expected = changed_bit(data, byte, mask)
    offset = block * fs.blocks.block_size
    found = offset + max(byte, 0)
    findings.add(_finding("superblock-checksum", block, found, read, expected))
    if byte == NOWHERE:
        return fs
    patched = PatchedSource(source, offset, bytes(mended))
    if source is fs.journal_device:
        other = fs.with_blocks(fs.blocks)
        other.journal_device = patched
        return other
    return fs.with_blocks(SourceBlocks(patched, fs.blocks.block_size, fs.blocks.blocks_count))


def _changed_bit(superblock: JournalSuperblock) -> tuple[int, int]:
    """(byte, bit) that explains the failed checksum; (-1, 0) if no bit does."""
    difference = superblock.checksum ^ superblock.computed_checksum
    if not difference or not superblock.checksum:
        return NOWHERE, 0
    hole = SUPERBLOCK.offset_of("s_checksum")
    mends = find_bit_repairs(np.array([difference]), SUPERBLOCK.size, hole)
    return int(mends.byte[0]), int(mends.mask[0])


def _finding(code: str, block: int, offset: int, read: str, expected: str) -> AuditFinding:
    return AuditFinding(
        code, Severity.ERROR, transaction=None, log_block=0, fs_block=block, byte_offset=offset,
        target=None, read=read, expected=expected, meaning=messages.SUPERBLOCK,
    )  # fmt: skip


def tell_refusal(log: Log, findings: AuditFindings) -> None:
    """Report why a recovery would not load the log, apart from its checksum."""
    if not log.refusal or findings.counts:
        return
    block = log.superblock_block
    offset = block * log.reader.blocks.block_size
    expected = "a journal superblock that a recovery accepts"
    findings.add(_finding("superblock-refused", block, offset, log.refusal, expected))


def _place(fs: FileSystem) -> tuple[Source, int, bytes] | None:
    """(source, block in it, bytes) of the journal superblock; None if it is not found."""
    size = fs.blocks.block_size
    try:
        if fs.journal_device is not None:
            source = fs.journal_device
            block = SUPERBLOCK_OFFSET // size + 1 if _is_device(source) else 0
        elif isinstance(fs.blocks, SourceBlocks) and fs.superblock.journal_inode:
            source = fs.blocks.source
            runs = fs.block_map(fs.inode(fs.superblock.journal_inode))
            if not len(runs) or runs.logical[0] != 0:
                return None
            block = int(runs.physical[0])
        else:
            return None
        return source, block, bytes(source.read(block * size, SUPERBLOCK.size))
    except (AccessError, CorruptError, RequestError):
        return None


def _is_device(source: Source) -> bool:
    """Whether the journal is a device; only such a journal starts with an ext4 superblock."""
    header = peek(source, SUPERBLOCK_OFFSET, DEVICE_SUPERBLOCK.size)
    is_complete = len(header) == DEVICE_SUPERBLOCK.size
    return is_complete and Superblock.parse(header).magic == DEVICE_MAGIC
