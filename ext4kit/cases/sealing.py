"""The checksums of all files of a case, as `sha256sum` writes them."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ext4kit.errors import OutputError
from ext4kit.output.new_file import whole_file
from ext4kit.output.pouring import write_all
from ext4kit.report.file_hashes import digest_line
from ext4kit.units import Progress

SUMS = "SHA256SUMS"
_OWN = (SUMS, f"{SUMS}.sig", f"{SUMS}.minisig")
_OF_WAL = ("-wal", "-shm")  # files of SQLite that are empty or gone when it is closed


def write_sums(folder: Path, progress: Progress | None = None) -> int:
    """Write the checksums, and remove signatures of earlier ones; returns the number of files.

    Raises:
        OutputError: a file could not be read, or the checksums not written.
    """
    for name in _OWN:
        (folder / name).unlink(missing_ok=True)
    for database in folder.glob("*.sqlite"):
        _settle(database)
    paths = sorted(_files(folder))
    try:
        with whole_file(folder / SUMS) as handle:
            for number, path in enumerate(paths):
                if progress is not None:
                    progress(number, len(paths))
                write_all(handle, _line(folder, path))
    except OSError as error:
        raise OutputError(f"{error.filename or folder / SUMS}: {error.strerror}") from error
    return len(paths)


def _settle(database: Path) -> None:
    """Bring all of a database into its own file."""
    try:
        with sqlite3.connect(database) as to:
            to.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        to.close()
    except sqlite3.DatabaseError as error:
        raise OutputError(f"{database}: {error}") from error


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(_OF_WAL):
            yield path


def _line(folder: Path, path: Path) -> bytes:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return digest_line(digest.encode(), os.fsencode(path.relative_to(folder)))
