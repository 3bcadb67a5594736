"""Checks of output folders and files before the evidence is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ext4kit.errors import OutputError, RequestError

_BLOCK_DEVICES = Path("/sys/dev/block")


def check_places(folder: Path | None, files: Iterable[Path]) -> None:
    """Reject outputs that exist or cannot be created, before the evidence is opened.

    Args:
        folder: the output folder, which the command creates with its parents.
        files: output files, which the command creates in existing folders.

    Raises:
        RequestError: a folder is not empty or not a folder, or a file exists.
        OutputError: an output cannot be written at its place.
    """
    for path in (*([folder] if folder else ()), *files):
        try:
            _check_place(path, path is folder)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another place") from error


def _check_place(path: Path, is_folder: bool) -> None:
    if is_folder and path.exists():
        if not path.is_dir():
            raise RequestError(f"{path}: not a folder; choose a new or empty folder")
        if any(path.iterdir()):
            raise RequestError(f"{path}: not empty; choose a new or empty folder")
    elif path.is_symlink() or path.exists():
        raise RequestError(f"{path}: already exists; choose another name")
    parent = _existing(path) if is_folder else path.absolute().parent
    if parent.stat() and not parent.is_dir():
        raise RequestError(f"{path}: {parent} is not a folder; choose another place")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: {parent} cannot be written to; choose another place")


def check_apart(outputs: Iterable[Path], evidence: tuple[Path, ...]) -> None:
    """Reject outputs that would be written to the evidence.

    Args:
        outputs: folders or files.
        evidence: all files that are read as evidence.

    Raises:
        RequestError: an output is on the evidence.
        OutputError: an output's place cannot be examined.
    """
    for path in outputs:
        try:
            if _lies_on(path, evidence):
                raise RequestError(f"{path}: is on the evidence itself; choose another folder")
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another folder") from error


def _existing(path: Path) -> Path:
    """A folder if it exists, else its nearest existing parent."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def _lies_on(out: Path, files: tuple[Path, ...]) -> bool:
    """Whether the folder's file system is on the evidence, directly or through a loop device.

    Linux shows the devices below a file system in sysfs.
    """
    if not hasattr(os, "major"):
        return False
    device = _existing(out).stat().st_dev
    evidence = {path.resolve() for path in files}
    numbers = {path.stat().st_rdev for path in files if stat.S_ISBLK(path.stat().st_mode)}
    start = _BLOCK_DEVICES / f"{os.major(device)}:{os.minor(device)}"
    for node in _stack(start):
        backing = node / "loop" / "backing_file"
        if backing.exists() and Path(os.fsdecode(backing.read_bytes().rstrip(b"\n"))) in evidence:
            return True
        if _number(node) in numbers:
            return True
    return False


def _stack(start: Path) -> Iterator[Path]:
    """The sysfs nodes of a block device, of its disk if it is a partition, and of devices below."""
    waiting, seen = [start.resolve()] if start.exists() else [], set()
    while waiting:
        node = waiting.pop()
        if node in seen or not (node / "dev").exists():
            continue
        seen.add(node)
        yield node
        waiting.append(node.parent)
        below = node / "slaves"
        waiting += [link.resolve() for link in below.iterdir()] if below.exists() else []


def _number(node: Path) -> int:
    major, minor = (node / "dev").read_bytes().split(b":")
    return os.makedev(int(major), int(minor))
