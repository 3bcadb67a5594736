"""The merged view shows what a mount of overlayfs shows."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import ext4kit as library
from tests.mount.mounting import Facts
from tests.roots.overlays import (
    RandomWriter,
    facts_of_mount,
    facts_of_view,
    mounted_image,
    new_image,
    overlay,
    overlay_view,
)

pytestmark = pytest.mark.usefixtures("needs_kernel")

WAYS = {
    "plain": "redirect_dir=off,metacopy=off,index=off",
    "redirect": "redirect_dir=on,metacopy=off,index=off",
    "index": "redirect_dir=on,metacopy=off,index=on",
    "metacopy": "redirect_dir=on,metacopy=on,index=on",
    "userxattr": "userxattr,index=off",
}


def _random_layers(disk: Path, folder: Path, options: str, seed: int) -> list[Path]:
    """Layers that were written one above the other, the top one first."""
    chance = random.Random(seed)
    layers = [disk / "layer-0"]
    layers[0].mkdir()
    RandomWriter(layers[0], chance).write(80)
    for number in range(1, 4):
        layers.insert(0, disk / f"layer-{number}")
        work = disk / f"work-{number}"
        layers[0].mkdir()
        work.mkdir()
        with overlay(folder, layers, work, options) as merged:
            RandomWriter(merged, chance).write(35)
    return layers


def _compare(shown: dict[bytes, Facts], view: dict[bytes, Facts]) -> None:
    assert sorted(view) == sorted(shown)
    assert view == shown


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", WAYS)
def test_layers_of_random_changes_are_merged_as_the_kernel_does(
    way: str, seed: int, tmp_path: Path
) -> None:
    image = new_image(tmp_path)
    with mounted_image(image, tmp_path) as disk:
        layers = _random_layers(disk, tmp_path, WAYS[way], seed)
        work = disk / "work-3"
        with overlay(tmp_path, layers, work, WAYS[way]) as merged:
            shown = facts_of_mount(merged)
        names = ["/" + layer.name for layer in layers]
        index = "/work-3/index" if (work / "index").is_dir() else ""
    with library.open(image) as opened:
        view = overlay_view(opened.filesystem(), names, way == "userxattr", index)
        _compare(shown, facts_of_view(view))
        assert not list(opened.filesystem().problems)


def _renames(step: int, tree: Path) -> None:
    """Folders of lower layers that move: relative and absolute redirects, one through another."""
    if step == 0:
        (tree / "a/b/d/deep").mkdir(parents=True)
        (tree / "a/b/d/deep/file").write_bytes(b"deep")
        (tree / "x/y").mkdir(parents=True)
        (tree / "x/y/file").write_bytes(b"first")
        (tree / "p/q/r").mkdir(parents=True)
        (tree / "p/q/r/file").write_bytes(b"relative in the middle")
    elif step == 1:
        (tree / "p/q").rename(tree / "p/s")
        (tree / "a/b").rename(tree / "c")
        (tree / "x/y").rename(tree / "x/z")
    elif step == 2:
        (tree / "p/s/r").rename(tree / "t")
        (tree / "c/d").rename(tree / "e")
        (tree / "x").rename(tree / "w")
        (tree / "w/z/more").write_bytes(b"more")
    else:
        (tree / "e/deep").rename(tree / "w/z/deep")
        (tree / "w/z/file").unlink()
        (tree / "c").rename(tree / "a/b")


def _links(step: int, tree: Path) -> None:
    """Names of one file, of which one is written to."""
    if step == 0:
        (tree / "one").write_bytes(b"one")
        (tree / "two").hardlink_to(tree / "one")
        (tree / "three").hardlink_to(tree / "one")
    elif step == 3:
        (tree / "one").write_bytes(b"changed")
        (tree / "three").unlink()


def _metadata(step: int, tree: Path) -> None:
    """Files of which only the mode changes, in several layers and under new names."""
    if step == 0:
        (tree / "d").mkdir()
        (tree / "d/a").write_bytes(bytes(range(256)) * 40)
        (tree / "d/b").write_bytes(b"b" * 5000)
    elif step == 1:
        (tree / "d/a").chmod(0o600)
        (tree / "d/b").chmod(0o600)
    elif step == 2:
        (tree / "d/a").chmod(0o640)
        (tree / "d/b").rename(tree / "c")
    else:
        (tree / "d/a").chmod(0o400)
        (tree / "d").rename(tree / "f")
        (tree / "c").chmod(0o444)


def _nested(step: int, tree: Path) -> None:
    """Attributes of an overlay on the overlay, which are stored under another name."""
    if step == 0:
        (tree / "d").mkdir()
        (tree / "d/below").write_bytes(b"seen")
    elif step == 1:
        os.setxattr(tree / "d", "trusted.overlay.opaque", b"y")
        os.setxattr(tree / "d", "user.kept", b"1")


def _replaced(step: int, tree: Path) -> None:
    """A name that is in turn a folder, a file, a folder, and an opaque folder."""
    name = tree / "name"
    if step == 1:
        shutil.rmtree(name)
        name.write_bytes(b"file")
        return
    if step == 2:
        name.unlink()
    elif step == 3:
        shutil.rmtree(name)
    name.mkdir()
    (name / f"of-{step}").write_bytes(b"x")


SCENES = {
    "renames": _renames, "links": _links, "metadata": _metadata, "nested": _nested,
    "replaced": _replaced,
}  # fmt: skip
Scene = Callable[[int, Path], None]


def _shown_and_view(
    scene: Scene,
    options: str,
    folder: Path,
    by_hand: Callable[[Sequence[Path]], None] | None = None,
) -> tuple[dict[bytes, Facts], dict[bytes, Facts]]:
    """What the kernel and the view show of four layers."""
    image = new_image(folder)
    with mounted_image(image, folder) as disk:
        layers = [disk / "layer-0"]
        layers[0].mkdir()
        scene(0, layers[0])
        for step in range(1, 4):
            layers.insert(0, disk / f"layer-{step}")
            (disk / f"work-{step}").mkdir()
            layers[0].mkdir()
            with overlay(folder, layers, disk / f"work-{step}", options) as merged:
                scene(step, merged)
        if by_hand is not None:
            by_hand(layers)
        with overlay(folder, layers, disk / "work-3", options) as merged:
            shown = facts_of_mount(merged)
        index = "/work-3/index" if (disk / "work-3/index").is_dir() else ""
    with library.open(image) as opened:
        names = ["/" + layer.name for layer in layers]
        return shown, facts_of_view(overlay_view(opened.filesystem(), names, index=index))


@pytest.mark.parametrize("name", SCENES)
def test_each_trace_of_overlayfs_is_followed(name: str, tmp_path: Path) -> None:
    shown, view = _shown_and_view(SCENES[name], WAYS["metacopy"], tmp_path)
    _compare(shown, view)


def test_whiteouts_that_are_attributes_hide_names(tmp_path: Path) -> None:
    def scene(step: int, tree: Path) -> None:
        if step == 0:
            (tree / "d").mkdir()
            for name in ("hidden", "shown"):
                (tree / "d" / name).write_bytes(b"1")

    def by_hand(layers: Sequence[Path]) -> None:
        folder = layers[1] / "d"
        folder.mkdir()
        os.setxattr(layers[1], "trusted.overlay.opaque", b"x")
        os.setxattr(folder, "trusted.overlay.opaque", b"x")
        (folder / "hidden").write_bytes(b"")
        os.setxattr(folder / "hidden", "trusted.overlay.whiteout", b"y")

    shown, view = _shown_and_view(scene, WAYS["plain"], tmp_path, by_hand)
    assert b"d/hidden" not in shown  # else this kernel does not know them
    _compare(shown, view)
