"""Checks of output folders and files before the evidence is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from ext4kit.errors import OutputError, RequestError
from ext4kit.evidence.mounts import existing, lies_on
from ext4kit.output.manifest import read_case
from ext4kit.output.renaming import incomplete_names


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
    parent = existing(path) if is_folder else path.absolute().parent
    if parent.stat() and not parent.is_dir():
        raise RequestError(f"{path}: {parent} is not a folder; choose another place")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: {parent} cannot be written to; choose another place")


def unfinished_files(files: Iterable[Path]) -> Iterator[Path]:
    """What earlier runs left of output files when they were ended."""
    for path in files:
        names = map(path.with_name, incomplete_names(path.name))
        yield from takewhile(os.path.lexists, names)


def _what_is_in(folder: Path) -> str:
    """What is in the way, as the start of a sentence that asks for another folder."""
    case = read_case(folder) or {}
    command = case.get("command")
    if case.get("state") != "incomplete" or not isinstance(command, list):
        return "not empty;"
    if "recover" in command[1:2]:
        return "holds an unfinished recovery: go on with --resume, or"
    return "holds what an unfinished run left (case.json names the command): move it away, or"


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
            if lies_on(path, evidence):
                raise RequestError(f"{path}: is on the evidence itself; choose another folder")
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another folder") from error
