"""Metadata of groups among untagged copies: which blocks look like it, held against dumpe2fs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.unallocated.group_metadata import group_metadata_test, named_metadata_test
from sample_images.recipes.contents import noise
from sample_images.recipes.machine import run
from tests.environment import missing
from tests.journal.test_block_places import ranges


def made(folder: Path, options: str) -> Path:
    """A file system with some files in it; mke2fs and debugfs write it."""
    if reason := missing("mke2fs", "debugfs", "dumpe2fs"):
        pytest.skip(reason)
    folder.mkdir(exist_ok=True)
    image, source, commands = folder / "a.img", folder / "source", folder / "commands"
    run("mke2fs", "-q", "-F", *options.split(), image, "64M")
    source.write_bytes(noise("source", 50_000))
    commands.write_text("".join(f"write {source} file-{at}\n" for at in range(200)))
    run("debugfs", "-w", "-f", commands, image)
    return image


def places_of(image: Path) -> tuple[list[int], list[int]]:
    """(blocks of the superblock and of group descriptors, blocks of bitmaps that are in use)."""
    text = run("dumpe2fs", image).decode()
    told = re.findall(r"(?:Primary superblock|Group descriptors?) at ([\d-]+)", text)
    heads = [block for one in told for block in ranges(one)]
    bitmaps: list[int] = []
    for group in text.split("\nGroup ")[1:]:
        used = re.search(r"^  0 free blocks", group, re.MULTILINE)
        if used and "BLOCK_UNINIT" not in group:
            bitmaps += map(int, re.findall(r"Block bitmap at (\d+)", group))
    return heads, bitmaps


@pytest.mark.parametrize(
    "options",
    [
        "-t ext4 -b 4096 -g 1024",
        "-t ext4 -b 2048 -g 1024",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024",  # several blocks of descriptors
        "-t ext3 -b 1024 -g 1024",
        "-t ext4 -b 4096 -O ^64bit,^metadata_csum -g 1024",
    ],
)
def test_superblocks_descriptors_and_full_bitmaps_are_told(tmp_path: Path, options: str) -> None:
    image = made(tmp_path, options)
    fs = ext4kit.open(str(image)).volume().filesystem()
    test = group_metadata_test(fs)
    heads, bitmaps = places_of(image)
    data = fs.blocks.read_many(np.array(heads + bitmaps))
    assert len(heads) > 1 and bitmaps
    assert test(data).tolist() == [True] * len(data)


@pytest.mark.parametrize(
    "options",
    ["-t ext4 -b 4096 -O orphan_file", "-t ext4 -b 1024 -O orphan_file", "-t ext3 -b 2048"],
)
def test_superblocks_and_the_orphan_file_name_themselves(tmp_path: Path, options: str) -> None:
    image = made(tmp_path, f"{options} -g 1024")
    fs = ext4kit.open(str(image)).volume().filesystem()
    test = named_metadata_test(fs)
    superblocks = re.findall(r"superblock at (\d+)", run("dumpe2fs", image).decode())
    told = run("dumpe2fs", "-h", image).decode()
    orphans = []
    if found := re.search(r"^Orphan file inode: +(\d+)", told, re.MULTILINE):
        orphans = run("debugfs", "-R", f"blocks <{found[1]}>", image).decode().split()
    assert bool(orphans) == ("orphan_file" in options) and len(superblocks) > 1
    named = test(fs.blocks.read_many(np.arange(fs.superblock.blocks_count)))
    assert np.flatnonzero(named).tolist() == sorted(map(int, superblocks + orphans))
    other = made(tmp_path / "other", f"{options} -g 1024")  # such an image may be a file
    block = ext4kit.open(str(other)).volume().filesystem().blocks.read_many(np.arange(2))
    assert not test(block).any()


def test_contents_of_files_are_not(tmp_path: Path) -> None:
    image = made(tmp_path, "-t ext4 -b 4096")
    test = group_metadata_test(ext4kit.open(str(image)).volume().filesystem())
    shell = Path(shutil.which("sh") or "/bin/sh").read_bytes()  # a program has many zeros
    text = Path(__file__).read_bytes()
    for content in (shell, text, noise("text", 1 << 20), bytes(1 << 16)):
        whole = len(content) // 4096
        blocks = np.frombuffer(content[: whole * 4096], np.uint8).reshape(-1, 4096)
        assert not test(blocks[:1]).any()
        assert test(blocks).sum() <= whole // 100
