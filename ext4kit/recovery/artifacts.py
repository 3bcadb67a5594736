"""The scan of unallocated space, and the artifacts derived from it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.carving import BlockFeatures, HeadlessBodies, feature_scanner
from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.history import History
from ext4kit.recovery.found_entries import FoundEntries, find_directory_entries
from ext4kit.recovery.mapped_blocks import count_mapped_as_used
from ext4kit.recovery.maps.extent_leaves import rebuild_extent_maps
from ext4kit.recovery.maps.indirect_maps import rebuild_indirect_maps
from ext4kit.recovery.maps.rebuilt import (
    RebuiltMaps,
    from_extent_maps,
    from_freed_blocks,
    from_indirect_maps,
    headless_bodies,
)
from ext4kit.recovery.older_states import find_older_states
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.recovery.untagged_content import DataEnds, UntaggedBlocks, data_end_scanner
from ext4kit.scan import Scanner, scan
from ext4kit.unallocated.indirect import indirect_scanner
from ext4kit.unallocated.metadata import MetadataBlocks, metadata_scanner
from ext4kit.unallocated.owners import index_known_inodes, number_inode_blocks
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.units import Progress


@dataclass(frozen=True, slots=True)
class UnallocatedScan:
    """Results of one scan of unallocated space and untagged journal blocks.

    Attributes:
        space: the space that was scanned.
        metadata: metadata blocks.
        pointers: blocks (n,) that may be indirect blocks.
        data_ends: data ends of each batch.
        block_features: block features for carving; None without carving.
    """

    space: UnallocatedSpace
    metadata: MetadataBlocks
    pointers: Int64s
    data_ends: list[DataEnds]
    block_features: BlockFeatures | None


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Artifacts of deleted files in unallocated space and untagged journal blocks.

    Attributes:
        history: the history, including older states that were found.
        space: the space that was scanned.
        metadata: metadata blocks.
        maps: rebuilt maps of files without a content state.
        entries: entries of directory blocks.
        untagged: untagged journal blocks that may hold file contents.
        headless_bodies: data listed by freed indirect blocks of files with an unknown start.
        block_features: block features for carving; None without carving.
    """

    history: History
    space: UnallocatedSpace
    metadata: MetadataBlocks
    maps: RebuiltMaps
    entries: FoundEntries
    untagged: UntaggedBlocks
    headless_bodies: HeadlessBodies
    block_features: BlockFeatures | None


def scan_unallocated(
    history: History, sources: Set[SearchSource], progress: Progress | None = None
) -> UnallocatedScan:
    """Scan the unallocated space once for all `sources`.

    Args:
        history: states in the tagged journal and the inode tables.
        sources: sources to search; with JOURNAL alone, nothing is read.
        progress: called with (bytes done, total bytes).
    """
    if sources - {SearchSource.JOURNAL}:
        count_mapped_as_used(history.fs)
    space, superblock = UnallocatedSpace(history), history.fs.superblock
    metadata, pointers = metadata_scanner(superblock), indirect_scanner(superblock)
    ends, features = data_end_scanner(history.fs), None
    scanners: list[Scanner[object]] = []
    if SearchSource.BLOCKS in sources:
        scanners += [metadata, pointers, ends]
    if SearchSource.RUNS in sources:
        scanners.append(feature_scanner)
    found = scan(space, scanners, progress)
    if SearchSource.RUNS in sources:
        features = BlockFeatures.concat([one for one in found.of(feature_scanner) if one])
    return UnallocatedScan(
        space,
        MetadataBlocks.concat(found.of(metadata)),
        np.concatenate([np.zeros(0, np.int64), *found.of(pointers)]),
        [one for one in found.of(ends) if one is not None],
        features,
    )


def derive_artifacts(
    history: History, scan: UnallocatedScan, sources: Set[SearchSource]
) -> Artifacts:
    """Derive older states, rebuilt maps and directory entries from a scan.

    Args:
        history: the states without the older ones.
        scan: the scan of unallocated space.
        sources: the sources of the scan.
    """
    space, metadata, features = scan.space, scan.metadata, scan.block_features
    untagged = UntaggedBlocks.from_scan(
        space.log, scan.data_ends, metadata.block[metadata.in_journal]
    )
    if SearchSource.BLOCKS not in sources:
        maps, entries, bodies = RebuiltMaps.empty(), FoundEntries.empty(), HeadlessBodies.empty()
        return Artifacts(history, space, metadata, maps, entries, untagged, bodies, features)
    metadata = number_inode_blocks(history.fs, space, metadata)
    owners = index_known_inodes(history, space, metadata)
    history = history.with_older_states(find_older_states(space, metadata))
    from_leaves = from_extent_maps(history, rebuild_extent_maps(space, metadata, owners))
    blocks = np.unique(metadata.block[~metadata.in_journal])
    trees = rebuild_indirect_maps(space, scan.pointers)
    maps = RebuiltMaps.concat(
        [from_leaves, from_freed_blocks(history, space, blocks), from_indirect_maps(trees)]
    )
    numbers = history.number[~history.is_allocated]
    # the last element stands for all larger inode numbers
    wanted = sparse_flags(int(numbers.max(initial=0)) + 2)
    wanted[numbers] = True
    entries = find_directory_entries(space, metadata, owners, wanted)
    bodies = headless_bodies(trees)
    return Artifacts(history, space, metadata, maps, entries, untagged, bodies, features)
