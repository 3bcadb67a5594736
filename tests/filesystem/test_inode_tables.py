"""An inode read from a table is the inode that is read alone."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.parsers.inode import parse_inode, parse_inodes


@pytest.mark.parametrize("size", [128, 256, 512])
def test_rows_of_a_table_are_inodes(size: int, tmp_path: Path) -> None:
    path = tmp_path / "image"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-I", str(size), str(path), "8M"]
    subprocess.run(command, check=True, capture_output=True)
    with ext4kit.open(path) as image:
        superblock = image.volume().filesystem().superblock
    chance = random.Random(size)
    raw = [bytearray(chance.randbytes(size)) for _ in range(300)]
    for row in raw:
        row[111] &= 0x7F  # i_size_high and i_version_hi: above 2**63 a column has no room
        if size > 128:
            row[155] &= 0x7F
            row[128:130] = chance.choice([0, 4, 12, 20, 24, 28, 32, 999]).to_bytes(2, "little")
    table = parse_inodes(
        np.frombuffer(b"".join(raw), np.uint8).reshape(-1, size), np.arange(300) + 1, superblock
    )
    alone = [parse_inode(bytes(row), number, superblock) for number, row in enumerate(raw, 1)]
    assert list(table.each()) == alone
    assert [table.one(row) for row in range(300)] == alone
