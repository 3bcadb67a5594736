"""The folder of a case: where its files are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ext4kit import __version__
from ext4kit.cases.ledger import CaseJob, Ledger
from ext4kit.errors import OutputError, RequestError
from ext4kit.times import iso

_LEDGER, _DATABASE, _PAGE, _IMAGES = "ledger.sqlite", "case.sqlite", "index.html", "images"


@dataclass(frozen=True)
class CaseFolder:
    """The folder of a case.

    Attributes:
        path: absolute.
    """

    path: Path

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, str]) -> Self:
        """Make the folder of a new case, which must be new or empty.

        Args:
            path: the folder.
            facts: name of the case, its number, and the operator, as far as they are known.

        Raises:
            RequestError: something is in it.
            OutputError: it cannot be written.
        """
        found = cls(path.absolute())
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise RequestError(f"{path}: is not empty; choose a new folder")
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; choose another place") from error
        made = {"made": iso(time.time_ns()), "version": __version__}
        Ledger.create(found.ledger, {**facts, **made}).close()
        return found

    @classmethod
    def around(cls, path: Path) -> Self:
        """The folder of the case that a path is in, which is the path or a folder above it.

        Raises:
            RequestError: there is none.
        """
        start = path.absolute()
        for folder in (start, *start.parents):
            if (folder / _LEDGER).is_file():
                return cls(folder)
        raise RequestError(f"{path}: no case is here; `ext4kit case init DIR` makes one")

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self.path / _LEDGER

    @property
    def database(self) -> Path:
        """The file of the database."""
        return self.path / _DATABASE

    @property
    def page(self) -> Path:
        """The page of the case."""
        return self.path / _PAGE

    def of_job(self, job: CaseJob) -> Path:
        """The folder of a job."""
        return self.path / _IMAGES / job.folder

    def __fspath__(self) -> str:
        return str(self.path)
