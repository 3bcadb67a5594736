"""Damaged images for what shows their trees."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.environment.sharing import built_once
from tests.fuzz.inputs import Damaged, bases


@cache
def damaged_images() -> Damaged:
    return Damaged(built_once("fuzz-slice", lambda folder: bases(folder, [])))


@contextmanager
def damaged_image(seed: int, folder: Path) -> Iterator[Path]:
    """A damaged image; that it cannot be opened at all may be told within, in one line."""
    with damaged_images().image(seed, random.Random(seed), folder) as given:
        try:
            yield given.image
        except AssertionError as error:
            if "ext4kit: " not in str(error) or "internal" in str(error):
                raise
