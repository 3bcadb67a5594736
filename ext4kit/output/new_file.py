"""Single files: each has its final name only when it is whole, and is then on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from ext4kit.errors import OutputError, RequestError
from ext4kit.output.folders import FOLDER, HAS_HANDLES, OutputPlace
from ext4kit.output.interrupts import interrupts_heeded, interrupts_wait
from ext4kit.output.renaming import incomplete_names, rename_new, sync_folder

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
NEW_FILE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_BUFFER = 1 << 20


class UnfinishedFile(NamedTuple):
    """A file that is written: its descriptor, and the path that it has until it is whole."""

    handle: int
    path: Path


@contextmanager
def unfinished_file(path: Path, evidence: tuple[Path, ...] = ()) -> Iterator[UnfinishedFile]:
    """A new empty file named `*.incomplete`, which gets its name at the end of the `with`.

    Args:
        path: its path.
        evidence: files that it must not be.

    Raises:
        RequestError: `path` exists already.
        OutputError: it could not be written; the written part is still named `*.incomplete`.
    """
    if path.resolve() in {each.resolve() for each in evidence}:
        raise RequestError(f"{path}: is the evidence; choose another name")
    with interrupts_wait(), _folder_of(path) as target:
        name, handle = _begun(path, target)
        try:
            try:
                with interrupts_heeded():
                    yield UnfinishedFile(handle, path.with_name(name))
                os.fsync(handle)  # the bytes are on the disk before the name is
            finally:
                os.close(handle)
            rename_new(target.beside(name), target)
        except FileExistsError as error:
            text = f"{path}: was created by another program; what was written is in {name}"
            raise OutputError(text) from error
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; it is incomplete") from error
        if target.folder is not None:
            sync_folder(target.folder)


@contextmanager
def _folder_of(path: Path) -> Iterator[OutputPlace]:
    """A file in its folder, which is held open where calls take descriptors.

    Raises:
        OutputError: the folder cannot be opened.
    """
    try:
        handle = os.open(path.parent, FOLDER) if HAS_HANDLES else None
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; choose another place") from error
    try:
        yield OutputPlace(str(path)) if handle is None else OutputPlace(path.name, handle)
    finally:
        if handle is not None:
            os.close(handle)


def _begun(path: Path, target: OutputPlace) -> tuple[str, int]:
    """(name, descriptor) of a new file under the first name of an unfinished one that is free.

    Raises:
        RequestError: the final name is in use.
        OutputError: it cannot be created.
    """
    try:
        if target.exists():
            raise RequestError(f"{path}: already exists; choose another name")
        for name in incomplete_names(path.name):
            with suppress(FileExistsError):
                return name, target.beside(name).open(NEW_FILE, 0o666)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; choose another place") from error
    raise AssertionError


@contextmanager
def new_file(path: Path, evidence: tuple[Path, ...] = ()) -> Iterator[int]:
    """The descriptor of an `unfinished_file`."""
    with unfinished_file(path, evidence) as made:
        yield made.handle


@contextmanager
def whole_file(path: Path) -> Iterator[int]:
    """A file that is complete or not there, open for writing; it replaces an earlier one.

    Only for files that this program keeps in an output folder: no name is taken from evidence.

    Yields:
        its descriptor.

    Raises:
        OSError: it could not be written; an earlier one is still there.
    """
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # of a run that was killed
    handle = os.open(part, NEW_FILE, 0o666)
    try:
        try:
            yield handle
            os.fsync(handle)
        finally:
            os.close(handle)
        part.replace(path)  # the file is complete before an interrupt can follow
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def new_text(path: Path, evidence: tuple[Path, ...] = ()) -> Iterator[TextIO]:
    """A new file as a stream of UTF-8 text whose line ends are written unchanged."""
    with (
        new_file(path, evidence) as handle,
        open(handle, "w", _BUFFER, "utf-8", newline="", closefd=False) as stream,  # noqa: PTH123
    ):
        yield stream
