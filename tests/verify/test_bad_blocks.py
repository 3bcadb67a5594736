"""Blocks that the list of bad blocks names and that are the file system's own as well."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import ext4kit
from ext4kit.verify import verify
from tests.filesystem.matrix import run

needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("mke2fs", "e2fsck", "debugfs"))), reason="needs e2fsprogs"
)
KEPT_IN_A_COPY = 478  # a block that group 1 keeps for descriptors


def _made(folder: Path) -> Path:
    image, bad = folder / "image", folder / "bad"
    bad.write_text(f"{KEPT_IN_A_COPY}\n")
    with image.open("wb") as file:
        file.truncate(780 << 11)
    run(f"mke2fs -q -F -b 2048 -O resize_inode -E resize=2000000 -g 456 -l {bad}", image)
    subprocess.run(["e2fsck", "-fy", str(image)], capture_output=True, check=False)
    subprocess.run(["e2fsck", "-fn", str(image)], capture_output=True, check=True)
    return image


def _found(image: Path) -> dict[str, int]:
    with ext4kit.open(image) as opened:
        return dict(verify(opened.volume().filesystem()).findings.counts)


@needs_tools
def test_a_bad_block_in_a_copy_of_the_descriptors_is_no_second_claim(tmp_path: Path) -> None:
    assert not _found(_made(tmp_path))


@needs_tools
def test_a_bad_block_in_the_first_descriptors_is_one(tmp_path: Path) -> None:
    image = _made(tmp_path)
    command = ["debugfs", "-w", "-R", "sif <1> block[0] 1", str(image)]
    subprocess.run(command, capture_output=True, check=True)
    assert "block-claimed-twice" in _found(image)
