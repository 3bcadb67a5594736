"""Files that a container names as parts of itself, searched only in the container's directory.

The names come from the evidence. A name that refers to another directory could make the analyst's
own files part of the image. Therefore only the last component of such a name counts.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from ext4kit.errors import AccessError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?!\\)")


def find_beside(path: Path, name: str, what: str) -> Path:
    """The regular file to which a container at `path` refers as `name`.

    Args:
        path: the container.
        name: the name in the evidence, with slashes of either kind.
        what: "backing file", "extent" ..., for the message.

    Raises:
        AccessError: the file does not exist, or is not a regular file.
    """
    folder = path.parent
    plain = name.replace("\\", "/").removeprefix("file:")
    bare = plain.rsplit("/", 1)[-1]
    places = [folder / plain, folder / bare] if not _URL.match(name) else [folder / bare]
    for place in places:
        if bare and "\0" not in plain and _is_within(place, folder):
            return place
    raise AccessError(
        f"{path}: its {what} {name!r} is missing; bring {bare or 'it'} to the same folder"
    )


def _is_within(place: Path, folder: Path) -> bool:
    """Whether a path is a regular file in or below a directory, with links followed."""
    try:
        within = place.resolve().is_relative_to(folder.resolve())
        return within and stat.S_ISREG(place.stat().st_mode)
    except (OSError, ValueError, RuntimeError):
        return False
