"""Blocks of metadata recognised one by one, held against debugfs, which follows the inodes."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.filesystem import FileSystem
from ext4kit.scan import BlockBatch
from ext4kit.unallocated.metadata import (
    DIRECTORY,
    EXTENTS,
    HTREE,
    INODES,
    XATTR,
    MetadataBlocks,
    metadata_scanner,
)
from ext4kit.unallocated.owners import SeedIndex
from sample_images.recipes.machine import run

OPTIONS = {
    "4k": ("-b", "4096"),
    "1k": ("-b", "1024"),
    "no_sums": ("-b", "4096", "-O", "^metadata_csum"),
    "small_inodes": ("-b", "4096", "-I", "128"),
}


@dataclass(frozen=True)
class Made:
    """An image and what debugfs says of each of its inodes."""

    image: Path
    fs: FileSystem
    found: MetadataBlocks
    said: dict[int, str]

    def blocks(self, pattern: str, kind: str = "") -> dict[int, int]:
        """Block -> inode, of what a pattern finds in the words on inodes of one type."""
        return {
            block: number
            for number, words in self.said.items()
            if f"Type: {kind}" in words
            for first, last in re.findall(pattern, words)
            for block in range(int(first), int(last or first) + 1)
        }


def _fill(folder: Path) -> None:
    chance = random.Random("structures")
    for name in ("small", "wide", "deep/er/est"):
        (folder / name).mkdir(parents=True)
    for at in range(900):
        (folder / "wide" / f"a-name-that-takes-some-room-{at:05d}").write_bytes(b"x" * (at % 3))
    for at in range(40):
        (folder / "small" / f"{at}").write_bytes(chance.randbytes(at * 300))
    for at in range(3):
        with (folder / "deep/er" / f"sieve-{at}").open("wb") as opened:
            for piece in range(200 * at + 10):
                opened.seek(piece * 8192)
                opened.write(b"piece of a sieve")


@pytest.fixture(params=OPTIONS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """An image of mke2fs and e2fsck: folders with and without an index, leaves, attributes."""
    folder, image = tmp_path / "tree", tmp_path / "image"
    folder.mkdir()
    _fill(folder)
    with image.open("wb") as opened:
        opened.truncate(48 << 20)
    run("mke2fs", "-q", "-t", "ext4", *OPTIONS[request.param], "-d", folder, image)
    value = tmp_path / "value"
    value.write_bytes(b"v" * 600)
    _debugfs(image, "-w", "-R", f"ea_set -f {value} /small/7 user.note")
    subprocess.run(["e2fsck", "-fyD", image], capture_output=True, check=False)
    fs = ext4kit.open(str(image)).volume().filesystem()
    used = [number for table in fs.inode_batches() for number in table.number[table.mode != 0]]
    (tmp_path / "commands").write_text("".join(f"stat <{number}>\n" for number in used))
    words = _debugfs(image, "-f", str(tmp_path / "commands"))
    parts = re.split(r"^Inode: (\d+)", words, flags=re.MULTILINE)[1:]
    said = {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}
    data, _ = fs.fetch(np.arange(fs.superblock.blocks_count))
    found = metadata_scanner(fs.superblock)(BlockBatch(np.arange(len(data)), data))
    return Made(image, fs, found, said)


def _debugfs(image: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["debugfs", *arguments, image], capture_output=True, text=True, check=True
    )
    return done.stdout


def _owners(made: Made) -> SeedIndex:
    tables = list(made.fs.inode_batches())
    numbers = np.concatenate([table.number for table in tables])
    return SeedIndex(
        made.fs.superblock, numbers, np.concatenate([table.generation for table in tables])
    )


def _is_told(made: Made, kind: int, wanted: dict[int, int]) -> None:
    """The blocks of a kind are the wanted ones, and with checksums each names its inode."""
    found = made.found.of_kind(kind)
    assert set(found.block.tolist()) == set(wanted)
    if made.fs.superblock.has_metadata_checksums:
        numbers, _ = _owners(made).inodes_of(found.seed)
        assert dict(zip(found.block.tolist(), numbers.tolist(), strict=True)) == wanted


def test_extent_nodes(made: Made) -> None:
    wanted = made.blocks(r"\(ETB\d\):(\d+)()")
    assert wanted
    _is_told(made, EXTENTS, wanted)


def test_directory_blocks_and_index_blocks(made: Made) -> None:
    content = made.blocks(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?", "directory")
    index = set(made.found.of_kind(HTREE).block.tolist())
    assert index
    assert index <= content.keys()
    _is_told(made, HTREE, {block: content[block] for block in index})
    empty = {block for block in content if _is_empty(made, block)}
    wanted = content.keys() - index - (set() if _has_sums(made) else empty)
    _is_told(made, DIRECTORY, {block: content[block] for block in wanted})


def _has_sums(made: Made) -> bool:
    return made.fs.superblock.has_metadata_checksums


def _is_empty(made: Made, block: int) -> bool:
    """Whether no entry of a directory block is in use; nothing tells it from other blocks."""
    data = bytes(made.fs.blocks.read(block))
    return data[:4] == bytes(4) and int.from_bytes(data[4:6], "little") >= len(data) - 12


def test_attribute_blocks(made: Made) -> None:
    wanted = made.blocks(r"File ACL: ([1-9]\d*)()")
    found = made.found.of_kind(XATTR)
    if made.fs.superblock.inode_size == 128 or wanted:
        assert wanted
    assert set(found.block.tolist()) == set(wanted)
    assert (found.stated_number == found.block).all()


def test_pieces_of_inode_tables(made: Made) -> None:
    superblock = made.fs.superblock
    if not _has_sums(made) or superblock.inode_size == 128:
        pytest.skip("their inodes tell nothing but by generations, which only the kernel gives")
    first, held = superblock.first_usable_inode, made.found.of_kind(INODES)
    by_block = dict(zip(held.block.tolist(), held.stated_number.tolist(), strict=True))
    (made.image.parent / "imap").write_text("".join(f"imap <{one}>\n" for one in made.said))
    words = _debugfs(made.image, "-f", str(made.image.parent / "imap"))
    places = re.findall(r"Inode (\d+) is part.*\n\s*located at block (\d+), offset (\S+)", words)
    assert len(places) == len(made.said)
    for number, block, offset in places:
        if int(number) < first:
            continue  # reserved ones can stand alone in a block, with nothing in them
        assert int(block) in by_block
        slot = int(offset, 16) // superblock.inode_size
        assert by_block[int(block)] == int(number) - slot
    assert set(by_block) <= {int(block) for _, block, _ in places}
