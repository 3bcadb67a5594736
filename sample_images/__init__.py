"""Sample images with their ground truth: small packed ones, and recipes for all of them."""

from __future__ import annotations

from pathlib import Path

from sample_images.recipes.packing import acquired, packed_names, unpack
from sample_images.recipes.truth import Built

__all__ = ["Built", "acquired", "build", "packed_names", "unpack"]


def build(name: str, directory: Path, small: bool = False) -> Built:
    """`making.build`, which only Linux has: packed samples are unpacked on every system."""
    from sample_images.recipes import making

    return making.build(name, directory, small)
