"""The search of the space that no live file has, in one pass, and what comes of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from ext4kit.recovery.untagged_content import UntaggedBlocks, data_end_scanner
from ext4kit.unallocated.indirect import indirect_scanner
from ext4kit.unallocated.metadata import MetadataBlocks, metadata_scanner
from ext4kit.unallocated.owners import index_known_inodes, number_inode_blocks
from ext4kit.unallocated.space import Progress, Scanner, UnallocatedSpace, scan


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What free space and the undescribed parts of the log told.

    Attributes:
        history: with the inode states that were found.
        space: where it was looked.
        structures: blocks of metadata.
        maps: block maps of files without a whole state.
        names: entries of directory blocks.
        untagged: log blocks without a descriptor that may hold contents of files.
        headless_bodies: what freed indirect blocks name of files whose start is not known.
        block_features: what carving has to know of the blocks, None when nothing is to be carved.
    """

    history: History
    space: UnallocatedSpace
    structures: MetadataBlocks
    maps: RebuiltMaps
    names: FoundEntries
    untagged: UntaggedBlocks
    headless_bodies: HeadlessBodies
    block_features: BlockFeatures | None


def search(
    history: History, sources: Set[SearchSource], progress: Progress | None = None
) -> Artifacts:
    """Look through the space for what `sources` asks for.

    Args:
        history: what the described log and the inode tables tell.
        sources: with JOURNAL alone nothing is read.
        progress: called with (bytes done, bytes in all).
    """
    if sources - {SearchSource.JOURNAL}:
        count_mapped_as_used(history.fs)
    space = UnallocatedSpace(history)
    structures, pointers, ends, marks = scan_unallocated(space, sources, progress)
    loose = UntaggedBlocks.from_scan(space.log, ends, structures.block[structures.in_journal])
    if SearchSource.BLOCKS not in sources:
        maps, names = RebuiltMaps.empty(), FoundEntries.empty()
        return Artifacts(
            history, space, structures, maps, names, loose, HeadlessBodies.empty(), marks
        )
    structures = number_inode_blocks(history.fs, space, structures)
    owners = index_known_inodes(history, space, structures)
    history = history.with_older_states(find_older_states(space, structures))
    maps = from_extent_maps(history, rebuild_extent_maps(space, structures, owners))
    metadata = np.unique(structures.block[~structures.in_journal])
    trees = rebuild_indirect_maps(space, pointers)
    maps = RebuiltMaps.concat(
        [maps, from_freed_blocks(history, space, metadata), from_indirect_maps(trees)]
    )
    numbers = history.number[~history.is_allocated]
    wanted = sparse_flags(int(numbers.max(initial=0)) + 2)  # the last one stands for all beyond
    wanted[numbers] = True
    names = find_directory_entries(space, structures, owners, wanted)
    return Artifacts(history, space, structures, maps, names, loose, headless_bodies(trees), marks)


def scan_unallocated(
    space: UnallocatedSpace, sources: Set[SearchSource], progress: Progress | None
) -> tuple[MetadataBlocks, Any, list[tuple[Any, Any]], BlockFeatures | None]:
    """(blocks of metadata, indirect blocks, ends of log blocks, marks): one pass for all of it."""
    superblock = space.fs.superblock
    looks: dict[str, Scanner] = {}
    if SearchSource.BLOCKS in sources:
        looks["structures"] = metadata_scanner(superblock)
        looks["ends"] = data_end_scanner
        looks["pointers"] = indirect_scanner(superblock)
    if SearchSource.RUNS in sources:
        looks["marks"] = feature_scanner
    seen = list(scan(space, list(looks.values()), progress)) if looks else []
    found = dict(zip(looks, zip(*seen, strict=True), strict=False))
    structures = MetadataBlocks.concat(list(found.get("structures", ())))
    pointers = np.concatenate([np.zeros(0, np.int64), *found.get("pointers", ())])
    ends = [part for part in found.get("ends", ()) if part is not None]
    if SearchSource.RUNS not in sources:
        return structures, pointers, ends, None
    marks = [part for part in found.get("marks", ()) if part is not None]
    return structures, pointers, ends, BlockFeatures.concat(marks)
