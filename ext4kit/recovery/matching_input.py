"""Input of the matching: files with known blocks, and ids of the directories of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.directories import with_inodes
from ext4kit.matching.between_neighbours import Placement
from ext4kit.matching.transitions import NOTHING
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.names import KnownName


@dataclass(frozen=True, slots=True)
class PlacedFiles:
    """Files with a known inode and known blocks.

    Attributes:
        placed: files of all types.
        regular: True for regular files.
        candidate: int64, row of the candidate, NOTHING for allocated files.
        runs: blocks of the files; `owner` is the row in `placed`.
        taken: (first block, one past the last) of all runs that have an owner, ascending.
    """

    placed: Placement
    regular: Bools
    candidate: Int64s
    runs: Runs
    taken: tuple[Int64s, Int64s]


def find_placed_files(blocks: BlockAttribution) -> PlacedFiles:
    """All allocated files, and candidates with a map."""
    fs, placed, regular, candidate, theirs = blocks.history.fs, [], [], [], []

    def add(number: Int64s, crtime: Int64s, is_wanted: Bools, row: Int64s, data: Runs) -> None:
        mapped, part = _placement(fs, number, crtime, data)
        placed.append(part)
        wanted = is_wanted & (crtime > 0) & (number >= fs.superblock.first_inode)
        regular.append(wanted[mapped])
        candidate.append(row[mapped])
        owner = np.searchsorted(mapped, data.owner)
        theirs.append((replace(data, owner=owner), len(mapped)))

    states, row = blocks.history.states.table, blocks.candidates.state_row
    latest = states.is_regular[row] & ~blocks.candidates.superseded
    add(states.number[row], states.crtime[row], latest, np.arange(len(row)), blocks.runs)
    for table, maps in fs.allocated_maps():
        none = np.full(len(table), NOTHING)
        add(table.number, table.crtime, table.is_regular, none, maps.runs)
    runs = Runs.stacked(theirs)
    taken = Intervals.union(runs.physical, runs.length)
    return PlacedFiles(
        Placement.concat(placed),
        np.concatenate(regular),
        np.concatenate(candidate),
        runs,
        (taken.start, taken.end),
    )


def _placement(
    fs: FileSystem, number: Int64s, crtime: Int64s, runs: Runs
) -> tuple[Rows, Placement]:
    """(rows of the inodes that have blocks, their `Placement`)."""
    mapped, first = np.unique(runs.owner, return_index=True)
    last = np.append(first[1:], len(runs))[: len(first)] - 1
    start, end = runs.physical[first], runs.physical[last] + runs.length[last]
    number = number[mapped]
    return mapped, Placement(
        group_of(fs, number), crtime[mapped], number, start, end, first == last
    )


def group_of(fs: FileSystem, number: Int64s) -> Int64s:
    """The block group of each inode."""
    return (number - 1) // fs.superblock.inodes_per_group


class DirectoryIds:
    """Ids of the directories of the files to match.

    Args:
        names: names of the files to match.

    Attributes:
        of_files: int64, directory id of each file, NOTHING if its path is unknown.
    """

    def __init__(self, names: Sequence[KnownName | None]) -> None:
        paths = [directory_of(name) for name in names]
        self._numbers: dict[bytes, int] = {}
        for path in paths:
            if path is not None:
                self._numbers.setdefault(path, len(self._numbers))
        self.of_files = self._assign_ids(paths)

    def _assign_ids(self, paths: Sequence[bytes | None]) -> Int64s:
        known = self._numbers
        return np.array([NOTHING if one is None else known.get(one, NOTHING) for one in paths], int)

    def of_known_files(
        self, fs: FileSystem, number: Int64s, candidate: Int64s, names: Sequence[KnownName | None]
    ) -> Int64s:
        """Directory ids of other files, NOTHING for directories without files to match.

        Args:
            fs: the file system.
            number: inode numbers.
            candidate: row in `names` for deleted files, NOTHING for allocated files.
            names: names of the candidates.
        """
        found = np.full(len(number), NOTHING)
        removed = np.flatnonzero(candidate != NOTHING)
        found[removed] = self._assign_ids(
            [directory_of(names[row]) for row in candidate[removed].tolist()]
        )
        living = np.flatnonzero(candidate == NOTHING)
        tree = fs.tree(only=with_inodes(number[living]))
        folder = self._assign_ids(tree.folders)[tree.folder]
        entries = np.flatnonzero(folder != NOTHING)
        entries = entries[np.argsort(tree.inode[entries], kind="stable")]
        row = SortedIndex(tree.inode[entries]).rows(number[living])
        there = row != NO_ROW
        found[living[there]] = folder[entries[row[there]]]
        return found


def directory_of(name: KnownName | None) -> bytes | None:
    """Path or partial path of the directory of a file."""
    return name.known_path.rpartition(b"/")[0] if name and name.known_path else None
