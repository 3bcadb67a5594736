"""Recipe -> image and truth."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sample_images.recipes import (
    corners,
    debian,
    everyday,
    forgotten,
    layouts,
    machine,
    moves,
)
from sample_images.recipes.judge import Folders, judge
from sample_images.recipes.recipe import Recipe
from sample_images.recipes.stage import Recorded, staged
from sample_images.recipes.truth import Built, LiveFile, Truth

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipes in (
        everyday.RECIPES,
        layouts.RECIPES,
        corners.RECIPES,
        moves.RECIPES,
        debian.RECIPES,
        forgotten.RECIPES,
    )
    for recipe in recipes
}


def build(name: str, directory: Path, small: bool = False) -> Built:
    """Make the image of one recipe and its truth.

    Args:
        name: of the recipe.
        directory: where the two files go; made when it is not there.
        small: the small variant, for packing.

    Raises:
        KeyError: no such recipe.
        MachineError: a tool failed; needs root and loop devices.
    """
    return make(RECIPES[name], directory, small)


def make(recipe: Recipe, directory: Path, small: bool = False) -> Built:
    """As `build`, for a recipe that is not among the `RECIPES`."""
    name = recipe.name
    directory.mkdir(parents=True, exist_ok=True)
    built = Built.of(name, directory)
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{name}-") as scratch:
        backing = Path(scratch) / "backing.img"
        size = recipe.small_size if small and recipe.small_size else recipe.size
        machine.make_file_system(backing, size, _options(recipe, small))
        book, live, folders = _perform(recipe, backing, built.image, small)
    files = judge(built.image, book, live, folders)
    Truth(name, files, live).save(built.truth)
    return built


def _options(recipe: Recipe, small: bool) -> tuple[str, ...]:
    small_log = small and "-J" in recipe.options
    return (*recipe.options, "-J", "size=4") if small_log else recipe.options


def _perform(
    recipe: Recipe, backing: Path, image: Path, small: bool
) -> tuple[list[Recorded], list[LiveFile], Folders]:
    with staged(backing, recipe.mount_options, small) as stage:
        recipe.act(stage)
        live, folders = stage.living()
        if recipe.power_cut:
            machine.copy_sparse(backing, image)
    if not recipe.power_cut:
        shutil.move(backing, image)
    return stage.book, live, folders
