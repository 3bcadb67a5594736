"""Make the image and pack it: `python -m sample_images.intrusion.build`.

Needs User-mode Linux (Debian package `user-mode-linux`) and mke2fs, and no root.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sample_images.intrusion import PACKED
from sample_images.intrusion.guest import TOLD
from sample_images.recipes.machine import SYSTEM_PATH, MachineError

GUEST = Path(__file__).with_name("guest.py")
SIZE = 64 << 20
LIMIT = 300  # seconds


def missing() -> str:
    """Why the story cannot be told here; empty when it can."""
    tools = [tool for tool in ("linux.uml", "mke2fs") if not shutil.which(tool, path=SYSTEM_PATH)]
    return f"needs {' and '.join(tools)}" if tools else ""


def tell(image: Path) -> None:
    """A new file, on which the guest makes a file system and acts.

    Raises:
        MachineError: a tool is missing or failed.
    """
    if reason := missing():
        raise MachineError(reason)
    with image.open("xb") as made:
        made.truncate(SIZE)
    command = [
        "linux.uml", f"ubd0={image.resolve()}", "rootfstype=hostfs", "rootflags=/", "ro",
        "mem=256M", "con=null", "con0=null,fd:1", "quiet", "init=/usr/bin/python3", "--",
        str(GUEST),
    ]  # fmt: skip
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False,
        env={"PATH": SYSTEM_PATH, "HOME": "/", "TMPDIR": "/dev/shm"},
    )  # fmt: skip
    if TOLD.encode() not in done.stdout:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise MachineError(f"linux.uml: {said[-2000:]}")


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
