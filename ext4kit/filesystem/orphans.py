"""Orphans: inodes that were unlinked but open, or being truncated, when the system stopped.

Source: kernel Documentation/filesystems/ext4/orphan.rst.
"""

from __future__ import annotations

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.inodes import Inodes
from ext4kit.parsers.features import Compat
from ext4kit.parsers.orphan import parse_orphan_block


def read_orphans(fs: Inodes) -> list[int]:
    """Inode numbers on the orphan list and in the orphan file, without duplicates."""
    return list(_orphan_list(fs) | dict.fromkeys(_orphan_file(fs)))


def _orphan_list(fs: Inodes) -> dict[int, None]:
    """The list that starts in the superblock and continues in the `i_dtime` field of each inode."""
    found: dict[int, None] = {}  # keeps the order, with fast look-up
    number = fs.superblock.last_orphan
    while number and number not in found:
        if number > fs.superblock.inodes_count:
            fs.problems.add("orphan list", f"names inode {number}, which cannot exist")
            break
        found[number] = None
        try:
            number = fs.inode(number).dtime
        except AccessError as error:
            fs.problems.add("orphan list", f"breaks off: {error}")
            break
    return found


def _orphan_file(fs: Inodes) -> list[int]:
    """The inode numbers in the orphan file's blocks."""
    superblock = fs.superblock
    if Compat.ORPHAN_FILE not in superblock.features:
        return []
    found: list[int] = []
    try:
        content = fs.content(fs.inode(superblock.orphan_file_inode))
    except (AccessError, CorruptError) as error:
        fs.problems.add("orphan file", str(error))
        return []
    for offset, length, place in content.segments():
        for start in range(0, length if place is not None else 0, superblock.block_size):
            data = content.read(offset + start, superblock.block_size)
            try:
                found += parse_orphan_block(data).inodes.tolist()
            except CorruptError as error:
                fs.problems.add("orphan file", f"block at byte {offset + start:,}: {error}")
    return [number for number in found if 0 < number <= superblock.inodes_count]
