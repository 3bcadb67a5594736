"""Identify the file systems that artifacts belong to: seed, block size and inode size.

A directory inode maps a block whose `.` entry states the inode number. With this number, the
checksums of inode and block give the seed of the file system, even if its UUID is unknown. If
several directories agree, this proves the seed and the block size. Without metadata_csum, the pairs
of inode place and inode number must agree on the location of the inode tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.source import Source
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import SourceBlocks
from ext4kit.lost.artifacts import FsArtifacts
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import Compat, Features, Incompat, RoCompat
from ext4kit.parsers.inode import GOOD_OLD_SIZE, inode_checksums_ok, parse_inodes
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, Superblock
from ext4kit.parsers.traces import checksum_residues, directory_inode_seeds, inode_marks

BLOCK_SIZES = (4096, 1024, 2048, 8192, 16384, 32768, 65536)
INODE_SIZES = (256, 128, 512, 1024, 2048, 4096)
BLOCKS_AT_ONCE = 2048
AGREEING = 2  # minimum directories that give the same seed, if nothing else confirms the seed


@dataclass(frozen=True, slots=True)
class DirectoryPairs(Table):
    """Directories whose inode and first block were both found, int64 columns (n,).

    Attributes:
        place: byte offset of the inode; number: inode number in the `.` entry of the block.
        block: byte offset of the block; generation: generation of the inode.
    """

    place: Int64s
    number: Int64s
    block: Int64s
    generation: Int64s


@dataclass(frozen=True, slots=True)
class FsIdentity:
    """A file system identified by artifacts.

    Attributes:
        superblock: a superblock of the file system if one was found, else a synthetic one.
        pairs: the directories from which the identity is derived.
        superblock_found: whether `superblock` was found and is not synthetic.
        was_unmounted: whether the journal shows an unmount; None if no journal was found.
    """

    superblock: Superblock
    pairs: DirectoryPairs
    superblock_found: bool
    was_unmounted: bool | None

    @property
    def seed(self) -> int | None:
        """The checksum seed of the file system; None without metadata_csum."""
        return self.superblock.seed if self.superblock.has_metadata_checksums else None


def identify_file_systems(
    source: Source, traces: FsArtifacts, present: FileSystem | None
) -> list[FsIdentity]:
    """The file systems that were on a volume before the present one, the best proven first.

    Args:
        source: the volume.
        traces: artifacts of the volume.
        present: the file system that is there now, None on a bare volume.
    """
    found = []
    for size in BLOCK_SIZES:
        pairs = _match_directories(traces, size, source.size // GOOD_OLD_SIZE)
        if len(pairs):
            found += list(_with_block_size(source, traces, pairs, size, present))
    kept = [origin for origin in found if not _is_present(origin, present)]
    kept.sort(key=lambda origin: -len(origin.pairs))
    seeds = [origin.seed for origin in kept]  # the same seed with another block size is chance
    return [one for at, one in enumerate(kept) if one.seed is None or one.seed not in seeds[:at]]


def _is_present(origin: FsIdentity, present: FileSystem | None) -> bool:
    """Whether an identified file system is the present one."""
    if present is None:
        return False
    now = present.superblock
    if origin.seed is not None:
        return now.has_metadata_checksums and origin.seed == now.seed
    old = origin.superblock
    if now.has_metadata_checksums or (old.block_size, old.inode_size) != (
        now.block_size,
        now.inode_size,
    ):
        return False
    number = np.minimum(origin.pairs.number, now.inodes_count)
    block, offset = present.inode_location(number)
    own = (block * now.block_size + offset == origin.pairs.place) & (number > 0)
    own &= present.bitmaps.inodes_in_use(number)
    return int(own.sum()) * 2 > len(own)


def _match_directories(traces: FsArtifacts, size: int, most: int) -> DirectoryPairs:
    """The directories whose first block, at a block size of `size`, begins with a `.` entry.

    Args:
        traces: artifacts of the volume.
        size: block size, bytes.
        most: maximum number of inodes that the volume has room for.
    """
    place, block, generation = traces.directory_inodes
    at, number, _ = traces.dot_blocks
    if not len(at):
        return DirectoryPairs.empty()
    byte = np.where(block < (1 << 62) // size, block, 0) * size
    row = SortedIndex(at).rows(byte)
    fits = (row != NO_ROW) & (number[row] <= most)
    return DirectoryPairs(place[fits], number[row[fits]], byte[fits], generation[fits])


def _with_block_size(
    source: Source,
    traces: FsArtifacts,
    pairs: DirectoryPairs,
    size: int,
    present: FileSystem | None,
) -> Iterator[FsIdentity]:
    """The file systems with this block size: one per seed, and one without checksums."""
    uuid = None if present is None else present.superblock.uuid
    traces = replace(
        traces, superblocks=tuple(found for found in traces.superblocks if found[1].uuid != uuid)
    )
    reader = SourceBlocks(source, size, source.size // size)
    seeds = _derive_seeds(reader, traces, pairs)
    for seed in np.unique(seeds[seeds >= 0]).tolist():
        own = pairs.take(seeds == seed)
        inode_size = _inode_size_by_checksums(source, own, size, seed)
        if inode_size:
            yield _identity(source, traces, own, (size, inode_size, seed))
    plain = (seeds < 0) & ~np.isin(pairs.block + size, traces.dirblock_tails)
    rest = pairs.take(plain & ~traces.in_journals(pairs.place))
    inode_size = _inode_size_by_positions(rest, size) if len(rest) >= AGREEING else 0
    if inode_size:
        yield _identity(source, traces, rest, (size, inode_size, None))


def _known_seeds(traces: FsArtifacts) -> dict[int, bytes]:
    """Seeds and UUIDs of all superblocks and journals found."""
    seeds = {superblock.seed: superblock.uuid for _, superblock in traces.superblocks}
    return seeds | {crc32c(ONES, log.uuid): log.uuid for _, log in traces.journals}


def _derive_seeds(reader: SourceBlocks, traces: FsArtifacts, pairs: DirectoryPairs) -> Int64s:
    """Per pair: the seed from its block or inode, if other pairs confirm it; else -1."""
    sure = np.array(list(_known_seeds(traces)), np.int64)
    said = np.full(len(pairs), -1)
    tailed = np.flatnonzero(np.isin(pairs.block + reader.block_size, traces.dirblock_tails))
    for at in range(0, len(tailed), BLOCKS_AT_ONCE):
        some = tailed[at : at + BLOCKS_AT_ONCE]
        rows = read_records(reader.source, pairs.block[some], reader.block_size)
        residues = checksum_residues(directory_inode_seeds(rows), pairs.generation[some])
        said[some] = residues ^ pairs.number[some]
    seeds = _keep_agreeing(said, pairs.number, sure)
    for size in INODE_SIZES:  # an htree root has its checksum elsewhere
        rest = np.flatnonzero((seeds < 0) & (pairs.place % size == 0))
        residues, whole = inode_marks(read_records(reader.source, pairs.place[rest], size))
        said = np.where(whole, residues ^ pairs.number[rest], -1)
        known = np.append(sure, np.unique(seeds[seeds >= 0]))
        seeds[rest] = _keep_agreeing(said, pairs.number[rest], known)
    return seeds


def _keep_agreeing(seeds: Int64s, numbers: Int64s, known: Int64s) -> Int64s:
    """The seeds, with -1 for each seed that is neither known nor shared by several directories.

    Several journal copies of one inode count as one.
    """
    each = np.unique(np.stack([seeds, numbers], axis=1)[seeds >= 0], axis=0)
    values, counts = np.unique(each[:, 0], return_counts=True)
    return np.where(np.isin(seeds, np.append(known, values[counts >= AGREEING])), seeds, -1)


def read_records(source: Source, places: Int64s, size: int) -> Bytes2D:
    """uint8 (n, size): records at multiples of their size; unreadable records are zeros."""
    reader = SourceBlocks(source, size, source.size // size)
    try:
        return reader.read_many(places // size)
    except AccessError:
        rows = np.zeros((len(places), size), np.uint8)
        for row, place in enumerate(places.tolist()):
            try:
                rows[row] = np.frombuffer(source.read(place, size), np.uint8)
            except AccessError:
                continue
        return rows


def _inode_size_by_checksums(
    source: Source, pairs: DirectoryPairs, block_size: int, seed: int
) -> int:
    """The inode size with the most valid checksums; 0 if no checksum is valid."""
    best, result = 0, 0
    for size in INODE_SIZES:
        fits = (pairs.place % size == 0) & (pairs.place + size <= source.size)
        some = pairs.take(np.flatnonzero(fits)[: BLOCKS_AT_ONCE * 8])
        if size > block_size or not len(some):
            continue
        superblock = synthetic_superblock(source, (block_size, size, seed), 0)
        table = parse_inodes(read_records(source, some.place, size), some.number, superblock)
        right = int(inode_checksums_ok(table, superblock).sum())
        if right > best:
            best, result = right, size
    return result


def _inode_size_by_positions(pairs: DirectoryPairs, block_size: int) -> int:
    """The inode size that puts the pairs in the fewest tables; 0 if no size is consistent."""
    fewest, result = len(pairs) + 1, 0
    for size in INODE_SIZES:
        origin = pairs.place - (pairs.number - 1) * size
        count = len(np.unique(origin))
        fits = (origin % block_size == 0).mean() > 0.5 and count * 2 <= len(pairs) + 1
        if size <= block_size and fits and count < fewest:
            fewest, result = count, size
    return result


def _identity(
    source: Source, traces: FsArtifacts, pairs: DirectoryPairs, shape: tuple[int, int, int | None]
) -> FsIdentity:
    """The identity of the file system of these pairs, with its superblock if one was found."""
    copy = _matching_superblock(traces, shape)
    uuid = copy.uuid if copy else _known_seeds(traces).get(-1 if shape[2] is None else shape[2])
    largest = int(pairs.number.max())
    superblock = copy or synthetic_superblock(source, shape, largest, uuid or bytes(16))
    return FsIdentity(superblock, pairs, copy is not None, _was_unmounted(traces, uuid, shape[0]))


def _matching_superblock(
    traces: FsArtifacts, shape: tuple[int, int, int | None]
) -> Superblock | None:
    """The newest superblock found that matches this file system."""
    size, inode_size, seed = shape
    fits = [
        superblock
        for _, superblock in traces.superblocks
        if (superblock.block_size, superblock.inode_size) == (size, inode_size)
        and (superblock.seed if superblock.has_metadata_checksums else None) == seed
    ]
    if seed is None and len({superblock.uuid for superblock in fits}) > 1:
        return None  # nothing shows which of them is the right one
    return max(fits, key=lambda one: one.write_time, default=None)


def _was_unmounted(traces: FsArtifacts, uuid: bytes | None, size: int) -> bool | None:
    if uuid is None:
        return None
    starts = [log.start for _, log in traces.journals if (log.uuid, log.block_size) == (uuid, size)]
    return all(start == 0 for start in starts) if starts else None


def synthetic_superblock(
    source: Source, shape: tuple[int, int, int | None], largest: int, uuid: bytes = bytes(16)
) -> Superblock:
    """Make a superblock from the known values.

    Args:
        source: the volume.
        shape: block size, inode size, and the checksum seed or None.
        largest: the largest known inode number.
        uuid: UUID of the file system, if known.
    """
    size, inode_size, seed = shape
    per_group = 8 * size
    incompat = Incompat.FILETYPE | Incompat.EXTENT | Incompat.BIT64
    ro_compat = RoCompat.SPARSE_SUPER | RoCompat.LARGE_FILE | RoCompat.HUGE_FILE
    if seed is not None:
        incompat |= Incompat.METADATA_CSUM_SEED
        ro_compat |= RoCompat.METADATA_CSUM
    blank = Superblock.parse(bytes(SUPERBLOCK.size))
    return replace(
        blank,
        magic=MAGIC,
        revision=1,
        inodes_count=-(-largest // per_group) * per_group,
        blocks_count=source.size // size,
        first_data_block=int(size == 1024),
        log_block_size=(size // 1024).bit_length() - 1,
        log_cluster_size=(size // 1024).bit_length() - 1,
        blocks_per_group=per_group,
        clusters_per_group=per_group,
        inodes_per_group=per_group,
        first_inode=11,
        raw_inode_size=inode_size,
        raw_descriptor_size=64,
        features=Features(Compat.HAS_JOURNAL, incompat, ro_compat),
        uuid=uuid,
        journal_inode=8,
        checksum_seed=seed or 0,
    )
