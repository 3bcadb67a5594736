"""Temporary files, which are never written to the evidence.

`keep_off` looks once where they would be; a step that needs one is then refused, others run.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from ext4kit.errors import AccessError
from ext4kit.evidence.mounts import lies_on

_PREFIX = "ext4kit-"
_REFUSED: set[str] = set()


def keep_off(files: tuple[Path, ...]) -> None:
    """Refuse temporary files from now on if their folder is on one of these files or devices."""
    folder = tempfile.gettempdir()
    with suppress(OSError):
        if lies_on(Path(folder), files):
            _REFUSED.add(folder)


def temporary_file(buffering: int = -1) -> BinaryIO:
    """A new file without a name.

    Raises:
        AccessError: it would be on the evidence.
        OSError: it cannot be created.
    """
    made = tempfile.TemporaryFile(buffering=buffering, prefix=_PREFIX, dir=_folder())  # noqa: SIM115
    return cast(BinaryIO, made)


def temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """A new folder, which is removed at the end of a `with`; errors as for `temporary_file`."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_folder())


def _folder() -> str:
    folder = tempfile.gettempdir()
    if folder in _REFUSED:
        raise AccessError(f"{folder}: is on the evidence itself; set TMPDIR to another folder")
    return folder
