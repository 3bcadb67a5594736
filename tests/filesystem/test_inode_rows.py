"""Inodes of many table blocks are read in parts, and are those that a single reading gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.filesystem import inodes


def test_parts_and_order_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = Path(__file__).parents[2] / "sample_images/packed"
    image = sorted(packed.glob("*.img.xz"))[0]
    with ext4kit.open(image) as opened:
        fs = opened.filesystem()
        numbers = np.random.default_rng(3).integers(1, fs.superblock.inodes_count + 1, 500)
        numbers[7] = fs.superblock.inodes_count + 5  # there is none: not readable
        rows, readable = fs.inode_rows(numbers)
        monkeypatch.setattr(inodes, "INODES_AT_ONCE", 1)
        again, still_readable = fs.inode_rows(numbers)
    assert (again == rows).all() and (still_readable == readable).all() and rows.any()
