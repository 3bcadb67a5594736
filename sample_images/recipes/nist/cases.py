"""All cases, in the order of their numbers."""

from __future__ import annotations

from sample_images.recipes.nist import placed, trees
from sample_images.recipes.nist.case import Case

CASES: dict[str, Case] = {
    case.name: case for case in sorted(placed.CASES + trees.CASES, key=lambda one: one.name[:2])
}
