"""A tree that is read in pieces is the tree that is read at once, and its bounds hold."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import ext4kit
from ext4kit.filesystem import FileSystem, filesystem, tree_pieces
from ext4kit.filesystem.directories import DirTree, TreeLimits
from ext4kit.filesystem.tree_pieces import read_tree_pieces
from tests.conftest import Images
from tests.fuzz import images
from tests.fuzz.commands import called
from tests.hostile.victim import Victim

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
SIZES = (1, 3, 50, 4096)  # blocks of a piece


def entries(trees: list[DirTree]) -> list[tuple[bytes, int, int]]:
    return [
        entry
        for tree in trees
        for entry in zip(tree.paths, tree.inode.tolist(), tree.file_type.tolist(), strict=True)
    ]


def assert_alike(fs: FileSystem) -> None:
    whole, told = entries([fs.tree()]), list(fs.problems)
    for size in SIZES:
        assert entries(list(read_tree_pieces(fs, 2, blocks=size))) == whole
    assert list(fs.problems) == told


@pytest.mark.parametrize("base", images.BASES)
def test_small_images_of_all_formats(base: str) -> None:
    with ext4kit.open(images.made(base)) as image:
        assert_alike(image.volumes[0].filesystem(replay=False))


@pytest.mark.parametrize("name", ["rm_rf_tree", "ext3", "orphan_file"])
def test_samples(name: str, unpacked: Images) -> None:
    with ext4kit.open(unpacked(name).image) as image:
        assert_alike(image.volume().filesystem())


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders and files in any order, some folders with many names, some without any."""
    chance, folder = random.Random(7), tmp_path_factory.mktemp("forest")
    root, folders = folder / "root", [folder / "root"]
    root.mkdir()
    for at in range(400):
        above = chance.choice(folders[-30:] + folders[:3])
        folders.append(above / f"{chance.randrange(1 << 30):x}-{at}")
        folders[-1].mkdir()
        for number in range(chance.choice((0, 0, 1, 5, 60))):
            (folders[-1] / f"{chance.randrange(1 << 40):x}-{number}").touch()
    image = folder / "image"
    command = ("mke2fs", "-q", "-t", "ext4", "-b", "1024", "-N", "9000", "-d", root, image, "64M")
    subprocess.run(command, check=True)
    return image


def test_a_forest(forest: Path) -> None:
    with ext4kit.open(forest) as image:
        fs = image.volume().filesystem()
        assert len(fs.tree()) > 4000
        assert_alike(fs)
        assert len(list(read_tree_pieces(fs, 2, blocks=50))) > 5
        below = fs.tree().paths[len(fs.tree()) // 2].rpartition(b"/")[0]
        number = fs.lookup(below)
        pieces = list(read_tree_pieces(fs, number, below, blocks=1))
        assert entries(pieces) == entries([fs.tree(number, below)])


def test_a_directory_that_has_two_names_is_read_once(forest: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(forest.read_bytes())
    with ext4kit.open(forest) as before:
        tree = before.volume().filesystem().tree()
        named = [path for path, kind in zip(tree.paths, tree.file_type, strict=True) if kind == 2]
    for at, (old, below) in enumerate(
        [(named[9], named[1]), (named[1], named[9]), (named[3], b"")]
    ):
        images.debugfs(image, f"link {old.decode()} {below.decode()}/again{at}")
    images.debugfs(image, f"link {named[5].decode()} {named[5].decode()}/loop")
    with ext4kit.open(image) as again:
        fs = again.volume().filesystem()
        assert_alike(fs)
        assert any("is reached twice" in str(problem) for problem in fs.problems)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Read every tree in small pieces from then on."""

    def begin() -> None:
        monkeypatch.setattr(filesystem, "INODES_OF_A_TREE", 0)
        small = partial(read_tree_pieces, blocks=20)
        monkeypatch.setattr(tree_pieces, "read_tree_pieces", small)

    return begin


@pytest.mark.parametrize("words", [["-r"], ["-r", "-l"], ["-r", "--json"]], ids=" ".join)
def test_listings_are_the_same(
    words: list[str], forest: Path, in_pieces: Callable[[], None]
) -> None:
    whole = called(["ls", *words, str(forest)])
    in_pieces()
    assert called(["ls", *words, str(forest)]) == whole


def test_extractions_and_exports_are_the_same(
    forest: Path, in_pieces: Callable[[], None], tmp_path: Path
) -> None:
    found = []
    for at in range(2):
        out = tmp_path / str(at)
        assert called(["extract", str(forest), "/", "-o", str(out / "files")])[0] == 0
        command = ["export", str(forest), "--without", "deleted", "--bodyfile"]
        assert called([*command, str(out / "body")])[0] == 0
        manifest = (out / "files/manifest.jsonl").read_text()
        assert manifest.count("\n") > 4000
        found.append((manifest, (out / "body").read_text()))
        in_pieces()
    assert found[0] == found[1]


def test_a_walk_is_the_same(forest: Path, in_pieces: Callable[[], None]) -> None:
    with ext4kit.open(forest) as image:
        fs = image.volume().filesystem()
        whole = list(fs.walk())
        in_pieces()
        assert list(fs.walk()) == whole


def test_paths_end_at_the_limit_of_their_bytes(
    forest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limits(fs: FileSystem) -> TreeLimits:
        return TreeLimits(fs.blocks.blocks_count, 50_000)

    monkeypatch.setattr(TreeLimits, "of", limits)
    with ext4kit.open(forest) as image:
        fs = image.volume().filesystem()
        found = [path for path, _, _ in entries(list(read_tree_pieces(fs, 2, blocks=20)))]
        assert 45_000 < sum(map(len, found)) <= 50_000
        assert any("exceeds the limits" in str(problem) for problem in fs.problems)


def test_directories_that_share_their_blocks_are_read_as_far_as_the_evidence_goes(
    tmp_path: Path,
) -> None:
    victim = Victim()
    victim.with_shared_directories()
    with ext4kit.open(victim.write(tmp_path / "image")) as image:
        fs = image.volumes[0].filesystem(replay=False)
        start = time.process_time()
        pieces = list(read_tree_pieces(fs, 2))
        assert time.process_time() - start < 60
        assert sum(map(len, pieces)) < 256 * fs.blocks.blocks_count
        assert any("are there too often" in str(problem) for problem in fs.problems)
