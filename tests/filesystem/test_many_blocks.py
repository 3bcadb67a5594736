"""Many blocks read together are the bytes that lie at their places in the file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence.raw import open_raw
from ext4kit.evidence.source import Window
from ext4kit.filesystem.blocks import SourceBlocks

SIZE, COUNT, SKIP = 1024, 3000, 512


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(random.Random(1).randbytes(SKIP + SIZE * COUNT))
    return path


@pytest.mark.parametrize("number", [1, 15, 40, 2000])
def test_blocks_in_any_order(image: Path, number: int) -> None:
    source, data = open_raw(image), image.read_bytes()[SKIP:]
    blocks = SourceBlocks(Window(source, SKIP, SIZE * COUNT), SIZE, COUNT)
    wanted = random.Random(2).choices(range(COUNT), k=number)
    rows = blocks.read_many(np.array(wanted, np.int64))
    assert [row.tobytes() for row in rows] == [data[SIZE * n : SIZE * (n + 1)] for n in wanted]
    source.close()


@pytest.mark.parametrize("outside", [-1, COUNT])
def test_a_block_outside_is_refused(image: Path, outside: int) -> None:
    source = open_raw(image)
    blocks = SourceBlocks(Window(source, SKIP, SIZE * COUNT), SIZE, COUNT)
    with pytest.raises(AccessError):
        blocks.read_many(np.array([*range(0, 200, 2), outside], np.int64))
    source.close()


def test_blocks_that_lie_far_apart(tmp_path: Path) -> None:
    path, chance = tmp_path / "sparse", random.Random(3)
    wanted = [0, *(at * 5000 + run for at in range(1, 40) for run in range(at % 3 + 1))]
    pieces = {block: chance.randbytes(SIZE) for block in wanted}
    with path.open("wb") as stream:
        stream.truncate(SIZE * 200_000)
        for block, piece in pieces.items():
            stream.seek(SKIP + SIZE * block)
            stream.write(piece)
    source = open_raw(path)
    blocks = SourceBlocks(Window(source, SKIP, SIZE * 199_000), SIZE, 199_000)
    for order in (wanted, chance.sample(wanted, len(wanted))):
        rows = blocks.read_many(np.array(order, np.int64))
        assert [row.tobytes() for row in rows] == [pieces[block] for block in order]
    for outside in (-1, 199_000):
        with pytest.raises(AccessError):
            blocks.read_many(np.array([*wanted, outside], np.int64))
    source.close()
