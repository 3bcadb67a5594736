"""What a long run puts through the commands: damaged images, and what power cuts leave."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from ext4kit.errors import Ext4kitError
from sample_images import packed_names, unpack
from sample_images.recipes.machine import missing_for_kernel
from tests import cases
from tests.fuzz import images
from tests.fuzz.mutation import Patch, mutated
from tests.fuzz.places import anatomy
from tests.journal.fast_commit_images import FORMATS, Doings, make
from tests.powercut.told_writes import CUT_LAYOUTS, Told, tell
from tests.powercut.write_log import Cut

KERNEL = "kernel "  # before the names of bases that it made
LARGE = 16 << 20  # bytes
LARGEST_CASE = 4 << 20  # bytes
CUTS_EACH = 10  # of a history
OPERATIONS = 100  # in a history


@dataclass(frozen=True, slots=True)
class Input:
    """One image, and the bytes in it that differ from its base.

    Attributes:
        watched: what was done that may not be, asked after the commands; "" for nothing.
    """

    image: Path
    patches: list[Patch]
    watched: Callable[[], str] = str


class Inputs(Protocol):
    """Images by seed."""

    def base(self, seed: int) -> str:
        """Name of what the image of a seed is made from."""

    def image(
        self, seed: int, chance: random.Random, folder: Path
    ) -> AbstractContextManager[Input]:
        """The image of a seed, below `folder`, as long as the context lasts."""


class Damaged:
    """Bases with a few changed values; the same seed damages the same base in the same way.

    Large bases take longer and come half as often.
    """

    def __init__(self, paths: list[Path]) -> None:
        bodies = [(path, anatomy(path)) for path in paths]
        small = [each for each in bodies if len(each[1].data) < LARGE]
        self._bodies = bodies + small

    def base(self, seed: int) -> str:
        """Name of the base of a seed."""
        return self._bodies[seed % len(self._bodies)][0].stem

    @contextmanager
    def image(self, seed: int, chance: random.Random, folder: Path) -> Iterator[Input]:
        """The damaged copy of a base; sound again afterwards, because copies take long."""
        path, body = self._bodies[seed % len(self._bodies)]
        image = folder / path.name
        if not image.exists():
            image.write_bytes(body.data)
        patches = mutated(body, chance)
        _put(image, patches)
        try:
            yield Input(image, patches)
        finally:
            _put(image, [Patch(p.offset, _piece(body.data, p)) for p in patches])


class PowerCuts:
    """Images that a power cut leaves, ten of a history; no two runs have the same."""

    def base(self, seed: int) -> str:
        """Name of the layout of a seed."""
        return list(CUT_LAYOUTS)[seed // CUTS_EACH % len(CUT_LAYOUTS)]

    @contextmanager
    def image(self, seed: int, chance: random.Random, folder: Path) -> Iterator[Input]:  # noqa: ARG002
        """The image of a cut."""
        told, cuts = _history(self.base(seed), seed // CUTS_EACH)
        image = folder / f"cut-{seed}.img"
        image.write_bytes(told.log.image(cuts[seed % len(cuts)]))
        yield Input(image, [])
        image.unlink()


@lru_cache(maxsize=1)
def _history(layout: str, number: int) -> tuple[Told, list[Cut]]:
    with tempfile.TemporaryDirectory(prefix="ext4kit-powercut-") as folder:
        told = tell(CUT_LAYOUTS[layout], number, OPERATIONS, Path(folder))
    return told, told.log.cuts(random.Random(number), CUTS_EACH)


def _piece(data: bytes, patch: Patch) -> bytes:
    return data[patch.offset : patch.offset + len(patch.data)]


def _put(image: Path, patches: list[Patch]) -> None:
    with image.open("r+b") as stream:
        for patch in patches:
            stream.seek(patch.offset)
            stream.write(patch.data)


def bases(folder: Path, wanted: list[str]) -> list[Path]:
    """The sound images to start from: small ones, the packed samples, e2fsprogs' cases."""
    paths = [images.make(name, folder) for name in images.makeable()]
    paths += [unpack(name, folder).image for name in packed_names()]
    paths += [] if missing_for_kernel() else list(_of_the_kernel(folder))
    paths = [path for path in paths if not wanted or path.stem in wanted]
    names = [one["image"] for one in cases.records() if one["bytes"] <= LARGEST_CASE]
    if names and "cases" in wanted:
        cases.unpack(folder, names)
        paths += [folder / name for name in names if _can_be_read(folder / name)]
    return paths


def _of_the_kernel(folder: Path) -> Iterator[Path]:
    """Images whose newest changes are in fast commits alone: only a kernel writes those."""
    for form in ("default", "1k", "inline 1k"):
        made = make(folder, FORMATS[form], lambda root: Doings(root, 3).run(40), size=24)
        yield made.image.rename(folder / f"{KERNEL}{form}.img")


def _can_be_read(path: Path) -> bool:
    try:
        anatomy(path)
    except Ext4kitError:
        return False
    return True
