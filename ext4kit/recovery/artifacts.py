"""The scan of unallocated space, and the artifacts derived from it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from ext4kit.carving import BlockFeatures, HeadlessBodies
from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.history import History
from ext4kit.recovery.found_entries import FoundEntries, find_directory_entries
from ext4kit.recovery.kept_scan import read_scan
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
from ext4kit.recovery.unallocated_scan import (
    ScanRange,
    ScanResults,
    scan_range,
    whole_space,
)
from ext4kit.recovery.untagged_content import UntaggedBlocks
from ext4kit.scan import KeptScan
from ext4kit.unallocated.metadata import MetadataBlocks
from ext4kit.unallocated.owners import index_known_inodes, number_inode_blocks
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.units import Progress


@dataclass(frozen=True, slots=True)
class UnallocatedScan:
    """Results of one scan of unallocated space and untagged journal blocks.

    Attributes:
        space: the space that was scanned.
        results: what was found.
        has_features: whether block features were searched.
    """

    space: UnallocatedSpace
    results: ScanResults
    has_features: bool


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
    history: History,
    sources: Set[SearchSource],
    progress: Progress | None = None,
    kept: KeptScan | None = None,
) -> UnallocatedScan:
    """Scan the unallocated space once for all `sources`, or take the results of an earlier scan.

    Args:
        history: states in the tagged journal and the inode tables.
        sources: sources to search; with JOURNAL alone, nothing is read.
        progress: called with (bytes done, total bytes).
        kept: an earlier scan of this space.

    Raises:
        RequestError: `kept` is no complete scan of this space.
    """
    is_search = bool(sources - {SearchSource.JOURNAL})
    space = whole_space(history) if is_search else UnallocatedSpace(history)
    if kept is not None and is_search:
        results = read_scan(kept, space, sources)
    else:
        every = range(space.batch_count) if is_search else range(0)
        results = scan_range(ScanRange(space, every), sources, progress)
    return UnallocatedScan(space, results, SearchSource.RUNS in sources)


def derive_artifacts(
    history: History, scan: UnallocatedScan, sources: Set[SearchSource]
) -> Artifacts:
    """Derive older states, rebuilt maps and directory entries from a scan.

    Args:
        history: the states without the older ones.
        scan: the scan of unallocated space.
        sources: the sources of the scan.
    """
    space, found = scan.space, scan.results
    metadata, features = found.metadata, found.block_features if scan.has_features else None
    untagged = UntaggedBlocks.from_scan(
        space.log, found.data_ends, metadata.block[metadata.in_journal]
    )
    if SearchSource.BLOCKS not in sources:
        maps, entries, bodies = RebuiltMaps.empty(), FoundEntries.empty(), HeadlessBodies.empty()
        return Artifacts(history, space, metadata, maps, entries, untagged, bodies, features)
    metadata = number_inode_blocks(history.fs, space, metadata)
    owners = index_known_inodes(history, space, metadata)
    history = history.with_older_states(find_older_states(space, metadata))
    from_leaves = from_extent_maps(history, rebuild_extent_maps(space, metadata, owners))
    blocks = np.unique(metadata.block[~metadata.in_journal])
    trees = rebuild_indirect_maps(space, found.pointers)
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
