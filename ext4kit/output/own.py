"""The files that this program has at the top of an output folder, told from others by their form.

A file that a power cut left empty, or with zeros in place of its bytes, is taken as its own.
"""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path

from ext4kit.errors import RequestError
from ext4kit.output.manifest import CASE, MANIFEST, OWN, PART, README, REPORT, RESERVE, RESERVED

_HEAD = 1 << 16  # bytes
_STARTS = {
    PART: b'{"output": ',
    f".{CASE}.part": b'{\n  "record": "case",',
    RESERVED: b"\xff" * RESERVE,
}
_PAGES = {  # start, and a mark that follows
    README: (b"Deleted files of ", b"\nWhat this folder is\n-"),
    REPORT: (b"<!doctype html>\n", b'<p class="kicker">ext4kit recover</p>'),
}
_STARTS |= {f".{name}.part": start for name, (start, _) in _PAGES.items()}


def check_own(out: Path) -> None:
    """Refuse a folder in which something stands at a name that a resumed run needs.

    Raises:
        RequestError: there is such a thing.
        OSError: the folder cannot be read.
    """
    advice = "move it away, or choose a new or empty folder"
    manifest = out / MANIFEST
    if os.path.lexists(manifest) and not (manifest.is_symlink() or manifest.is_file()):
        what = "a folder" if manifest.is_dir() else "no file"
        raise RequestError(f"{manifest}: is {what}; {advice}")
    for name in _STARTS:
        if os.path.lexists(out / name) and not is_own(out / name):
            raise RequestError(f"{out / name}: not of this recovery; {advice}")


def is_own(path: Path) -> bool:
    """Whether a file at the top of an output folder has the form of those of this program.

    Raises:
        OSError: it cannot be read.
    """
    name = path.name.replace("~", "")
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    if name in OWN and name not in _STARTS and name not in _PAGES:
        return path.name == name
    if name not in OWN or (name == RESERVED and path.stat().st_size > RESERVE):
        return False
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    start, mark = _PAGES.get(name) or (_STARTS[name], b"")
    agrees = all(byte in (0, wanted) for byte, wanted in zip(head, start, strict=False))
    return agrees and (mark in head or not head.strip(b"\0"))


def free_name(out: Path, name: str) -> str:
    """The name for a page: its own, with `~` in it while a file of somebody else has that name.

    Raises:
        OSError: the folder cannot be read.
    """
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 -- a name, no path
    names = (stem + "~" * more + suffix for more in count())
    return next(each for each in names if not os.path.lexists(out / each) or is_own(out / each))
