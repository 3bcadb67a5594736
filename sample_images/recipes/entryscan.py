"""A plain search of raw blocks for directory entries, for the truth: which names are left.

It looks at every place where an entry can begin, in every free block and every block of the
log, whether the block as a whole reads as a directory or not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from sample_images.recipes.logwalk import JOURNAL_INODE
from sample_images.recipes.machine import dumpe2fs
from sample_images.recipes.ondisk import Disk

Entry = tuple[int, bytes]  # inode, name
AT_ONCE = 4096  # blocks
HEAD = 8  # bytes before a name
FILE_TYPES = 8


def entries_left(disk: Disk, wanted: Iterable[Entry]) -> set[Entry]:
    """Which of some entries can be read in a free block or in the log.

    Args:
        disk: a finished image.
        wanted: (inode, name) pairs.
    """
    names: defaultdict[int, set[bytes]] = defaultdict(set)
    for inode, name in wanted:
        names[inode].add(name)
    if not names:
        return set()
    is_wanted = np.zeros(max(names) + 1, bool)
    is_wanted[list(names)] = True
    found: set[Entry] = set()
    for first, count in _unowned(disk):
        for at in range(first, first + count, AT_ONCE):
            data = disk.read(at, min(AT_ONCE, first + count - at))
            found.update(_entries_in(data, is_wanted, names))
    return found


def _unowned(disk: Disk) -> Iterator[tuple[int, int]]:
    """(first block, blocks): free runs as dumpe2fs tells them, then the log."""
    for line in re.findall(r"^  Free blocks: (.*)$", dumpe2fs(disk.path), re.MULTILINE):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", line):
            yield int(first), int(last or first) - int(first) + 1
    if disk.has_journal:
        for _, block, count, _ in disk.map(disk.slot(JOURNAL_INODE)).extents:
            yield block, count


def _entries_in(data: bytes, is_wanted: np.ndarray, names: dict[int, set[bytes]]) -> set[Entry]:
    words = np.frombuffer(data, "<u4", len(data) // 4)
    places = np.flatnonzero(words[:-1] - np.uint32(1) < len(is_wanted) - 1)  # 0 wraps around
    places = places[is_wanted[words[places]]]
    inode, head = words[places], words[places + 1].astype(np.int64)
    length, name_length, kind = head & 0xFFFF, head >> 16 & 0xFF, head >> 24
    fits = (name_length > 0) & (length % 4 == 0) & (length >= HEAD + name_length)
    found: set[Entry] = set()
    for row in np.flatnonzero(fits & (kind < FILE_TYPES)).tolist():
        begin = int(places[row]) * 4 + HEAD
        name = data[begin : begin + int(name_length[row])]
        if name in names[int(inode[row])]:
            found.add((int(inode[row]), name))
    return found
