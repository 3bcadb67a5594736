"""One new file with a given name: created exclusively, and renamed when it stays unfinished."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ext4kit.errors import OutputError, RequestError
from ext4kit.output.interrupts import interrupts_heeded, interrupts_wait
from ext4kit.output.rooted import NEW_FILE, mark_incomplete

_BUFFER = 1 << 20


@contextmanager
def new_file(path: Path, evidence: tuple[Path, ...] = ()) -> Iterator[int]:
    """A new empty file, open for writing and closed at the end.

    Args:
        path: its path.
        evidence: files that it must not be.

    Yields:
        its descriptor.

    Raises:
        RequestError: `path` exists already.
        OutputError: it could not be written; the written part is named `*.incomplete`.
    """
    if path.resolve() in {each.resolve() for each in evidence}:
        raise RequestError(f"{path}: is the evidence; choose another name")
    with interrupts_wait():
        try:
            handle = os.open(path, NEW_FILE, 0o666)
        except FileExistsError as error:
            raise RequestError(f"{path}: already exists; choose another name") from error
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another place") from error
        try:
            try:
                with interrupts_heeded():
                    yield handle
            finally:
                os.close(handle)
        except BaseException as error:
            mark_incomplete(path)
            if isinstance(error, OSError):
                raise OutputError(f"{path}: {error.strerror}; it is incomplete") from error
            raise


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
