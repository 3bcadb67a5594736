"""Checks of the directory of a mount before the evidence is read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ext4kit.errors import RequestError


def check_mount_point(folder: Path) -> None:
    """Refuse a directory at which nothing can be mounted.

    Raises:
        RequestError: it is missing, not a directory, not empty, or a mount point already.
    """
    try:
        if not folder.is_dir():
            what = "not a directory" if folder.exists() else "no such directory; create it"
            raise RequestError(f"{folder}: {what}")
        if folder.is_mount():
            text = "something is mounted there already; choose another directory"
            raise RequestError(f"{folder}: {text}")
        if any(folder.iterdir()):
            raise RequestError(f"{folder}: not empty; choose an empty directory")
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            text = f"a mount whose program has ended is there; `fusermount3 -u {folder}` removes it"
            raise RequestError(f"{folder}: {text}") from error
        raise RequestError(f"{folder}: {error.strerror}; choose another directory") from error
    if os.geteuid() and not os.access(folder, os.W_OK):
        raise RequestError(f"{folder}: it is not yours to write to, so you cannot mount there")
