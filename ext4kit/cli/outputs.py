"""Checks of an output folder before any work is done."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ext4kit.cli.session import Session
from ext4kit.errors import OutputError, RequestError

_BLOCK_DEVICES = Path("/sys/dev/block")


def check_output(out: Path, session: Session) -> tuple[Path, ...]:
    """Reject a folder that is not empty or that would be written to the evidence.

    Returns:
        The files of the evidence, including the external journal's, for the writer.

    Raises:
        RequestError: not empty, not a folder, or part of the evidence.
        OutputError: it cannot be read.
    """
    files = session.evidence_files
    try:
        if out.exists() and not out.is_dir():
            raise RequestError(f"{out}: not a folder; choose a new or empty folder")
        if out.exists() and any(out.iterdir()):
            raise RequestError(f"{out}: not empty; choose a new or empty folder")
        if _lies_on(out, files):
            raise RequestError(f"{out}: is on the evidence itself; choose a folder elsewhere")
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}; choose another folder") from error
    return files


def check_new_file(path: Path, session: Session) -> tuple[Path, ...]:
    """Reject a file that exists or that would be written to the evidence.

    Returns:
        The files of the evidence, including the external journal's, for the writer.

    Raises:
        RequestError: `path` exists already, or its folder is part of the evidence.
        OutputError: it cannot be read.
    """
    files = session.evidence_files
    try:
        if path.is_symlink() or path.exists():
            raise RequestError(f"{path}: already exists; choose another name")
        if _lies_on(path, files):
            raise RequestError(f"{path}: is on the evidence itself; choose another folder")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; choose another folder") from error
    return files


def _lies_on(out: Path, files: tuple[Path, ...]) -> bool:
    """Whether the folder's file system is on the evidence: a device, or a loop over an image.

    Linux shows the devices below a file system in sysfs.
    """
    if not hasattr(os, "major"):
        return False
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    device = existing.stat().st_dev
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
