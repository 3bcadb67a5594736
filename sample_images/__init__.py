"""Sample images with their ground truth: small packed ones, and recipes for all of them."""

from __future__ import annotations

from sample_images.recipes.making import Built, build
from sample_images.recipes.packing import acquired, packed_names, unpack

__all__ = ["Built", "acquired", "build", "packed_names", "unpack"]
