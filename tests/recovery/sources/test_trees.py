"""Files out of freed indirect blocks, made by the kernel and by e2fsprogs."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.carving.indirect_bodies import DIRECT_BLOCKS
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import Content
from ext4kit.history import read_history
from ext4kit.recovery.maps.indirect_maps import IndirectMaps, rebuild_indirect_maps
from ext4kit.scan import scan
from ext4kit.unallocated.indirect import indirect_scanner
from ext4kit.unallocated.space import UnallocatedSpace
from sample_images.recipes.contents import text
from sample_images.recipes.machine import run
from sample_images.recipes.truth import FileTruth
from tests.recovery.sources.conftest import Scenes


def _trees(fs: FileSystem) -> IndirectMaps:
    space = UnallocatedSpace(read_history(fs))
    pointers = indirect_scanner(fs.superblock)
    found = scan(space, [pointers]).of(pointers)
    return rebuild_indirect_maps(space, np.concatenate(found))


def _digests(fs: FileSystem, found: IndirectMaps) -> set[str]:
    digests = set()
    for row in np.flatnonzero(~found.is_incomplete).tolist():
        runs, size = found.runs.take(found.runs.owner == row), int(found.size[row])
        digests.add(hashlib.sha256(Content(fs.blocks, size, runs).read(0, size)).hexdigest())
    return digests


def begin_together(files: list[FileTruth]) -> list[FileTruth]:
    """Those whose 12 direct blocks lie in front of what the first indirect block names.

    Nothing tells where the others begin: one of all on 5.10, none on 6.18.
    """
    together = [one for one in files if one.blocks[0][2] > DIRECT_BLOCKS]
    assert len(together) >= len(files) - 1
    return together


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["ext3_large", pytest.param("ext2_large", marks=pytest.mark.slow)])
def test_files_with_indirect_blocks_come_back_whole(scene: Scenes, name: str) -> None:
    seen = scene(name)
    digests = _digests(seen.fs, _trees(seen.fs))
    mapped = {one.sha256: one for one in seen.truth.files if one.size > DIRECT_BLOCKS * 4096}
    assert mapped
    together = begin_together(list(mapped.values()))
    assert [one.path for one in together if one.sha256 not in digests] == []
    assert digests <= mapped.keys()


@pytest.mark.kernel
@pytest.mark.slow
def test_holes_and_scattered_blocks_give_no_wrong_file(scene: Scenes) -> None:
    seen = scene("ext3_wrapped")
    found = _trees(seen.fs)
    owner = {
        block + at: (one.path, logical + at)
        for one in seen.truth.files
        for logical, block, count, _ in one.blocks
        for at in range(count)
    }
    large = [one for one in seen.truth.files if one.path.startswith(b"large/")]
    assert len(large) > 5
    assert {one.sha256 for one in begin_together(large)} <= _digests(seen.fs, found)
    for row in range(len(found)):
        runs = found.runs.take(found.runs.owner == row)
        columns = (runs.logical.tolist(), runs.physical.tolist(), runs.length.tolist())
        blocks = [
            (logical + at, owner.get(block + at))
            for logical, block, count in zip(*columns, strict=True)
            for at in range(count)
        ]
        paths = {whose[0] for _, whose in blocks if whose}
        assert len(paths) <= 1
        if not found.is_incomplete[row]:
            assert all(whose and whose[1] == logical for logical, whose in blocks)


@pytest.mark.parametrize("block_size", [1024, 4096])
def test_indirect_blocks_that_lie_in_the_sequence_of_their_file(
    tmp_path: Path, block_size: int
) -> None:
    """As e2fsprogs and old kernels lay a file out: content, its indirect block, content."""
    image = tmp_path / "ext2.img"
    with image.open("wb") as opened:
        opened.truncate(32 << 20)
    run("mke2fs", "-q", "-t", "ext2", "-b", str(block_size), image)
    sizes = [14 * block_size, 100 * block_size - 7, 300 * block_size + 1]
    digests = set()
    commands = []
    for at, size in enumerate(sizes):
        content = text(f"file {at}", size)
        (tmp_path / f"{at}.txt").write_bytes(content)
        digests.add(hashlib.sha256(content).hexdigest())
        commands.append(f"write {tmp_path / f'{at}.txt'} {at}.txt")
    commands += [f"rm {at}.txt" for at in range(len(sizes))]
    _debugfs(image, commands)
    fs = ext4kit.open(str(image)).volume().filesystem()
    assert _digests(fs, _trees(fs)) == digests


def test_tables_of_numbers_in_files_are_no_indirect_blocks(tmp_path: Path) -> None:
    """Numbers that ascend, as programs hold them, between files that have indirect blocks."""
    image = tmp_path / "ext2.img"
    with image.open("wb") as opened:
        opened.truncate(32 << 20)
    run("mke2fs", "-q", "-t", "ext2", "-b", "1024", image)
    chance = np.random.default_rng(3)
    table = np.cumsum(chance.integers(1, 9, 60 * 256)) % 30_000 + 500
    steps = np.arange(900, 900 + 60 * 256 * 2, 2) % 32_000 + 100
    tables = [column.astype("<u4").tobytes() + b"." for column in (table, steps)]
    contents = [text("file", 40_000), *tables]
    commands = []
    for at, content in enumerate(contents):
        (tmp_path / f"{at}.txt").write_bytes(content)
        commands.append(f"write {tmp_path / f'{at}.txt'} {at}.txt")
    _debugfs(image, [*commands, *(f"rm {at}.txt" for at in range(len(contents)))])
    fs = ext4kit.open(str(image)).volume().filesystem()
    wanted = {hashlib.sha256(content).hexdigest() for content in contents}
    assert _digests(fs, _trees(fs)) == wanted


def _debugfs(image: Path, commands: list[str]) -> None:
    script = image.with_name("commands")
    script.write_text("\n".join(commands) + "\n")
    done = subprocess.run(
        ["debugfs", "-w", "-f", script, image], capture_output=True, text=True, check=True
    )
    assert "not found" not in done.stderr
