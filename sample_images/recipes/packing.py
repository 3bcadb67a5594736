"""Packed samples: small images with their truth, for a demo and tests without root.

One of them is there as a lab would have it, too: in an E01 that ewfacquire made of it.
"""

from __future__ import annotations

import lzma
import sys
import tempfile
from pathlib import Path

from sample_images.kernels import HOST
from sample_images.recipes import machine
from sample_images.recipes.truth import TRUTH, Built

PACKED = Path(__file__).resolve().parent.parent / "packed"
CHUNK = 1 << 20
_PRESET = 9 | lzma.PRESET_EXTREME
ACQUIRED = "rm_rf_tree"
SAMPLES = {  # name: the recipe, and the kernel that it is built on
    "removed_after_remount": ("removed_after_remount", HOST),
    "rm_rf_tree": ("rm_rf_tree", HOST),
    "power_cut": ("power_cut", HOST),
    "orphan_file": ("orphan_file", HOST),
    "ext3": ("ext3", HOST),
    "large_extent_leaves": ("large_extent_leaves", HOST),
    "removed_on_5_10": ("removed_after_remount", "5.10"),
}


def packed_names() -> list[str]:
    """The samples that are there, packed."""
    return sorted(path.name.removesuffix(".img.xz") for path in PACKED.glob("*.img.xz"))


def unpack(name: str, directory: Path) -> Built:
    """Unpack one sample; the image is written sparse.

    Raises:
        KeyError: no such sample.
    """
    if name not in packed_names():
        raise KeyError(name)
    directory.mkdir(parents=True, exist_ok=True)
    built = Built.of(name, directory)
    with lzma.open(PACKED / f"{name}.img.xz") as packed, built.image.open("wb") as image:
        while chunk := packed.read(CHUNK):
            if any(chunk):
                image.write(chunk)
            else:
                image.seek(len(chunk), 1)
        image.truncate(image.tell())
    unpack_truth(name, directory)
    return built


def unpack_truth(name: str, directory: Path) -> Path:
    """Unpack what the recipe knows of a sample."""
    target = Built.of(name, directory).truth
    target.write_bytes(lzma.decompress((PACKED / f"{target.name}.xz").read_bytes()))
    return target


def acquired() -> Path:
    """The sample in an E01, which holds case data and the image's hashes."""
    return PACKED / f"{ACQUIRED}.E01"


def acquire() -> Path:
    """Make the E01 anew from the packed sample; needs ewfacquire of the libewf tools."""
    facts = {"-C": "sample 1", "-E": "1", "-D": "a tree of files, removed", "-e": "the recipe",
             "-N": "made of the packed sample image", "-m": "fixed", "-M": "logical"}  # fmt: skip
    told = [part for pair in facts.items() for part in pair]
    with tempfile.TemporaryDirectory() as scratch:
        image = unpack(ACQUIRED, Path(scratch)).image
        made = Path(scratch) / acquired().name
        machine.run("ewfacquire", "-u", "-q", "-c", "best", "-d", "sha1", "-f", "encase6", *told,
                    "-t", made.with_suffix(""), image)  # fmt: skip
        acquired().write_bytes(made.read_bytes())
    return acquired()


def pack(name: str, directory: Path) -> Path:
    """Build the small variant of a sample's recipe in `directory` and pack it.

    Needs root; a sample of another kernel needs that one in the cache instead.
    """
    recipe, kernel = SAMPLES[name]
    command = ("sample_images.recipes", "build", "--small", "-o", str(directory), recipe)
    python = (sys.executable, "-m")
    machine.run(*python, "sample_images.kernels", kernel, "--", *python, *command)
    PACKED.mkdir(exist_ok=True)
    for end in (".img", TRUTH):
        packed = lzma.compress((directory / (recipe + end)).read_bytes(), preset=_PRESET)
        (PACKED / f"{name}{end}.xz").write_bytes(packed)
    return PACKED / f"{name}.img.xz"
