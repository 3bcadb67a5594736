"""Packed samples: small images with their truth, for a demo and tests without root."""

from __future__ import annotations

import lzma
from pathlib import Path

from sample_images.recipes.making import Built, build

PACKED = Path(__file__).resolve().parent.parent / "packed"
CHUNK = 1 << 20
SAMPLES = (
    "removed_after_remount",
    "rm_rf_tree",
    "power_cut",
    "orphan_file",
    "ext3",
    "large_extent_leaves",
)


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
    built = Built(directory / f"{name}.img", directory / f"{name}.truth.json")
    with lzma.open(PACKED / f"{name}.img.xz") as packed, built.image.open("wb") as image:
        while chunk := packed.read(CHUNK):
            if any(chunk):
                image.write(chunk)
            else:
                image.seek(len(chunk), 1)
        image.truncate(image.tell())
    built.truth.write_bytes(lzma.decompress((PACKED / f"{name}.truth.json.xz").read_bytes()))
    return built


def pack(name: str, directory: Path) -> Path:
    """Build the small variant of a recipe in `directory` and pack it; needs root."""
    built = build(name, directory, small=True)
    PACKED.mkdir(exist_ok=True)
    for source in (built.image, built.truth):
        packed = lzma.compress(source.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        (PACKED / f"{source.name}.xz").write_bytes(packed)
    return PACKED / f"{built.image.name}.xz"
