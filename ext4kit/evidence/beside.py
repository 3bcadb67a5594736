"""Files that are parts of an image: regular files in the directory of its first file.

Names of parts come from the evidence, which may be hostile, and so may the files beside it. A name
or a link that leads to another directory could make the analyst's own files part of the image, and
opening a pipe could wait forever.
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
        if bare and "\0" not in plain and is_within(place, folder):
            return place
    raise AccessError(
        f"{path}: its {what} {name!r} is missing; bring {bare or 'it'} to the same folder"
    )


def require_part(path: Path, first: Path) -> None:
    """Check a file that is taken for a part of an image by its own name.

    Args:
        path: the part.
        first: the file that was opened.

    Raises:
        AccessError: `path` is not a regular file in or below the directory of `first`.
    """
    if is_within(path, first.parent):
        return
    try:
        place = path.resolve(strict=True)
        is_inside = place.is_relative_to(first.parent.resolve())
        what = _kind(place.stat().st_mode) if is_inside else "a link out of this folder"
    except (OSError, RuntimeError):
        what = "a link that leads nowhere"
    advice = "put the part itself there, or remove this one"
    if first.is_symlink():
        advice = f"open the image at its own path, {first.resolve()}"
    raise AccessError(f"{path}: by its name a part of {first.name}, but it is {what}; {advice}")


def _kind(mode: int) -> str:
    names = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def is_within(place: Path, folder: Path) -> bool:
    """Whether a path, after following links, is a regular file in or below a directory."""
    try:
        within = place.resolve().is_relative_to(folder.resolve())
        return within and stat.S_ISREG(place.stat().st_mode)
    except (OSError, ValueError, RuntimeError):
        return False
