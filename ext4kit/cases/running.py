"""Runs the jobs of a case: several at once, in their order, within limits of each storage."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path

from ext4kit.cases.database import CaseDatabase, VolumeInCase
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.jobs import JobOrder, JobResult, is_of_this_version, read_result
from ext4kit.cases.ledger import CaseJob, JobState, Ledger, LedgerVolume
from ext4kit.cases.tasks import DATABASE, QUICK, SCAN, is_scan, task_of
from ext4kit.evidence.mounts import storage_of

_PAUSE = 0.5  # seconds between two looks for an interrupt
_EXPORT = "export"
_INTERRUPTED = "interrupted"
Told = Callable[[CaseJob, JobResult | None], None]


@dataclass(frozen=True)
class RunOptions:
    """How jobs are run.

    Attributes:
        workers: jobs at once.
        seconds: time for each job; None for no limit.
        memory: bytes for each job; None for no limit.
        at_once: jobs at once by storage (`storage_of`).
        custody: options for tasks that take custody.
        keys: options that name keys, for all tasks.
    """

    workers: int = 1
    seconds: float | None = None
    memory: int | None = None
    at_once: Mapping[str, int] = field(default_factory=dict)
    custody: Sequence[str] = ()
    keys: Sequence[str] = ()


def order_of(
    folder: CaseFolder, job: CaseJob, options: RunOptions, has_scan: bool = False
) -> JobOrder:
    """What a process needs to do a job.

    Args:
        folder: of the case.
        job: the job.
        options: how jobs are run.
        has_scan: whether all parts of the scan of its volume are there.
    """
    task = task_of(job.task)
    extra = (task.quick or ()) if job.task.endswith(QUICK) else ()
    custody = options.custody if task.takes_custody else ()
    name, *rest = task.words
    scan = ("--scan", f"../{SCAN}") if has_scan and job.takes_scan else ()
    words = (name, job.volume.locator, *rest, *extra, *scan, *custody, *options.keys, "--quiet")
    return JobOrder(
        str(folder.of_job(job)), words, task.outputs, task.stdout, task.last, options.seconds,
        options.memory,
    )  # fmt: skip


def settle(folder: CaseFolder, ledger: Ledger, database: CaseDatabase) -> None:
    """Note how the jobs ended that were at work when a run was killed; import what is missing."""
    for job in ledger.jobs():
        if job.state is JobState.RUNNING:
            result = read_result(folder.of_job(job))
            if result is None:
                ledger.again(job.id, _INTERRUPTED)
            else:
                ledger.end(job.id, result)
    _import(folder, ledger.jobs(), database)


def run_jobs(
    folder: CaseFolder,
    ledger: Ledger,
    database: CaseDatabase,
    executor: Executor,
    run: Callable[[JobOrder], JobResult],
    options: RunOptions,
    tell: Told,
) -> None:
    """Do all jobs that wait.

    A task that takes a scan waits until all parts of the scan of its volume have ended. If one of
    them failed, or another version of the program made it, the task scans by itself.

    Args:
        folder: of the case.
        ledger: its ledger.
        database: its database.
        executor: calls `run`, in threads or on other computers.
        run: does a job, as `run_job` does.
        options: how.
        tell: called with each job when it begins, without a result, and when it has ended.
    """
    waiting = [job for job in ledger.jobs() if job.state is JobState.WAITING]
    paths = {image.id: Path(image.path) for image in ledger.images()}
    storages = {image: storage_of(path) for image, path in paths.items()} if options.at_once else {}
    running: dict[Future[JobResult], CaseJob] = {}
    busy = Counter[str]()
    while waiting or running:
        while len(running) < options.workers:
            free = _without_scans(waiting, running.values())
            job = _next(free, storages, busy, options.at_once)
            if job is None:
                break
            waiting.remove(job)
            busy[storages.get(job.volume.image, "")] += 1
            ledger.begin(job.id, time.time())
            tell(job, None)
            has_scan = job.takes_scan and _has_scan(folder, ledger, job)
            order = order_of(folder, job, options, has_scan)
            running[executor.submit(run, order)] = job
        done, _ = wait(running, _PAUSE, FIRST_COMPLETED)
        for future in done:
            job = running.pop(future)
            busy[storages.get(job.volume.image, "")] -= 1
            result = _result_of(future)
            ledger.end(job.id, result)
            if job.task.removesuffix(QUICK) == _EXPORT:
                same = (one for one in ledger.jobs() if one.volume.id == job.volume.id)
                _import(folder, same, database)
            tell(job, result)


def _without_scans(waiting: Sequence[CaseJob], running: Iterable[CaseJob]) -> list[CaseJob]:
    """The jobs that need not wait for the parts of a scan."""
    busy = {job.volume.id for job in (*waiting, *running) if is_scan(job.task)}
    return [job for job in waiting if not (job.takes_scan and job.volume.id in busy)]


def _has_scan(folder: CaseFolder, ledger: Ledger, job: CaseJob) -> bool:
    """Whether all parts of the scan of a volume are done, by this version of the program."""
    parts = [each for each in ledger.jobs()
             if each.volume.id == job.volume.id and is_scan(each.task)]  # fmt: skip
    are_done = all(each.state is JobState.DONE for each in parts)
    return bool(parts) and are_done and all(is_of_this_version(folder.of_job(x)) for x in parts)


def _next(
    waiting: Sequence[CaseJob], storages: Mapping[int, str], busy: Counter[str],
    at_once: Mapping[str, int],
) -> CaseJob | None:  # fmt: skip
    """The first job whose storage is not at its limit."""
    for job in waiting:
        storage = storages.get(job.volume.image, "")
        if busy[storage] < at_once.get(storage, len(waiting)):
            return job
    return None


def _result_of(future: Future[JobResult]) -> JobResult:
    """The result of a job; an error of the one who ran it is a failure of the job."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 -- the other jobs go on
        now = time.time()
        return JobResult(False, None, f"{type(error).__name__}: {error}", now, now)


def _import(folder: CaseFolder, jobs: Iterable[CaseJob], database: CaseDatabase) -> None:
    """Take into the database what exports have found and what it does not have yet.

    The full export of a volume takes the place of the quick one, whichever ended first.
    """
    done = [job for job in jobs if job.state is JobState.DONE]
    wanted = {job.volume.id: job for job in done if job.task == _EXPORT + QUICK}
    wanted |= {job.volume.id: job for job in done if job.task == _EXPORT}
    known = database.imports()
    for number, job in wanted.items():
        if known.get(number) != job.task:
            place = folder.of_job(job) / DATABASE
            database.import_volume(database_volume(job.volume), place, job.task)


def database_volume(volume: LedgerVolume) -> VolumeInCase:
    """A volume of the ledger as the database has it."""
    return VolumeInCase(
        volume.id, volume.image_name, volume.locator, volume.host, volume.uuid, volume.label
    )
