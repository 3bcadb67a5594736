"""Images that one process of a run builds and all of its processes use.

EXT4KIT_IMAGES names their folder. A run makes one of its own where it is not set; one that is set
is kept and used again by the next run.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from filelock import FileLock

IMAGES = "EXT4KIT_IMAGES"

Made = TypeVar("Made")


def images_folder() -> Path:
    """Where this run's images lie."""
    folder = Path(os.environ[IMAGES])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def built_once(name: str, build: Callable[[Path], Made]) -> Made:
    """What `build` gives, called by the first process that asks for this name.

    Args:
        name: of the image; what differs has another name.
        build: makes it in the folder that it is given; what it gives is pickled for the others.
    """
    folder = images_folder() / re.sub(r"[^\w.+-]", "_", name)
    folder.mkdir(exist_ok=True)
    result = folder / "built.pickle"
    with FileLock(folder / "lock"):
        if not result.exists():
            fresh = pickle.dumps(build(folder))
            result.write_bytes(fresh)
    return cast(Made, pickle.loads(result.read_bytes()))
