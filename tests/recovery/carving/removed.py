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
from ext4kit.parsers.features import Incompat
from ext4kit.past import Past
from ext4kit.recovery.sources.carving import Carved, Marks, carve, look
from ext4kit.recovery.sources.space import Space, survey
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
        carved: what it gave.
    """

    exact: float
    sure: float
    carved: Carved


def carved_from(image: Path, contents: Sequence[bytes]) -> Score:
    """Carve an image and compare by SHA-256."""
    wanted = {hashlib.sha256(content).digest() for content in contents}
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem()
        space = Space(Past(fs))
        marks = Marks.joined([one for (one,) in survey(space, [look]) if one is not None])
        nothing = np.zeros(0, np.int64)
        found = carve(
            space.blocks,
            marks,
            space.unused,
            (nothing, nothing),
            Incompat.EXTENT in fs.superblock.features,
        )
        hashes = [_hashed(space, found, row) for row in range(len(found))]
    good = np.array([one in wanted for one in hashes])
    return Score(
        len(wanted.intersection(hashes)) / len(wanted), float(good[found.sure].mean()), found
    )


def _hashed(space: Space, found: Carved, row: int) -> bytes:
    blocks: Any = b"".join(bytes(space.blocks.read(*run)) for run in found.runs(row))
    return hashlib.sha256(blocks[: int(found.size[row])]).digest()
