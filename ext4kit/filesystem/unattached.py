"""Files and directories that exist but cannot be reached from the root directory.

A damaged directory, inode table or root cuts off whole trees. Each is listed below `/unattached`,
by the inode number of its top. An inode counts if its checksum is valid. Without checksums, it
counts if its type, links and times are plausible and its map has as many blocks as `i_blocks`
counts.
"""

from __future__ import annotations

import time

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.directories import (
    DIRECTORY_TYPE,
    EntryFilter,
    TreeLevel,
    read_directories,
)
from ext4kit.filesystem.inodes import ROOT, Inodes, is_user_inode
from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.parsers.directory import DIRENT, MODES, EntryTable, Names
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeTable, inode_checksums_ok
from ext4kit.units import NANOSECONDS, SECTOR

_DAY = 86_400 * NANOSECONDS
_MOST_LINKS = 65_000
_FILE_TYPES = np.zeros(16, np.int64)  # file type in an entry, by upper bits of `i_mode`
_FILE_TYPES[MODES] = np.arange(len(MODES))


def find_unattached(fs: Inodes, reached: Int64s) -> TreeLevel:
    """The tops of all existing trees, which no entry names.

    Args:
        fs: the file system.
        reached: inode numbers of all entries below the root directory.

    Returns:
        The tops as entries of one directory.
    """
    seen = sparse_flags(fs.superblock.inodes_count + 1)
    seen[reached[(reached > 0) & (reached < len(seen))]] = True
    numbers, kinds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for table in fs.inode_batches():
        some = table.take(~seen[table.number] & (table.links_count > 0))
        some = some.take(_exist(fs, some))
        numbers.append(some.number)
        kinds.append(some.mode >> 12)
    number, kind = np.concatenate(numbers), np.concatenate(kinds)
    file_type = _FILE_TYPES[kind]
    folders = number[file_type == DIRECTORY_TYPE]
    listing = read_directories(fs, fs.inode_table(folders), dots=False)
    is_top = ~np.isin(number, listing.inode)
    above = np.searchsorted(number, folders[listing.owner])
    below = np.searchsorted(number, listing.inode)
    below[below == len(number)] = 0
    inside = (number[below] == listing.inode) if len(number) else np.zeros(len(below), bool)
    is_top |= _unreached(is_top, above[inside], below[inside])
    rows = np.flatnonzero(is_top)
    names = Names.of([b"inode-%d" % one for one in number[rows].tolist()])
    return TreeLevel(np.zeros(len(rows), np.int64), number[rows], file_type[rows], names)


def _unreached(is_top: Bools, above: Int64s, below: Int64s) -> Bools:
    """True for one row of each loop of directories that no top leads to.

    Args:
        is_top: bool per row, True for a top.
        above: rows of directories.
        below: rows of the inodes that these directories name.
    """
    found, seen = np.zeros(len(is_top), bool), is_top.copy()
    while True:
        fresh = below[seen[above] & ~seen[below]]
        if len(fresh):
            seen[fresh] = True
            continue
        rest = np.flatnonzero(~seen)
        if not len(rest):
            return found
        found[rest[0]] = seen[rest[0]] = True


def _exist(fs: Inodes, table: InodeTable) -> Bools:
    """True for each user inode that certainly exists."""
    superblock = fs.superblock
    exists: Bools = is_user_inode(fs, table) & (table.number != ROOT)
    if superblock.has_metadata_checksums:
        return exists & inode_checksums_ok(table, superblock)
    exists &= (table.links_count <= _MOST_LINKS) & (table.dtime == 0) & (table.size >= 0)
    earliest, latest = superblock.mkfs_time * NANOSECONDS - _DAY, time.time_ns() + _DAY
    exists &= (table.ctime >= earliest) & (table.ctime <= latest)
    rows = np.flatnonzero(exists)
    exists[rows] = _maps_fit(fs, table.take(rows))
    return exists


def _maps_fit(fs: Inodes, table: InodeTable) -> Bools:
    """True where the map of an inode has as many blocks as `i_blocks` counts."""
    superblock = fs.superblock
    maps = fs.map_table_silently(table)
    mapped = np.bincount(maps.runs.owner, maps.runs.length, len(table)).astype(np.int64)
    mapped += np.bincount(maps.tree_blocks[0], minlength=len(table))
    mapped *= superblock.cluster_ratio
    mapped += table.file_acl > 0
    counted = table.blocks * SECTOR // superblock.block_size
    if Incompat.EA_INODE in superblock.features or superblock.cluster_ratio > 1:
        counted = np.minimum(counted, mapped)
    fits: Bools = ~maps.damaged & (counted == mapped)
    return fits


def kept_by(level: TreeLevel, only: EntryFilter | None) -> TreeLevel:
    """The directories of a level, and the other entries that a filter keeps."""
    if only is None or not len(level.number):
        return level
    length = level.names.length
    data = np.zeros((len(level.number), DIRENT.size + int(length.max())), np.uint8)
    row, position = expand(length)
    packed = np.frombuffer(level.names.data, np.uint8)
    data[row, DIRENT.size + position] = packed[level.names.start[row] + position]
    every = np.arange(len(level.number))
    entries = EntryTable(every, every * 0, level.number, length, level.file_type)
    kept = only(entries, data, every * 0) | (level.file_type == DIRECTORY_TYPE)
    return level.take(np.flatnonzero(kept))
