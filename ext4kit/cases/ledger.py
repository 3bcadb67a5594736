"""The ledger of a case: images, volumes, and the state of every job (SQLite, in WAL mode)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ext4kit import __version__
from ext4kit.cases.adding import FoundImage, FoundVolume
from ext4kit.cases.jobs import JobResult
from ext4kit.cases.tasks import QUICK, TASKS, is_scan, scan_task, task_of
from ext4kit.errors import OutputError, RequestError
from ext4kit.output.names import image_name

VERSION = 1  # of the tables
_MOST_PARTS = 1000  # of a scan
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE images (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL UNIQUE,
    form TEXT NOT NULL,
    size INTEGER NOT NULL,
    problem TEXT NOT NULL
);
CREATE TABLE volumes (
    id INTEGER PRIMARY KEY,
    image INTEGER NOT NULL REFERENCES images (id),
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    is_ext INTEGER NOT NULL,
    label TEXT NOT NULL,
    uuid TEXT NOT NULL,
    size INTEGER NOT NULL,
    locator TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    same_as INTEGER REFERENCES volumes (id),
    UNIQUE (image, number)
);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    volume INTEGER NOT NULL REFERENCES volumes (id),
    task TEXT NOT NULL,
    rank INTEGER NOT NULL,
    state TEXT NOT NULL,
    UNIQUE (volume, task)
);
CREATE TABLE tries (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES jobs (id),
    version TEXT NOT NULL,
    started REAL NOT NULL,
    ended REAL,
    state TEXT NOT NULL,
    exit_code INTEGER,
    processor_seconds REAL,
    memory INTEGER,
    host TEXT,
    message TEXT NOT NULL
);
"""


