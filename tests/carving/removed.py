"""Images on which the running kernel wrote files long ago and removed them now."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ext4kit
from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals
from ext4kit.carving import BlockFeatures, carve, feature_scanner, format_sizes
from ext4kit.history import read_history
from ext4kit.recovery.maps.indirect_maps import rebuild_indirect_maps
from ext4kit.recovery.maps.rebuilt import RebuiltMaps, from_indirect_maps, headless_bodies
from ext4kit.scan import scan
from ext4kit.unallocated.indirect import indirect_scanner
from ext4kit.unallocated.space import UnallocatedSpace
from sample_images.recipes import machine

_AT_ONCE = 50  # files between two syncs
_CHURN = 300  # fsyncs: each is a transaction, and the log holds far fewer


def removed(folder: Path, options: Sequence[str], contents: Sequence[bytes]) -> Path:
    """An image from which files with these contents were removed after the log had wrapped."""
    image, where = folder / "removed.img", folder / "mounted"
    where.mkdir()
    size = max(64 << 20, 3 * sum(map(len, contents)) >> 20 << 20)
    machine.make_file_system(image, size, ("-J", "size=4", *options))
    chance = random.Random(1)
    with machine.loop_device(image) as device:
        machine.mount(device, where, "rw")
        try:
            kept = _written(where, contents, chance)
        finally:
            machine.unmount(where)
        machine.mount(device, where, "rw")
        try:
            _churned(where, kept)
        finally:
            machine.unmount(where)
        machine.mount(device, where, "rw")
        try:
            for number in range(len(contents)):
                (where / f"d{number // _AT_ONCE}" / f"{number}").unlink()
        finally:
            machine.unmount(where)
    return image


def _written(where: Path, contents: Sequence[bytes], chance: random.Random) -> list[Path]:
    """Write the files, and here and there one that stays."""
    kept = []
    for number, content in enumerate(contents):
        folder = where / f"d{number // _AT_ONCE}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}").write_bytes(content)
        if number % 12 == 5:
            kept.append(folder / f"kept{number}")
            kept[-1].write_bytes(chance.randbytes(chance.randint(1, 30_000)))
        if number % _AT_ONCE == _AT_ONCE - 1:
            machine.sync(where)
    return kept


def _churned(where: Path, kept: Sequence[Path]) -> None:
    handle = os.open(where, os.O_RDONLY)
    try:
        for number in range(_CHURN):
            os.utime(kept[number % len(kept)], (number, number))
            os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Score:
    """How carving did.

    Attributes:
        exact: share of the removed files that came back byte for byte.
        sure: share of what carving is sure of that is exactly a removed file.
        blocks: all blocks that it gave, file by file.
    """

    exact: float
    sure: float
    blocks: Any


def carved_from(image: Path, contents: Sequence[bytes]) -> Score:
    """Carve an image and compare by SHA-256."""
    wanted = {hashlib.sha256(content).digest() for content in contents}
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem()
        space = UnallocatedSpace(read_history(fs))
        pointers = indirect_scanner(fs.superblock)
        seen = scan(space, [feature_scanner, pointers])
        trees = rebuild_indirect_maps(space, np.concatenate(seen.of(pointers)))
        maps = from_indirect_maps(trees)
        start = np.concatenate([maps.runs.physical, maps.tree_blocks[1]])
        length = np.concatenate([maps.runs.length, np.ones(len(maps.tree_blocks[1]), np.int64)])
        marks = BlockFeatures.concat([one for one in seen.of(feature_scanner) if one])
        claimed = Intervals.union(start, length)
        found = carve(space.blocks, marks, space.unused, claimed, headless_bodies(trees))
        sizes, _, _ = format_sizes(space.blocks, maps.runs, maps.size)
        mapped = [_hashed(space, _runs_of(maps, row), sizes[row]) for row in range(len(maps))]
        cut = [_hashed(space, found.runs(row), found.size[row]) for row in range(len(found))]
    sure = mapped + [one for one, good in zip(cut, found.is_reliable.tolist(), strict=True) if good]
    first = np.concatenate([maps.runs.physical, found.run_first])
    row, position = expand(np.concatenate([maps.runs.length, found.run_count]))
    return Score(
        len(wanted.intersection(mapped + cut)) / len(wanted),
        sum(one in wanted for one in sure) / len(sure),
        first[row] + position,
    )


def _runs_of(maps: RebuiltMaps, row: int) -> list[tuple[int, int]]:
    runs = maps.runs.take(maps.runs.owner == row)
    return list(zip(runs.physical.tolist(), runs.length.tolist(), strict=True))


def _hashed(space: UnallocatedSpace, runs: list[tuple[int, int]], size: int) -> bytes:
    blocks: Any = b"".join(bytes(space.blocks.read(*run)) for run in runs)
    return hashlib.sha256(blocks[: int(size)]).digest()
