"""Checks of output folders and files before the evidence is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ext4kit.errors import OutputError, RequestError
from ext4kit.output.manifest import read_case

_BLOCK_DEVICES = Path("/sys/dev/block")


def check_places(folder: Path | None, files: Iterable[Path], is_resumed: bool = False) -> None:
    """Reject outputs that cannot be new: nothing of the evidence is needed to tell.

    Args:
        folder: the output folder of a command, created by it with its parents.
        files: output files, created by it in folders that exist.
        is_resumed: the folder may hold what an earlier run left.

    Raises:
        RequestError: a folder is not empty or not a folder, or a file exists.
        OutputError: it cannot be written there.
    """
    for path in (*([folder] if folder else ()), *files):
        try:
            _check_place(path, path is folder, is_resumed)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another place") from error


def _check_place(path: Path, is_folder: bool, is_resumed: bool) -> None:
    if is_folder and path.exists():
        if not path.is_dir():
            raise RequestError(f"{path}: not a folder; choose a new or empty folder")
        if not is_resumed and any(path.iterdir()):
            raise RequestError(f"{path}: {_what_is_in(path)} choose a new or empty folder")
    elif path.is_symlink() or path.exists():
        raise RequestError(f"{path}: already exists; choose another name")
    parent = _existing(path) if is_folder else path.absolute().parent
    if parent.stat() and not parent.is_dir():
        raise RequestError(f"{path}: {parent} is not a folder; choose another place")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: {parent} cannot be written to; choose another place")


def _what_is_in(folder: Path) -> str:
    """What is in the way, as the start of a sentence that asks for another folder."""
    case = read_case(folder) or {}
    command = case.get("command")
    is_recovery = isinstance(command, list) and "recover" in command[1:2]
    if is_recovery and case.get("state") == "incomplete":
        return "holds an unfinished recovery: go on with --resume, or"
    return "not empty;"


def check_apart(outputs: Iterable[Path], evidence: tuple[Path, ...]) -> None:
    """Reject outputs that would be written to the evidence.

    Args:
        outputs: folders or files.
        evidence: all files that are read as evidence.

    Raises:
        RequestError: one is on the evidence.
        OutputError: it cannot be examined.
    """
    for path in outputs:
        try:
            if _lies_on(path, evidence):
                raise RequestError(f"{path}: is on the evidence itself; choose another folder")
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another folder") from error


def _existing(path: Path) -> Path:
    """A folder, or the nearest of its parents that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def _lies_on(out: Path, files: tuple[Path, ...]) -> bool:
    """Whether the folder's file system is on the evidence: a device, or a loop over an image.

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
    """A block device's node in sysfs, the disk of a partition, and the devices below both."""
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