class JobState(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class LedgerImage:
    """An image of a case.

    Attributes:
        id, name, path, form, size, problem: as in the ledger.
    """

    id: int
    name: str
    path: str
    form: str
    size: int
    problem: str


@dataclass(frozen=True, kw_only=True)
class LedgerVolume(FoundVolume):
    """A volume of a case.

    Attributes:
        id: in the case.
        image: id of its image.
        image_name: name of its image.
        same_as: id of an earlier volume that is in the same state; None for none.
    """

    id: int
    image: int
    image_name: str
    same_as: int | None

    @property
    def folder(self) -> str:
        """Of its jobs, below `images`."""
        return f"{self.image_name}/volume-{self.number}"


@dataclass(frozen=True)
class CaseJob:
    """A job and its last try.

    Attributes:
        id: in the case.
        volume: its volume.
        task: name of the task, with `QUICK` for a first run.
        state: its state.
        tries: number of tries.
        started, ended: of the last try, seconds since 1970; None if there is no such time.
        exit_code: of the last try.
        processor_seconds, memory: of the last try; bytes.
        message: of the last try, "" for none.
    """

    id: int
    volume: LedgerVolume
    task: str
    state: JobState
    tries: int = 0
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    processor_seconds: float | None = None
    memory: int | None = None
    message: str = ""

    @property
    def folder(self) -> str:
        """Its folder, below `images`."""
        return f"{self.volume.folder}/{self.task}"

    @property
    def takes_scan(self) -> bool:
        """Whether it takes the scan of its volume, if there is one."""
        return not self.task.endswith(QUICK) and task_of(self.task).takes_scan


class Ledger:
    """The ledger in an open file.

    Args:
        path: the file, which must exist.

    Raises:
        RequestError: it is no ledger, or of a later version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._to = sqlite3.connect(path, isolation_level=None, timeout=30)
        with self._failing():
            version = self._to.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            self._to.close()
            text = f"has version {version}, this program knows {VERSION}"
            raise RequestError(f"{path}: {text}")

    @classmethod
    def create(cls, path: Path, facts: dict[str, str]) -> Self:
        """A new ledger.

        Raises:
            OutputError: it could not be written.
        """
        to = sqlite3.connect(path, isolation_level=None)
        try:
            to.execute("PRAGMA journal_mode = WAL")
            to.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
            to.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        except sqlite3.Error as error:
            raise OutputError(f"{path}: {error}") from error
        finally:
            to.close()
        return cls(path)

    def close(self) -> None:
        """Close the file."""
        self._to.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise OutputError(f"{self._path}: {error}") from error

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A transaction."""
        with self._failing(), self._to:
            self._to.execute("BEGIN IMMEDIATE")
            yield

    def _rows(self, sql: str) -> Iterator[dict[str, Any]]:
        """The rows of a query, by column."""
        found = self._to.execute(sql)
        names = [column[0] for column in found.description]
        return (dict(zip(names, row, strict=True)) for row in found)

    def facts(self) -> dict[str, str]:
        """What was said of the case when it was made."""
        return dict(self._to.execute("SELECT name, value FROM facts"))

    # -- images -------------------------------------------------------------------------------

    def add(self, found: FoundImage) -> tuple[LedgerImage, list[LedgerVolume]] | None:
        """Add an image and its volumes; None if its path is there already.

        A volume in the same state as an earlier one is marked, and is not examined again.
        """
        with self._whole():
            path = str(found.path)
            if self._to.execute("SELECT 1 FROM images WHERE path = ?", (path,)).fetchone():
                return None
            taken = {name for (name,) in self._to.execute("SELECT name FROM images")}
            name = image_name(found.path, taken)
            done = self._to.execute(
                "INSERT INTO images (name, path, form, size, problem) VALUES (?, ?, ?, ?, ?)",
                (name, path, found.form, found.size, found.problem),
            )
            number = done.lastrowid
            assert number is not None
            for volume in found.volumes:
                self._add_volume(number, volume)
        image = LedgerImage(number, name, path, found.form, found.size, found.problem)
        return image, [one for one in self.volumes() if one.image == number]

    def _add_volume(self, image: int, volume: FoundVolume) -> None:
        same = None
        if volume.state:
            same = self._to.execute(
                "SELECT min(id) FROM volumes WHERE state = ? AND uuid = ? AND size = ?",
                (volume.state, volume.uuid, volume.size),
            ).fetchone()[0]
        row = {each.name: getattr(volume, each.name) for each in fields(volume)}
        row |= {"image": image, "same_as": same}
        names = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        self._to.execute(f"INSERT INTO volumes ({names}) VALUES ({marks})", row)  # noqa: S608

    def images(self) -> list[LedgerImage]:
        """All images, in the order in which they were added."""
        return [LedgerImage(**row) for row in self._rows("SELECT * FROM images ORDER BY id")]

    def volumes(self) -> list[LedgerVolume]:
        """All volumes, in the order in which they were added."""
        rows = self._rows(
            "SELECT volumes.*, name AS image_name FROM volumes JOIN images ON image = images.id"
            " ORDER BY volumes.id"
        )
        return [LedgerVolume(**{**row, "is_ext": bool(row["is_ext"])}) for row in rows]

    # -- jobs ---------------------------------------------------------------------------------

    def plan(self, tasks: Iterable[str], quick_first: bool, split: int | None = None) -> int:
        """Add the jobs that are missing; returns their number.

        All quick runs come first, then the parts of scans, then the tasks in their order, each for
        all volumes.

        Args:
            tasks: names of tasks.
            quick_first: whether to add first runs.
            split: for larger volumes, scan so many bytes of the volume in a job of its own.

        Raises:
            RequestError: there is no such task.
        """
        wanted = list(tasks)
        if unknown := [name for name in wanted if name not in TASKS]:
            raise RequestError(f"{unknown[0]!r} is none of {', '.join(TASKS)}")
        ranked = [(name, rank + 2) for rank, name in enumerate(wanted)]
        if quick_first:
            ranked += [(name + QUICK, 0) for name in wanted if TASKS[name].quick is not None]
        volumes = [one.id for one in self.volumes() if one.is_ext and one.same_as is None]
        before = self._to.total_changes
        with self._whole():
            self._to.executemany(
                "INSERT OR IGNORE INTO jobs (volume, task, rank, state) VALUES (?, ?, ?, ?)",
                ((volume, name, rank, JobState.WAITING)
                 for name, rank in ranked for volume in volumes),
            )  # fmt: skip
        if split is not None:
            self._plan_scans(split)
        return self._to.total_changes - before

    def _plan_scans(self, split: int) -> None:
        """Add the parts of scans, for large volumes with a task that waits for one."""
        jobs = self.jobs()
        done = {job.volume.id for job in jobs if is_scan(job.task)}
        waiting = {job.volume.id: job.volume for job in jobs
                   if job.takes_scan and job.state is JobState.WAITING}  # fmt: skip
        with self._whole():
            for volume in waiting.values():
                parts = min(-(-volume.size // split), _MOST_PARTS)
                if volume.id in done or parts < 2:
                    continue
                self._to.executemany(
                    "INSERT INTO jobs (volume, task, rank, state) VALUES (?, ?, 1, ?)",
                    ((volume.id, scan_task(part, parts), JobState.WAITING)
                     for part in range(1, parts + 1)),
                )  # fmt: skip

    def jobs(self) -> list[CaseJob]:
        """All jobs, in the order in which they are run."""
        volumes = {volume.id: volume for volume in self.volumes()}
        rows = self._rows(
            "SELECT jobs.id, volume, task, jobs.state, (SELECT count(*) FROM tries WHERE job ="
            " jobs.id) AS tries, started, ended, exit_code, processor_seconds, memory,"
            " ifnull(message, '') AS message FROM jobs LEFT JOIN tries ON tries.id ="
            " (SELECT max(id) FROM tries WHERE job = jobs.id) ORDER BY rank, volume, jobs.id"
        )
        return [
            CaseJob(**{**row, "volume": volumes[row["volume"]], "state": JobState(row["state"])})
            for row in rows
        ]

    def begin(self, job: int, now: float) -> None:
        """Note that a job is tried."""
        with self._whole():
            self._set(job, JobState.RUNNING)
            self._to.execute(
                "INSERT INTO tries (job, version, started, state, message) VALUES (?, ?, ?, ?, '')",
                (job, __version__, now, JobState.RUNNING),
            )

    def end(self, job: int, result: JobResult) -> None:
        """Note how a job ended."""
        state = JobState.DONE if result.is_done else JobState.FAILED
        with self._whole():
            self._set(job, state)
            self._to.execute(
                "UPDATE tries SET ended = ?, state = ?, exit_code = ?, processor_seconds = ?,"
                " memory = ?, host = ?, message = ? WHERE id = (SELECT max(id) FROM tries"
                " WHERE job = ?)",
                (result.ended, state, result.exit_code, result.processor_seconds, result.memory,
                 result.host, result.message, job),
            )  # fmt: skip

    def again(self, job: int, why: str) -> None:
        """Let a job wait once more: it was interrupted, or it failed."""
        with self._whole():
            self._set(job, JobState.WAITING)
            self._to.execute(
                "UPDATE tries SET state = ?, message = ? WHERE job = ? AND state = ?",
                (JobState.FAILED, why, job, JobState.RUNNING),
            )

    def _set(self, job: int, state: JobState) -> None:
        self._to.execute("UPDATE jobs SET state = ? WHERE id = ?", (state, job))
