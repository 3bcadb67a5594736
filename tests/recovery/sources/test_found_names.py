"""Names from freed directory blocks: only right ones, and for every file that has one there."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.past.names import NameHistory
from ext4kit.recovery.sources.names import find_names
from ext4kit.recovery.sources.paths import FREED_BLOCK, FoundName, FoundPaths
from sample_images.recipes.truth import FileTruth
from tests.recovery.sources.conftest import Scenes, Seen

pytestmark = pytest.mark.kernel

NAMES = [
    "leaves_wrapped",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("roots_taken", "no_sums_wrapped", "no_journal", "small_blocks")
    ),
]


def _named(seen: Seen) -> list[tuple[FileTruth, FoundName]]:
    every = np.ones(seen.fs.superblock.inodes_count + 1, bool)
    found = find_names(seen.space, seen.structures, seen.owners, every)
    paths = FoundPaths(seen.past, NameHistory(seen.past), found)
    pairs = zip(seen.past.number.tolist(), seen.past.generation.tolist(), strict=True)
    lives = {pair: life for life, pair in enumerate(pairs)}
    named = []
    for one in seen.truth.files:
        life = lives.get((one.inode, one.generation))
        name = None if life is None else paths.of(life)
        if name is not None:
            named.append((one, name))
    return named


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_wrong(scene: Scenes, name: str) -> None:
    for one, found in _named(scene(name)):
        below = (found.below or b"").split(b"/", 1)[-1]
        assert b"/" + one.path == found.path or one.path.endswith(b"/" + below)
        assert found.name == one.path.rsplit(b"/", 1)[-1]
        assert found.source == FREED_BLOCK


def test_every_file_whose_folder_was_removed_gets_its_name(scene: Scenes) -> None:
    """The top of the tree was wiped out of the root: below it all names are there."""
    seen = scene("leaves_wrapped")
    named = {one.path: found for one, found in _named(seen)}
    below = [one for one in seen.truth.files if one.path.startswith(b"tree/")]
    assert below
    assert [one.path for one in below if one.path not in named] == []
    parts = [(named[one.path].below or b"").split(b"/", 1) for one in below]
    assert len({top for top, _ in parts}) == 1
    assert [b"tree/" + rest for _, rest in parts] == [one.path for one in below]
