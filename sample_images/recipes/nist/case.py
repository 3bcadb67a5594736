"""What a case is, and how its image and its truth are made."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sample_images.recipes import machine
from sample_images.recipes.judge import judge
from sample_images.recipes.nist.objects import CaseTruth
from sample_images.recipes.nist.placing import Site
from sample_images.recipes.recipe import MIB
from sample_images.recipes.stage import staged
from sample_images.recipes.truth import Built, Truth

KINDS = ("ext2", "ext3", "ext4")

Act: TypeAlias = Callable[[Site], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One of NIST's cases, or a form of it.

    Attributes:
        name: its number, and the form.
        about: one line on what happens.
        act: what is done in the mounted file system.
        size: of the image, MiB.
        journal: its size, MiB; ext2 has none.
        slow: takes some seconds.
    """

    name: str
    about: str
    act: Act
    size: int = 16
    journal: int = 4
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """An image, the truth of its files in the form of all recipes, and that of everything."""

    built: Built
    truth: Path


def make(case: Case, kind: str, directory: Path) -> Made:
    """Make the image of one case on ext2, ext3 or ext4, with its truth.

    Raises:
        MachineError: a tool failed, or the kernel put blocks elsewhere; needs root.
    """
    name = f"nist-{case.name}-{kind}"
    directory.mkdir(parents=True, exist_ok=True)
    built = Built.of(name, directory)
    journal = () if kind == "ext2" else ("-J", f"size={case.journal}")
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{name}-") as scratch:
        backing = Path(scratch) / "backing.img"
        options = ("-t", kind, *journal, "-m", "0")
        machine.make_file_system(backing, case.size * MIB, options)
        with staged(backing, "", small=False) as stage:
            site = Site(stage)
            case.act(site)
            truth: CaseTruth = site.finished()
            live, folders = stage.living()
        shutil.move(backing, built.image)
    objects = directory / f"{name}.objects.json"
    Truth(name, judge(built.image, stage.book, live, folders), live).save(built.truth)
    truth.save(objects)
    return Made(built, objects)
