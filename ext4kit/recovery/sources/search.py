"""The search of the space that no live file has, in one pass, and what comes of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.past import Past
from ext4kit.recovery.sources import Source
from ext4kit.recovery.sources.carving import Lists, Marks, look
from ext4kit.recovery.sources.indirect import indirect_look
from ext4kit.recovery.sources.leaves import find_leaf_maps
from ext4kit.recovery.sources.loose_copies import LooseCopies, ends_look
from ext4kit.recovery.sources.lost_maps import LostMaps, freed_maps, leaf_maps, lists_of, tree_maps
from ext4kit.recovery.sources.mapped_blocks import count_mapped_as_used
from ext4kit.recovery.sources.names import FoundNames, find_names
from ext4kit.recovery.sources.owners import known_owners, placed
from ext4kit.recovery.sources.space import Look, Progress, Space, survey
from ext4kit.recovery.sources.states import old_states
from ext4kit.recovery.sources.structures import Structures, structure_look
from ext4kit.recovery.sources.trees import find_trees


@dataclass(frozen=True, slots=True)
class Findings:
    """What free space and the undescribed parts of the log told.

    Attributes:
        past: with the inode states that were found.
        space: where it was looked.
        structures: blocks of metadata.
        maps: block maps of files without a whole state.
        names: entries of directory blocks.
        loose: log blocks without a descriptor that may hold contents of files.
        lists: what freed indirect blocks name of files whose start is not known.
        marks: what carving has to know of the blocks, None when nothing is to be carved.
    """

    past: Past
    space: Space
    structures: Structures
    maps: LostMaps
    names: FoundNames
    loose: LooseCopies
    lists: Lists
    marks: Marks | None


def search(past: Past, sources: Set[Source], progress: Progress | None = None) -> Findings:
    """Look through the space for what `sources` asks for.

    Args:
        past: what the described log and the inode tables tell.
        sources: with JOURNAL alone nothing is read.
        progress: called with (bytes done, bytes in all).
    """
    if sources - {Source.JOURNAL}:
        count_mapped_as_used(past.fs)
    space = Space(past)
    structures, pointers, ends, marks = _surveyed(space, sources, progress)
    loose = LooseCopies.of(space.log, ends, structures.block[structures.in_log])
    if Source.BLOCKS not in sources:
        maps, names = LostMaps.none(), FoundNames.empty()
        return Findings(past, space, structures, maps, names, loose, Lists.none(), marks)
    structures = placed(past.fs, space, structures)
    owners = known_owners(past, space, structures)
    past = past.with_states(old_states(space, structures))
    maps = leaf_maps(past, find_leaf_maps(space, structures, owners))
    metadata = np.unique(structures.block[~structures.in_log])
    trees = find_trees(space, pointers)
    maps = LostMaps.joined([maps, freed_maps(past, space, metadata), tree_maps(trees)])
    numbers = past.number[~past.alive_now]
    wanted = sparse_flags(int(numbers.max(initial=0)) + 2)  # the last one stands for all beyond
    wanted[numbers] = True
    names = find_names(space, structures, owners, wanted)
    return Findings(past, space, structures, maps, names, loose, lists_of(trees), marks)


def _surveyed(
    space: Space, sources: Set[Source], progress: Progress | None
) -> tuple[Structures, Any, list[tuple[Any, Any]], Marks | None]:
    """(blocks of metadata, indirect blocks, ends of log blocks, marks): one pass for all of it."""
    superblock = space.fs.superblock
    looks: dict[str, Look] = {}
    if Source.BLOCKS in sources:
        looks["structures"] = structure_look(superblock)
        looks["ends"] = ends_look
        looks["pointers"] = indirect_look(superblock)
    if Source.RUNS in sources:
        looks["marks"] = look
    seen = list(survey(space, list(looks.values()), progress)) if looks else []
    found = dict(zip(looks, zip(*seen, strict=True), strict=False))
    structures = Structures.concat(list(found.get("structures", ())))
    pointers = np.concatenate([np.zeros(0, np.int64), *found.get("pointers", ())])
    ends = [part for part in found.get("ends", ()) if part is not None]
    if Source.RUNS not in sources:
        return structures, pointers, ends, None
    marks = [part for part in found.get("marks", ()) if part is not None]
    return structures, pointers, ends, Marks.joined(marks)
