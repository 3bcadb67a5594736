"""Metadata blocks in unallocated space, recognised by their content.

These are extent tree nodes, directory blocks, htree nodes, attribute blocks and blocks of inode
tables. A block is examined further only if a few of its bytes are plausible. With metadata_csum,
the seed of each block's checksum is computed, which identifies the owner (kernel
Documentation/filesystems/ext4/checksums.rst). Without metadata_csum, only the structure is tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Codes, Int32s, Int64s, Rows, RowSlice, UInt32s
from ext4kit.errors import AccessError
from ext4kit.parsers import directory, extents, htree, xattr
from ext4kit.parsers.checksums import crc32c_seeds, crc32c_words
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.journal import MAGIC_BYTES
from ext4kit.parsers.superblock import Superblock
from ext4kit.scan import BlockBatch, Scanner
from ext4kit.unallocated.inode_tables import find_inode_table_blocks
from ext4kit.unallocated.space import UnallocatedSpace

EXTENTS, DIRECTORY, HTREE, XATTR, INODES, LOG = range(1, 7)
NO_SEED = -1
_DOT = ord(".")
_LOG_MAGIC = int.from_bytes(MAGIC_BYTES, "little")
_LOG_KINDS = np.arange(1, 6) << 24  # big-endian block types of jbd2, read as little-endian integers


@dataclass(frozen=True, slots=True)
class MetadataBlocks(Table):
    """Metadata blocks as columns (n,).

    Attributes:
        kind: int8, EXTENTS, DIRECTORY, HTREE, XATTR, INODES, or LOG for jbd2's own blocks.
        block: int64, file system block, or block of the journal.
        in_journal: True where `block` is a block of the journal.
        seed: int64, checksum seed of the block; NO_SEED without metadata_csum and for inodes and
            attributes.
        stated_number: int64, number that the block itself states: for the first block of a
            directory its inode number, for inodes the inode number of the first slot, for
            attributes the home block; 0 for none.
        entries: int32, number of extents or index entries, of names, or of slots in use.
    """

    kind: Codes
    block: Int64s
    in_journal: Bools
    seed: Int64s
    stated_number: Int64s
    entries: Int32s

    def of_kind(self, kind: int) -> MetadataBlocks:
        """Blocks of one kind."""
        return self.take(self.kind == kind)


def read_metadata_blocks(space: UnallocatedSpace, structures: MetadataBlocks) -> Bytes2D:
    """The bytes of the blocks of a table, uint8 (n, block size); unreadable blocks are zeros."""
    data = np.zeros((len(structures), space.fs.superblock.block_size), np.uint8)
    logged = structures.in_journal
    in_place = structures.block[~logged]
    try:
        data[~logged] = space.blocks.read_many(in_place)
    except AccessError:
        data[~logged], _ = space.fs.fetch(in_place)
    if space.log is not None and logged.any():
        data[logged] = space.log.reader.read(structures.block[logged])
    return data


def _make(
    kind: int,
    block: Int64s,
    in_log: bool,
    seed: Int64s | None = None,
    number: Int64s | None = None,
    held: Int64s | None = None,
) -> MetadataBlocks:
    count = len(block)
    return MetadataBlocks(
        np.full(count, kind, np.int8),
        block,
        np.full(count, in_log),
        np.full(count, NO_SEED) if seed is None else seed,
        np.zeros(count, np.int64) if number is None else number,
        np.zeros(count, np.int32) if held is None else held.astype(np.int32),
    )


def metadata_scanner(superblock: Superblock) -> Scanner[MetadataBlocks]:
    """Scanner that finds the metadata of one file system.

    Args:
        superblock: geometry, features and checksum seed of that file system, which may be the
            present one or a lost one.
    """

    def scanner(batch: BlockBatch) -> MetadataBlocks:
        words = batch.data.view("<u4")
        return MetadataBlocks.concat([find(superblock, batch, words) for find in _FINDERS])

    return Scanner("metadata", scanner)


# -- extent tree nodes --------------------------------------------------------------------


def _find_extents(superblock: Superblock, batch: BlockBatch, words: UInt32s) -> MetadataBlocks:
    room = extents.capacity(superblock.block_size)
    hits = np.flatnonzero(words[:, 0] & 0xFFFF == extents.MAGIC)
    hits = hits[words[hits, 1] & 0xFFFF == room]
    if not len(hits):
        return _make(EXTENTS, hits, batch.in_log)
    rows = batch.data[hits]
    sane, held = is_extent_node(rows, superblock.blocks_count)
    rows, hits, held = rows[sane], hits[sane], held[sane]
    seed = None
    if superblock.has_metadata_checksums:
        end = extents.HEADER.size + room * extents.EXTENT.size
        stored = extents.TAIL.columns(rows, end)["et_checksum"].astype(np.int64)
        seed = crc32c_seeds(stored, rows[:, :end], end)
    return _make(EXTENTS, batch.blocks[hits], batch.in_log, seed, None, held)


def is_extent_node(rows: Bytes2D, blocks_count: int) -> tuple[Bools, Int64s]:
    """(bool (n,), entries (n,)): True where entries ascend and point into the file system."""
    sound, held, _, depth = extents.parse_headers(rows)
    sound &= held > 0
    row, slot = expand(np.where(sound, held, 0))
    logical, length, physical, _ = extents.parse_extents(rows, row, slot)
    first, child = extents.parse_children(rows, row, slot)
    inner = depth[row] > 0
    start, target = np.where(inner, first, logical), np.where(inner, child, physical)
    span = np.where(inner, 1, length)
    good = (span > 0) & (target > 0) & (target + span <= blocks_count)
    good[1:] &= (row[1:] != row[:-1]) | (start[1:] >= start[:-1] + span[:-1])
    sound[row[~good]] = False
    return sound, held


# -- directories --------------------------------------------------------------------------


def _find_directories(superblock: Superblock, batch: BlockBatch, words: UInt32s) -> MetadataBlocks:
    typed = Incompat.FILETYPE in superblock.features
    size, data = superblock.block_size, batch.data
    # the first eight bytes may be those of a directory entry
    inode, head = words[:, 0], words[:, 1]
    fits: Bools = (inode <= superblock.inodes_count) & (head & 3 == 0) & (head != 0)
    place = np.flatnonzero(fits)
    head = head[place].astype(np.int64)
    step = directory.record_length(head & 0xFFFF, superblock.block_size)
    length, kind = head >> 16 & 0xFF, head >> 24
    good = (step >= 12) & (step <= superblock.block_size) & (length + 8 <= step) & (kind <= 7)
    good &= (length > 0) == (inode[place] > 0)
    fits[place] = good
    hits = np.flatnonzero(fits)
    seed = None
    if superblock.has_metadata_checksums:
        tail = words.shape[1] - directory.DIRENT_TAIL.size // 4
        mark = directory.DIRENT_TAIL.size | directory.TAIL_FILE_TYPE << 24
        hits = hits[(words[hits, tail] == 0) & (words[hits, tail + 1] == mark)]
    if not len(hits):
        return _make(DIRECTORY, hits, batch.in_log)
    rows = data[hits]
    entries, broken = directory.parse_entries(rows, typed)
    held = np.bincount(entries.block, minlength=len(rows))
    sound = broken < 0
    if not superblock.has_metadata_checksums:
        sound &= (held > 0) & ~(_is_first_block(words, hits) & _has_index_root(words, hits))
        odd = (entries.inode > superblock.inodes_count) | ~directory.are_names(rows, entries)
        odd |= entries.file_type > 7
        sound[entries.block[odd]] = False
    rows, hits, held = rows[sound], hits[sound], held[sound]
    if superblock.has_metadata_checksums:
        end = size - directory.DIRENT_TAIL.size
        stored = words[hits, -1].astype(np.int64)
        seed = crc32c_seeds(stored, rows[:, :end], end)
    number = np.where(_is_first_block(words, hits), words[hits, 0], 0).astype(np.int64)
    return _make(DIRECTORY, batch.blocks[hits], batch.in_log, seed, number, held)


def _is_first_block(words: UInt32s, hits: Rows | RowSlice) -> Bools:
    """Per hit (bool): True for the first block of a directory, which begins with `.`."""
    found: Bools = (words[hits, 1] & 0xFFFFFF == 12 | 1 << 16) & (words[hits, 2] == _DOT)
    return found


def _find_htree(superblock: Superblock, batch: BlockBatch, words: UInt32s) -> MetadataBlocks:
    """Htree blocks: index roots, which hold `.` and `..`, and index nodes."""
    size = superblock.block_size
    root = _is_first_block(words, slice(None))
    node = (words[:, 0] == 0) & (words[:, 1] == size % (1 << 16))
    hits = np.flatnonzero(root | node)
    if not len(hits):
        return _make(HTREE, hits, batch.in_log)
    hits = hits[~root[hits] | _has_index_root(words, hits)]
    start = np.where(root[hits], htree.DX_ROOT.size, htree.FAKE_DIRENT.size)
    counts = words[hits, start // 4].astype(np.int64)
    limit, held = counts & 0xFFFF, counts >> 16
    room = (size - start) // htree.DX_ENTRY.size
    tail = room - limit
    sane = (held >= 1) & (held <= limit) & (tail == int(superblock.has_metadata_checksums))
    hits, start, held, limit = hits[sane], start[sane], held[sane], limit[sane]
    seed = None
    if superblock.has_metadata_checksums:
        # the checksum omits the bytes between the entries and the tail
        rows = batch.data[hits]
        used = start + held * htree.DX_ENTRY.size
        tail = start + limit * htree.DX_ENTRY.size
        pieces = [
            row[:end].tobytes() + row[at : at + 4].tobytes() + bytes(4)
            for row, end, at in zip(rows, used.tolist(), tail.tolist(), strict=True)
        ]
        stored = rows[np.arange(len(rows))[:, None], tail[:, None] + np.arange(4, 8)]
        stored = np.ascontiguousarray(stored).view("<u4").reshape(-1).astype(np.int64)
        seed = crc32c_seeds(stored, iter(pieces), used + htree.DX_TAIL.size)
    number = np.where(root[hits], words[hits, 0], 0).astype(np.int64)
    return _make(HTREE, batch.blocks[hits], batch.in_log, seed, number, held)


def _has_index_root(words: UInt32s, hits: Rows) -> Bools:
    """Per hit (bool): True where the record of `..` fills the block and has a `dx_root_info`."""
    size = words.shape[1] * 4
    found: Bools = words[hits, 4] & 0xFFFFFF == (size - 12) % (1 << 16) | 2 << 16
    found &= words[hits, 5] == _DOT | _DOT << 8
    found &= (words[hits, 6] == 0) & (words[hits, 7] >> 8 & 0xFF == htree.INFO_LENGTH)
    return found


# -- attributes and inodes ----------------------------------------------------------------


def _find_xattrs(superblock: Superblock, batch: BlockBatch, words: UInt32s) -> MetadataBlocks:
    hits = np.flatnonzero(words[:, 0] == xattr.MAGIC)
    hits = hits[(words[hits, 2] == 1) & (words[hits, 1] > 0)]
    if not len(hits):
        return _make(XATTR, hits, batch.in_log)
    blocks = batch.blocks[hits]
    home = np.zeros(len(hits), np.int64) if batch.in_log else blocks
    if superblock.has_metadata_checksums:
        # the block number (below 2**32) that each checksum covers in addition to the block
        rows = batch.data[hits]
        at = xattr.XATTR_BLOCK_HEADER.offset_of("h_checksum")
        stored = xattr.XATTR_BLOCK_HEADER.columns(rows)["h_checksum"].astype(np.int64)
        cleared = rows.copy()
        cleared[:, at : at + 4] = 0
        behind = crc32c_seeds(stored, cleared, rows.shape[1])
        low = crc32c_seeds(behind, np.zeros((len(rows), 4), np.uint8), 4)
        home = crc32c_words(superblock.seed, low)
        kept = (home > 0) & (home < superblock.blocks_count)
        blocks, home = blocks[kept], home[kept]
    return _make(XATTR, blocks, batch.in_log, None, home)


def _find_inodes(superblock: Superblock, batch: BlockBatch, words: UInt32s) -> MetadataBlocks:
    hits, first, held = find_inode_table_blocks(superblock, batch.data, words)
    return _make(INODES, batch.blocks[hits], batch.in_log, None, first, held)


def _find_journal_blocks(
    superblock: Superblock, batch: BlockBatch, words: UInt32s
) -> MetadataBlocks:
    """Descriptor, commit and revoke blocks of a former journal, found in unallocated space."""
    hits = np.flatnonzero(words[:, 0] == _LOG_MAGIC)
    hits = hits[np.isin(words[hits, 1], _LOG_KINDS)]
    return _make(LOG, batch.blocks[hits], batch.in_log)


_FINDERS = (
    _find_extents, _find_directories, _find_htree, _find_xattrs, _find_inodes, _find_journal_blocks,
)  # fmt: skip
