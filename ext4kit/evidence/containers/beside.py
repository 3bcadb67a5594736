"""Files that a container names as parts of itself: looked for beside it and nowhere else.

The names come from the evidence. A name that leads elsewhere could make the analyst's own files
part of the image, so only its last component counts where it leaves the container's folder.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from ext4kit.errors import AccessError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?!\\)")


def find_beside(path: Path, name: str, what: str) -> Path:
    """The regular file that a container at `path` calls `name`.

    Args:
        path: the container.
        name: as it stands in the evidence, with slashes of either kind.
        what: "backing file", "extent" ..., for the message.

    Raises:
        AccessError: it is not there, or is not a file.
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
    """True for a regular file in the folder or below, links followed."""
    try:
        within = place.resolve().is_relative_to(folder.resolve())
        return within and stat.S_ISREG(place.stat().st_mode)
    except (OSError, ValueError, RuntimeError):
        return False
