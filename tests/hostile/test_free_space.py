"""Free space that is full of what looks like metadata: bounded answers, and the bound is told."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from tests.fuzz import images
from tests.fuzz.commands import called, failures
from tests.hostile.victim import EXTENT_MAGIC

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
BLOCK = 1024
ENTRIES = (BLOCK - 12) // 12
Filling = Callable[[list[int]], bytes]


def list_of_blocks(free: list[int]) -> bytes:
    """An indirect block that is full."""
    return struct.pack(f"<{BLOCK // 4}I", *range(free[0], free[0] + BLOCK // 4))


def leaf(free: list[int]) -> bytes:
    """A full node of an extent tree, all of its extents of the same blocks."""
    header = struct.pack("<HHHHI", EXTENT_MAGIC, ENTRIES, ENTRIES, 0, 0)
    entries = (struct.pack("<IHHI", 32 * at, 32, 0, free[at]) for at in range(ENTRIES))
    return (header + b"".join(entries)).ljust(BLOCK, b"\0")


def index(free: list[int]) -> bytes:
    """A full inner node that leads to others like it."""
    header = struct.pack("<HHHHI", EXTENT_MAGIC, ENTRIES, ENTRIES, 1, 0)
    entries = (struct.pack("<IIHH", 32 * at, free[at], 0, 0) for at in range(ENTRIES))
    return (header + b"".join(entries)).ljust(BLOCK, b"\0")


def filled(path: Path, options: str, filling: Filling) -> Path:
    """An empty file system; every free block holds the same."""
    images.empty(path, options, "16M")
    with ext4kit.open(path) as image:
        fs = image.volume().filesystem()
        blocks = np.arange(fs.superblock.blocks_count)
        free = blocks[~fs.bitmaps.blocks_in_use(blocks)].tolist()
    content = filling(free)
    with path.open("r+b") as stream:
        for block in free:
            stream.seek(block * BLOCK)
            stream.write(content)
    return path


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("options", "filling", "told"),
    [
        ("-t ext3 -b 1024 -J size=1", list_of_blocks, "indirect blocks in free space"),
        ("-t ext4 -b 1024 -J size=1", leaf, "extent nodes in free space"),
        ("-t ext4 -b 1024 -J size=1", index, "extent nodes in free space"),
    ],
)
def test_maps_that_name_the_same_blocks_over_and_over_are_cut(
    options: str, filling: Filling, told: str, tmp_path: Path
) -> None:
    image = filled(tmp_path / "image", options, filling)
    words = ["recover", "IMAGE", "-o", "OUT"]
    assert not list(failures(image, [words, [*words, "--lost"]], tmp_path))
    code, said = called(["deleted", str(image), "--sources", "blocks"])
    assert (code, told in said) == (1, True)


def test_a_log_with_blocks_of_no_size_is_no_trace_of_a_lost_file_system(tmp_path: Path) -> None:
    superblock = struct.pack(">III", 0xC03B3998, 4, 1) + bytes(BLOCK - 12)
    image = filled(tmp_path / "image", "-t ext3 -b 1024 -J size=1", lambda free: superblock)
    assert not list(failures(image, [["ls", "IMAGE", "-r", "--lost"]], tmp_path))
