"""`ext4kit case run`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

import click

from ext4kit.cases.database import CaseDatabase
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.jobs import JobOrder, JobResult, run_job
from ext4kit.cases.ledger import CaseJob, JobState, Ledger
from ext4kit.cases.lines import job_line
from ext4kit.cases.running import RunOptions, database_volume, run_jobs, settle
from ext4kit.cases.tasks import TASKS, USUAL
from ext4kit.cli.case.common import case_option, key_options, key_words
from ext4kit.cli.exits import INCOMPLETE
from ext4kit.cli.options import CONTEXT, quiet_option
from ext4kit.cli.telling import tell_line
from ext4kit.cli.values import byte_count, positive_byte_count
from ext4kit.errors import RequestError
from ext4kit.output.lock import locked

_EXAMPLE = """\b
Examples:
  ext4kit case run
  ext4kit case run -j 4 --do report,export,recover
  ext4kit case run -j 8 --io nas1=2 --seconds 7200 --memory 4G
  ext4kit case run -j 8 --split 200G
  ext4kit case run --retry
  ext4kit case run --scheduler tcp://10.0.0.5:8786
  ext4kit case run --slurm 16 --slurm-option --partition=long
"""
_SLURM = "slurm"  # folder for the messages of its workers
_AS_IT_IS = "the last run failed; tried again"
Run = Callable[[JobOrder], JobResult]


def _tasks(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if unknown := [name for name in names if name not in TASKS]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(TASKS)}")
    return names


def _storages(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, int]:
    found = {}
    for value in values:
        name, equals, count = value.rpartition("=")
        if not equals or not name or not (count.isdecimal() and int(count)):
            raise click.BadParameter(f"{value!r} is not a name and a number, such as nas1=2")
        found[name] = int(count)
    return found


@click.command("run", context_settings=CONTEXT, epilog=_EXAMPLE)
@case_option
@click.option("--do", "tasks", default=",".join(USUAL), show_default=True, metavar="LIST",
              callback=_tasks,
              help=f"What to do with each volume: {', '.join(TASKS)}.")  # fmt: skip
@click.option("-j", "--jobs", "workers", type=click.IntRange(1), default=1, show_default=True,
              metavar="N", help="Number of jobs at once.")  # fmt: skip
@click.option("--quick/--no-quick", default=True, show_default=True,
              help="First run report and export with the journal and the inode tables alone, for "
              "all volumes.")  # fmt: skip
@click.option("--split", callback=positive_byte_count, metavar="SIZE",
              help="Scan the unallocated space of a volume larger than SIZE in parts, one for each "
              "SIZE of the volume, each a job; 100G.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(1), metavar="N",
              help="Stop a job after this time.")  # fmt: skip
@click.option("--memory", callback=byte_count, metavar="SIZE",
              help="Limit the memory of a job, such as 4G (on Linux).")  # fmt: skip
@click.option("--io", "at_once", multiple=True, callback=_storages, metavar="NAME=N",
              help="At most N jobs at once on images of this server or device (the name in the "
              "table of mounts); may be given several times.")  # fmt: skip
@click.option("--retry", is_flag=True, help="Also try the jobs again that failed.")
@click.option("--verify-evidence", is_flag=True,
              help="Hash the evidence before and after each job that writes a record.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS",
              help="Run the jobs on the workers of this Dask scheduler, such as "
              "tcp://10.0.0.5:8786; they must see the case and the images under the same "
              "paths.")  # fmt: skip
@click.option("--slurm", type=click.IntRange(1), metavar="N",
              help="Let Slurm start N workers, each for one job at a time; its nodes must see the "
              "case, the images and this program under the same paths.")  # fmt: skip
@click.option("--slurm-option", "slurm_options", multiple=True, metavar="OPTION",
              help="An option of sbatch for the workers, such as --partition=long, --time=2-0 or "
              "--mem=16G; may be given several times.")  # fmt: skip
@key_options
@quiet_option
def command(
    case: CaseFolder,
    tasks: tuple[str, ...],
    workers: int,
    quick: bool,
    split: int | None,
    seconds: float | None,
    memory: int | None,
    at_once: dict[str, int],
    retry: bool,
    verify_evidence: bool,
    scheduler: str | None,
    slurm: int | None,
    slurm_options: tuple[str, ...],
    password_files: tuple[Path, ...],
    key_files: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Run the jobs of the case: each task for each volume, in a process of its own.

    What is done stays done: a run that was interrupted or killed goes on where it was. A job that
    fails, takes too long or needs too much memory is recorded, and the others go on. The outputs
    of a job are in images/IMAGE/volume-N/TASK of the folder of the case, and what `export` found is
    in case.sqlite.

    The exit code is 0 if every job of the case is done, else 1.
    """
    at = _Place(scheduler, slurm, slurm_options, case.path / _SLURM)
    with locked(case.path), Ledger(case.ledger) as ledger, CaseDatabase(case.database) as database:
        settle(case, ledger, database)
        database.set_volumes(database_volume(one) for one in ledger.volumes() if one.is_ext)
        ledger.plan(tasks, quick, split)
        if not ledger.jobs():
            raise RequestError("the case has no ext volume; `ext4kit case add IMAGE` adds some")
        if retry:
            for job in ledger.jobs():
                if job.state is JobState.FAILED:
                    ledger.again(job.id, _AS_IT_IS)
        custody = _custody(ledger, verify_evidence)
        keys = key_words(password_files, key_files)
        options = RunOptions(slurm or workers, seconds, memory, at_once, custody, keys)
        with _executor(at, options) as (executor, run):
            run_jobs(case, ledger, database, executor, run, options, partial(_tell, quiet))
        database.refresh()
        failed = [job for job in ledger.jobs() if job.state is not JobState.DONE]
    if failed:
        if not quiet:
            tell_line(f"{len(failed):,} of the jobs failed; `ext4kit case status` lists them")
        raise click.exceptions.Exit(INCOMPLETE)


