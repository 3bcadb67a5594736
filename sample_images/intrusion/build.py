"""Make the image and pack it: `python -m sample_images.intrusion.build`.

Needs a kernel of `sample_images.kernels` and mke2fs, and no root.
"""

from __future__ import annotations

import lzma
import shutil
import sys
import tempfile
from pathlib import Path

from sample_images.intrusion import PACKED
from sample_images.intrusion.guest import TOLD
from sample_images.kernels import kernels_here
from sample_images.kernels.guest import boot, end
from sample_images.recipes.machine import SYSTEM_PATH, MachineError

GUEST = Path(__file__).with_name("guest.py")
SIZE = 64 << 20
LIMIT = 300  # seconds


def missing() -> str:
    """Why the story cannot be told here; empty when it can."""
    if not kernels_here():
        return "needs a kernel: python -m sample_images.kernels --fetch"
    return "" if shutil.which("mke2fs", path=SYSTEM_PATH) else "needs mke2fs"


def tell(image: Path) -> None:
    """A new file, on which the guest makes a file system and acts.

    Raises:
        MachineError: a tool is missing or failed.
    """
    if reason := missing():
        raise MachineError(reason)
    with image.open("xb") as made:
        made.truncate(SIZE)
    kernel = list(kernels_here().values())[-1]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as console:
        words = (
            f"ubd0={image.resolve()}", "ro", "mem=256M", "quiet", f"uml_dir={folder}",
            "init=/usr/bin/python3", "--", str(GUEST),
        )  # fmt: skip
        process = boot(kernel, words, console)
        try:
            process.wait(LIMIT)
        finally:
            end(process)
        console.seek(0)
        said = console.read().decode(errors="replace").strip()
    if TOLD not in said:
        raise MachineError(f"kernel {kernel.name}: {said[-2000:]}")


def main() -> int:
    """Make and pack."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "web-01.img"
        tell(image)
        packed = lzma.compress(image.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    PACKED.write_bytes(packed)
    print(f"{PACKED.name}: {len(packed):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
