"""What `stat` shows of nodes, as columns."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.fields import FileType
from ext4kit.filesystem.live_view import LiveBatch
from ext4kit.filesystem.view import Node
from ext4kit.parsers.inode import COLUMN_SECONDS, Inode, InodeFlags, InodeTable
from ext4kit.units import NANOSECONDS, SECTOR

_TIMES = ("atime", "mtime", "ctime", "crtime")  # `crtime` 0 if it is not known
STAT = np.dtype(
    [
        ("ino", np.uint64),
        ("mode", np.int64),
        ("links", np.int64),
        ("uid", np.int64),
        ("gid", np.int64),
        ("device", np.uint64),
        ("size", np.int64),
        ("blocks", np.int64),  # sectors of 512 bytes
        ("block_size", np.int64),
        *((f"{name}_{part}", np.int64) for name in _TIMES for part in ("seconds", "ns")),
    ]
)
Stats = npt.NDArray[np.void]  # of `STAT`

_TYPES: dict[FileType, int] = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "chardev": stat.S_IFCHR,
    "blockdev": stat.S_IFBLK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
}
_VALID = np.isin(np.arange(16), [kind >> 12 for kind in _TYPES.values()])
_FOLDER, _FILE = 0o555, 0o444  # permissions of nodes without an inode
_INLINE = int(InodeFlags.INLINE_DATA)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values for nodes without an inode.

    Attributes:
        uid: owner.
        gid: group.
        time: all times, ns.
        block_size: bytes per block.
    """

    uid: int
    gid: int
    time: int
    block_size: int


def are_valid(stats: Stats) -> Bools:
    """True where a kernel accepts the attributes: a known file type, a size that fits."""
    valid: Bools = _VALID[stats["mode"] >> 12 & 0xF] & (stats["size"] >= 0)
    return valid


def stats_of(nodes: list[Node], defaults: Defaults) -> Stats:
    """The attributes of nodes."""
    return np.array([_values(node, defaults) for node in nodes], STAT)


def live_stats(batch: LiveBatch, block_size: int) -> Stats:
    """The attributes of names of a tree; all zeros where the inode is not known."""
    table, numbers = batch.table, batch.table.number
    found = np.zeros(len(table), STAT)
    found["ino"] = numbers
    for name in ("mode", "uid", "gid", "size"):
        found[name] = getattr(table, name)
    found["links"] = np.maximum(table.links_count, 1)
    found["blocks"] = table.blocks + _inline_sectors(table)
    found["block_size"] = block_size
    for row in np.flatnonzero(np.isin(table.mode >> 12, (2, 6))).tolist():
        found["device"][row] = _device(table.one(row))
    for name in _TIMES:
        column = getattr(table, name)
        found[f"{name}_seconds"], found[f"{name}_ns"] = np.divmod(column, NANOSECONDS)
        for row in np.flatnonzero(column >= COLUMN_SECONDS * NANOSECONDS).tolist():
            exact = divmod(getattr(table.one(row), name) or 0, NANOSECONDS)
            found[f"{name}_seconds"][row], found[f"{name}_ns"][row] = exact
    found[~batch.fs.inodes_known(numbers)] = 0
    if batch.fs.as_of is not None:
        for row, node in enumerate(batch.nodes):
            found["ino"][row] = node.id.number
    return found


def _inline_sectors(table: InodeTable) -> Int64s:
    """Sectors that the kernel shows for files without blocks whose content is in the inode."""
    is_inline = (table.flags & _INLINE != 0) & table.is_regular
    sectors: Int64s = np.where(is_inline, -(-table.size // SECTOR), 0)
    return sectors


def _device(inode: Inode) -> int:
    device = inode.device
    return 0 if device is None or not hasattr(os, "makedev") else os.makedev(*device)


def _values(node: Node, defaults: Defaults) -> tuple[int, ...]:
    """The values of a node, in the order of `STAT`."""
    inode, kind, size = node.inode, node.kind, node.size or 0
    if not size and kind == "file" and node.grade is not None and node.content() is None:
        size = 1  # nobody is asked for the bytes of an empty file, but reading this one is an error
    mode = _TYPES.get(kind, 0)
    if inode is None or (kind == "directory" and not inode.is_directory):
        mode |= _FOLDER if kind == "directory" else _FILE
        times: tuple[int, ...] = (*divmod(defaults.time, NANOSECONDS) * 3, 0, 0)
        links = 2 if kind == "directory" else 1
        owner = (defaults.uid, defaults.gid)
        sectors = -(-size // SECTOR)
        return (node.id.number, mode, links, *owner, 0, size, sectors, defaults.block_size, *times)
    mode |= inode.mode & 0o7777
    sectors = inode.blocks
    if inode.is_inline and kind == "file":
        sectors += -(-size // SECTOR)
    each = (divmod(getattr(inode, name) or 0, NANOSECONDS) for name in _TIMES)
    times = tuple(chain.from_iterable(each))
    size = size if size < 1 << 63 else -1
    return (node.id.number, mode, max(inode.links_count, 1), inode.uid, inode.gid,
            _device(inode), size, sectors, defaults.block_size, *times)  # fmt: skip
