"""The space without live files, held against what dumpe2fs and debugfs say of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.history import read_history
from ext4kit.scan import Scanner, scan
from ext4kit.unallocated import space
from ext4kit.unallocated.space import UnallocatedSpace
from sample_images import packed_names, unpack
from tests.fuzz import images

NAMES = (*packed_names(), *(() if images.missing() else ("bigalloc", "small_groups", "ext4_4k")))


def _free_blocks(image: Path) -> set[int]:
    """The free blocks of all groups, as dumpe2fs says (before 1.47.2: to a cluster's first)."""
    said = subprocess.run(["dumpe2fs", image], capture_output=True, text=True, check=True).stdout
    sizes = {kind: int(size) for kind, size in re.findall(r"^(\w+) size: +(\d+)$", said, re.M)}
    ratio = sizes.get("Cluster", sizes["Block"]) // sizes["Block"]
    found: set[int] = set()
    for line in re.findall(r"^  Free blocks: (.*)$", said, re.MULTILINE):
        for part in filter(None, line.split(", ")):
            first, _, last = part.partition("-")
            end = int(last or first) // ratio * ratio + ratio
            found.update(range(int(first), end))
    return found


@pytest.fixture(params=NAMES)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small sound image."""
    if request.param in images.BASES:
        return images.sound(request.param)
    return unpack(request.param, tmp_path).image


def test_the_stretches_are_the_free_blocks_that_hold_data(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "BYTES_AT_ONCE", 96 << 10)
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem(replay=False)
        size = fs.superblock.block_size
        looked = [(s.blocks, s.data.any(axis=1), s.data.copy(), s.in_log)
                  for s in UnallocatedSpace(read_history(fs)).batches()]  # fmt: skip
    free, raw = _free_blocks(image), image.read_bytes()
    seen: list[int] = []
    for blocks, _, data, in_log in looked:
        if in_log:
            continue
        seen += blocks.tolist()
        for block, row in zip(blocks.tolist(), data, strict=True):
            assert row.tobytes() == raw[block * size : (block + 1) * size]
    assert seen == sorted(set(seen))
    assert set(seen) <= free
    assert all(not any(raw[block * size : (block + 1) * size]) for block in free - set(seen))


def test_a_survey_gives_every_stretch_in_order_to_every_look(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "BYTES_AT_ONCE", 32 << 10)
    told: list[tuple[int, int]] = []
    with ext4kit.open(image) as opened:
        room = UnallocatedSpace(read_history(opened.volume().filesystem()))
        blocks = Scanner("blocks", lambda batch: batch.blocks)
        sums = Scanner("sums", lambda batch: int(batch.data.sum()))
        found = scan(room, (blocks, sums), lambda done, total: told.append((done, total)))
        seen = list(zip(found.of(blocks), found.of(sums), strict=True))
        assert found.of(Scanner("another", len)) == []
        expected = list(room.batches())
        assert [(s.blocks.tolist(), int(s.data.sum())) for s in expected] == [
            (blocks.tolist(), total) for blocks, total in seen
        ]
        assert told[-1] == (room.bytes, room.bytes)
        logged = np.concatenate([s.blocks for s in expected if s.in_log] or [np.zeros(0, np.int64)])
        assert logged.tolist() == room.untagged_positions.tolist()
