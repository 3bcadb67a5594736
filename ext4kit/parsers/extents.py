"""Extent tree nodes: header, index entries, extents and the checksum tail.

Source: kernel Documentation/filesystems/ext4/ifork.rst.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.layout import Buffer, Layout, Structures
from ext4kit.parsers.words import Int16ul, Int32ul, Struct
from ext4kit.units import join, widen

MAGIC = 0xF30A
MAX_DEPTH = 5
MAX_INITIALISED = 32768  # an ee_len above it marks an unwritten extent

HEADER = Layout(
    "extent header",
    Struct(
        "eh_magic" / Int16ul,  # 0xF30A
        "eh_entries" / Int16ul,  # entries in use
        "eh_max" / Int16ul,  # entries that fit
        "eh_depth" / Int16ul,  # 0 for a leaf
        "eh_generation" / Int32ul,
    ),
)
INDEX = Layout(
    "extent index",
    Struct(
        "ei_block" / Int32ul,  # first file block below
        "ei_leaf_lo" / Int32ul,  # block of the child node
        "ei_leaf_hi" / Int16ul,
        "ei_unused" / Int16ul,
    ),
)
EXTENT = Layout(
    "extent",
    Struct(
        "ee_block" / Int32ul,  # first file block
        "ee_len" / Int16ul,  # blocks; above 32,768: unwritten, that much longer
        "ee_start_hi" / Int16ul,
        "ee_start_lo" / Int32ul,  # first block on disk
    ),
)
TAIL = Layout("extent tail", Struct("et_checksum" / Int32ul))  # after `eh_max` entries


def capacity(node_size: int) -> int:
    """Number of entries that fit into a node of that many bytes."""
    return (node_size - HEADER.size) // EXTENT.size


def parse_headers(rows: Bytes2D) -> tuple[Bools, Int64s, Int64s, Int64s]:
    """(valid, entries, maximum, depth) of each node in a (n, node size) uint8 array.

    A header is valid if its magic is right and its counts and depth are possible in the node.
    """
    raw = HEADER.columns(rows)
    entries, most, depth = (widen(raw[name]) for name in ("eh_entries", "eh_max", "eh_depth"))
    sound = (
        (raw["eh_magic"] == MAGIC)
        & (entries <= most)
        & (most <= capacity(rows.shape[1]))
        & (depth <= MAX_DEPTH)
    )
    return sound, entries, most, depth


def _entry_columns(rows: Bytes2D, layout: Layout) -> Structures:
    room = capacity(rows.shape[1])
    body = np.ascontiguousarray(rows[:, HEADER.size : HEADER.size + room * layout.size])
    return body.view(layout.dtype)


def parse_children(rows: Bytes2D, row: Rows, slot: Int64s) -> tuple[Int64s, Int64s]:
    """(first file block, child block) of index entries `slot` in nodes `row`."""
    raw = _entry_columns(rows, INDEX)[row, slot]
    return widen(raw["ei_block"]), join(raw["ei_leaf_hi"], raw["ei_leaf_lo"], 32)


def parse_extents(rows: Bytes2D, row: Rows, slot: Int64s) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """(file block, length, physical block, unwritten) of extents `slot` in nodes `row`."""
    raw = _entry_columns(rows, EXTENT)[row, slot]
    length = widen(raw["ee_len"])
    unwritten = length > MAX_INITIALISED
    return (
        widen(raw["ee_block"]),
        length - unwritten * MAX_INITIALISED,
        join(raw["ee_start_hi"], raw["ee_start_lo"], 32),
        unwritten,
    )


def block_checksum_ok(seed: int, block: Buffer) -> bool:
    """Whether the tail of an extent block matches the inode seed of its owner."""
    header = HEADER.parse(block)
    end = HEADER.size + header.eh_max * EXTENT.size
    if end + TAIL.size > memoryview(block).nbytes:
        return False
    return bool(TAIL.parse(block, end).et_checksum == crc32c(seed, memoryview(block)[:end]))
