"""Check of link counts, `..` and connectivity, from the entries of all directories."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows, UInt32s
from ext4kit.filesystem.directories import LONGEST_PATH
from ext4kit.filesystem.inodes import ROOT
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.inode import InodeFlags
from ext4kit.verify.context import InodesInUse, VerifyContext
from ext4kit.verify.directories import Links
from ext4kit.verify.inodes import DIRECTORY

MOST_LINKS = 65000  # with more links, `i_links_count` of a directory is 1 (dir_nlink)


def check_links(context: VerifyContext, facts: InodesInUse, links: Links) -> None:
    """Compare the link data of the entries with the inodes."""
    reserved = (facts.number < context.superblock.first_usable_inode) & (facts.number != ROOT)
    if not (facts.number == ROOT).any():
        context.add("root-inode", "inode", "not in use", inode=ROOT)
    directory = (facts.mode & 0xF000 == DIRECTORY) & ~reserved
    _check_parents(context, facts, links, np.flatnonzero(directory))
    _check_counts(context, facts, links, directory, reserved)


def _check_parents(
    context: VerifyContext, facts: InodesInUse, links: Links, directories: Rows
) -> None:
    number, told = facts.number[directories], links.told[directories]
    root = number == ROOT
    parent = np.where(root, ROOT, links.parent[directories])
    named = parent != 0
    wrong = named & (told != 0) & (told != parent)
    context.add_inodes("directory-parent", number, wrong, told, parent)
    adrift = ~named
    adrift[named], length = _chains(facts, links, directories[named], parent[named])
    names = links.name_length[directories[named]].astype(np.int64) + 1
    deep = ~adrift[named] & (length > LONGEST_PATH) & (length - names <= LONGEST_PATH)
    context.add_inodes("directory-deep", number[named], deep, length)
    lost = (facts.links_count[directories] > 0) & ~root & adrift
    context.add_inodes("directory-unconnected", number, lost, told)


def _chains(
    facts: InodesInUse, links: Links, directories: Rows, parent: Int64s
) -> tuple[Bools, Int64s]:
    """Per directory: True where its chain of parents never ends (a loop), and bytes of its path.

    The length of a step doubles each time, so the search also ends on loops.

    Args:
        facts: all inodes in use.
        links: has the lengths of names.
        directories: rows of directories, ascending.
        parent: inode number of the parent of each.
    """
    above = SortedIndex(directories).rows(facts.rows_of(parent))
    ends = (above == NO_ROW) | (facts.number[directories] == ROOT)
    up = np.where(ends, np.arange(len(directories)), above)
    length = np.where(ends, 0, links.name_length[directories].astype(np.int64) + 1)
    for _ in range(len(directories).bit_length()):
        length, up = length + length[up], up[up]
    circling: Bools = ~ends[up]
    return circling, length


def _check_counts(
    context: VerifyContext, facts: InodesInUse, links: Links, directory: Bools, reserved: Bools
) -> None:
    value = (facts.flags & int(InodeFlags.EA_INODE)) != 0
    own = np.isin(facts.number, (context.superblock.orphan_file_inode,
                                 context.superblock.project_quota_inode))  # fmt: skip
    judged = ~reserved & ~value & ~own & (facts.links_count > 0)
    counted = _without_removed(facts, links, directory)
    context.add_inodes("inode-unattached", facts.number, judged & (counted == 0) & ~directory)
    if RoCompat.DIR_NLINK in context.superblock.features:
        counted[directory & (counted > MOST_LINKS)] = 1
    wrong = judged & (counted != facts.links_count) & ((counted > 0) | directory)
    wrong |= judged & directory & (counted > MOST_LINKS)
    context.add_inodes("link-count", facts.number, wrong, facts.links_count, counted)


def _without_removed(facts: InodesInUse, links: Links, directory: Bools) -> UInt32s:
    """Number of entries that name each inode, without the `..` of deleted directories.

    Source: kernel fs/ext4/namei.c, `ext4_rmdir`: a deletion removes that link from the parent at
    once.
    """
    told = links.told[directory & (facts.links_count == 0) & (links.told != 0)]
    above = facts.rows_of(told.astype(np.int64))
    counted = links.counted.copy()
    np.subtract.at(counted, above[above >= 0], 1)
    return counted
