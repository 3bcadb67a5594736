"""A small web server that somebody breaks into: an image with a story of a week.

`guest.py` acts it out inside User-mode Linux, whose kernel has a clock of its own; `build.py`
makes and packs the image. `unpack` gives the packed one; no root is needed for either.
"""

from __future__ import annotations

import lzma
from pathlib import Path

PACKED = Path(__file__).with_name("web-01.img.xz")
_CHUNK = 1 << 20


def unpack(directory: Path) -> Path:
    """Unpack the image into a folder, sparse; returns its path."""
    image = directory / PACKED.name.removesuffix(".xz")
    with lzma.open(PACKED) as packed, image.open("wb") as file:
        while chunk := packed.read(_CHUNK):
            if any(chunk):
                file.write(chunk)
            else:
                file.seek(len(chunk), 1)
        file.truncate(file.tell())
    return image