def _custody(ledger: Ledger, verify_evidence: bool) -> list[str]:
    facts, found = ledger.facts(), list[str]()
    for name in ("operator", "case_number"):
        if facts.get(name):
            found += [f"--{name.replace('_', '-')}", facts[name]]
    return [*found, "--verify-evidence"] if verify_evidence else found


@dataclass(frozen=True)
class _Place:
    """Where jobs run: on this computer, if neither a scheduler nor Slurm is given.

    Raises:
        RequestError: both are given, or options of Slurm without it.
    """

    scheduler: str | None
    slurm: int | None
    slurm_options: tuple[str, ...]
    slurm_folder: Path

    def __post_init__(self) -> None:
        if self.scheduler and self.slurm:
            raise RequestError("give one of --scheduler and --slurm")
        if self.slurm_options and not self.slurm:
            raise RequestError("--slurm-option needs --slurm")


@contextmanager
def _executor(at: _Place, options: RunOptions) -> Iterator[tuple[Executor, Run]]:
    """What runs jobs, and what it calls for one; when the run ends early, the jobs end too."""
    if (at.scheduler or at.slurm) and hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a worker that goes away ends nothing
    if at.scheduler is not None:
        from ext4kit.cases.cluster import cluster

        with cluster(at.scheduler) as executor:
            yield executor, run_job
        return
    if at.slurm is not None:
        from ext4kit.cases.cluster import slurm

        with slurm(at.slurm, at.slurm_options, options.memory, at.slurm_folder) as executor:
            yield executor, run_job
        return
    stopped = Event()
    with ThreadPoolExecutor(options.workers) as executor:
        try:
            yield executor, partial(run_job, is_stopped=stopped.is_set)
        except BaseException:
            stopped.set()
            raise


def _tell(quiet: bool, job: CaseJob, result: JobResult | None) -> None:
    if not quiet and result is not None:
        click.echo(job_line(job, result))
