"""Running a command under a stopwatch: wall time and peak memory, median of several runs."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from sample_images.recipes.machine import sync

KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command.

    Attributes:
        seconds: wall time.
        cpu: processor time, user and system, in seconds.
        peak: bytes resident at most (ru_maxrss).
        code: exit code, negative when a signal ended it.
    """

    seconds: float
    cpu: float
    peak: int
    code: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The medians of several runs of one command, and its largest peak of memory."""

    seconds: float
    cpu: float
    peak: int
    code: int
    runs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A command to measure.

    Attributes:
        command: what to run.
        output: where its standard output goes.
        prepare: called before each run, outside the time that is taken.
        limit: seconds after which it is ended.
        writes: where it writes, other than to `output`.
        folder: in which it is run; this process's own when None.
    """

    command: Sequence[str | Path]
    output: Path = Path(os.devnull)
    prepare: Callable[[], None] = lambda: None
    limit: float = 1800.0
    writes: Path | None = None
    folder: Path | None = None


def run_once(job: Job) -> Run:
    """Run a command to its end."""
    job.prepare()
    sync(job.writes or job.output.parent)  # what is left from the run before is not its work
    with job.output.open("wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in job.command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd=job.folder,
        )
        timer = Timer(job.limit, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return Run(seconds, cpu, usage.ru_maxrss * KIBIBYTE, process.returncode)


def _environment() -> dict[str, str]:
    """This one's, without what makes Python start otherwise than it does for users."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def compare(jobs: Sequence[Job], runs: int, warm_up: int = 1) -> list[Measured]:
    """Measure several commands in turn, so that all meet the same state of the machine."""
    for _ in range(warm_up):
        for job in jobs:
            run_once(job)
    rounds = [[run_once(job) for job in jobs] for _ in range(runs)]
    return [_median(list(column)) for column in zip(*rounds, strict=True)]


def _median(runs: list[Run]) -> Measured:
    return Measured(
        statistics.median(run.seconds for run in runs),
        statistics.median(run.cpu for run in runs),
        max(run.peak for run in runs),
        max((run.code for run in runs), key=abs),
        tuple(run.seconds for run in runs),
    )
