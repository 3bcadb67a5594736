"""Bytes as blocks, and files that real programs wrote."""

from __future__ import annotations

import os
import random
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy

from ext4kit.errors import AccessError
from ext4kit.filetypes.formats import LENGTHS, Budget, ContentReader, Stated

BLOCK = 4096
ENOUGH = 1 << 32


class Held:
    """Blocks in memory."""

    def __init__(self, data: bytes, block_size: int = BLOCK) -> None:
        self.data = data + bytes(-len(data) % block_size)
        self.block_size = block_size
        self.blocks_count = len(self.data) // block_size

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on."""
        if block < 0 or block + count > self.blocks_count:
            raise AccessError(f"block {block + count - 1} is not there")
        size = self.block_size
        return memoryview(self.data)[block * size : (block + count) * size]

    def read_many(self, blocks: object) -> NoReturn:
        """Nothing here asks for it."""
        raise NotImplementedError


def window_of(held: Held, budget: Budget) -> ContentReader:
    """All of it, from its first byte on."""
    return ContentReader(held, lambda first, count: [(first, count)], held.blocks_count, budget)


def length(kind: str, data: bytes, budget: int = ENOUGH) -> Stated | None:
    """What the format says of the content that starts at the first byte."""
    held = Held(data)
    return LENGTHS[kind](window_of(held, Budget(budget)))


@cache
def _names() -> list[str]:
    """The files of this machine's packages and of NumPy, in the same order each time."""
    lists = [path.read_text() for path in Path("/var/lib/dpkg/info").glob("*.list")]
    tops = [Path(numpy.__file__).parent] if lists else [Path("/usr")]
    names = {name for text in lists for name in text.splitlines()}
    names |= {f"{at}/{name}" for top in tops for at, _, found in os.walk(top) for name in found}
    return sorted(names)


def found_on_this_machine(
    suffixes: tuple[str, ...], most: int, largest: int = 1 << 20, folder: str = "/"
) -> list[Path]:
    """Up to `most` files of this machine, the same ones each time."""
    fitting = [name for name in _names() if name.startswith(folder) and name.endswith(suffixes)]
    random.Random(4).shuffle(fitting)
    real = (
        path
        for path in map(Path, fitting)
        if path.is_file() and not path.is_symlink() and 0 < path.stat().st_size <= largest
    )
    return list(islice(real, most))
