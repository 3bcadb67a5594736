"""Images whose log has forgotten, made once in a session and looked through once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import ext4kit
from ext4kit.filesystem import FileSystem
from ext4kit.history import History, read_history
from ext4kit.scan import scan
from ext4kit.unallocated.metadata import MetadataBlocks, metadata_scanner
from ext4kit.unallocated.owners import SeedIndex, index_known_inodes, number_inode_blocks
from ext4kit.unallocated.space import UnallocatedSpace
from sample_images.recipes.truth import FileTruth, Truth, load
from tests.environment.sharing import built_once

Block = tuple[int, int]  # (file block, block)


@dataclass(frozen=True)
class Seen:
    """An image with all that was found in the space of nobody."""

    image: Path
    truth: Truth
    fs: FileSystem
    history: History
    space: UnallocatedSpace
    structures: MetadataBlocks
    owners: SeedIndex

    def by_first_block(self) -> dict[int, FileTruth]:
        """The deleted files by their first block."""
        return {one.blocks[0][1]: one for one in self.truth.files if one.blocks}


Scenes = Callable[[str], Seen]


def look_at(image: Path, truth: Truth) -> Seen:
    """Open an image and look through its free space and its log."""
    fs = ext4kit.open(str(image)).volume().filesystem()
    history = read_history(fs)
    space = UnallocatedSpace(history)
    metadata = metadata_scanner(fs.superblock)
    found = MetadataBlocks.concat(scan(space, [metadata]).of(metadata))
    found = number_inode_blocks(fs, space, found)
    return Seen(image, truth, fs, history, space, found, index_known_inodes(history, space, found))


@pytest.fixture(scope="session")
def scene(needs_kernel: None) -> Scenes:
    """Give the image of a recipe in `scenes`, in its small variant."""
    from sample_images.recipes.making import make
    from tests.recovery.sources.scenes import RECIPES

    recipes = {recipe.name: recipe for recipe in RECIPES}
    made: dict[str, Seen] = {}

    def give(name: str) -> Seen:
        if name not in made:
            built = built_once(
                f"source-{name}", lambda folder: make(recipes[name], folder, small=True)
            )
            made[name] = look_at(built.image, load(built.truth))
        return made[name]

    return give


def blocks_of(one: FileTruth) -> set[Block]:
    """Every block of a file in the truth."""
    return {
        (logical + at, block + at) for logical, block, count, _ in one.blocks for at in range(count)
    }
