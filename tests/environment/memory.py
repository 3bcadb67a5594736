"""Where the images of a run are: in memory, if there is room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 8 << 30  # bytes; a run's images take some 4 GiB at most at a time


def prefer_memory() -> None:
    """Make temporary files of this process and its children in memory, unless they have a place."""
    if "TMPDIR" not in os.environ and _free(_MEMORY) > _ROOM:
        os.environ["TMPDIR"] = str(_MEMORY)  # images are written and read over and over


def _free(folder: Path) -> int:
    """Bytes free in a folder's file system, 0 where it is not there or not ours."""
    return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0
