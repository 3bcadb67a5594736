"""Runs jobs on the workers of a Dask scheduler, or on those that Slurm starts (extra `cluster`)."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ext4kit.errors import AccessError, OutputError, RequestError, UnsupportedError
from ext4kit.evidence.containers.extras import extra

_PATIENCE = "20s"  # for the scheduler to answer
_TRIES = 3  # of a job whose worker is lost
_PROCESSORS = 2  # of a worker: a job reads and computes at the same time
_USUAL_MEMORY = 4 << 30  # bytes of a worker, without a limit for jobs
_OF_WORKER = 512 << 20  # bytes of a worker beside its job


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers of a scheduler.

    Args:
        address: of the scheduler, such as "tcp://10.0.0.5:8786".

    Raises:
        UnsupportedError: the extra is not installed.
        AccessError: the scheduler does not answer.
    """
    with extra("a cluster", "distributed", "cluster"):
        import distributed
    connect: Any = distributed.Client  # it has no types
    try:
        client = connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise AccessError(f"{address}: no Dask scheduler answers ({error})") from error
    try:
        executor: Executor = client.get_executor(pure=False, retries=_TRIES)
        yield executor
    finally:
        client.close()


@contextmanager
def slurm(
    workers: int, options: Sequence[str], memory: int | None, folder: Path
) -> Iterator[Executor]:
    """Workers that Slurm starts, and starts again when they are lost; they end with the `with`.

    The scheduler is in this process. It and the workers talk over TLS, with keys of this run.

    Args:
        workers: number of workers, each a job of Slurm that does one job at a time.
        options: further options of sbatch.
        memory: bytes for each job of a case; None for no limit.
        folder: for the messages of workers and the keys, on a disk that all nodes see.

    Raises:
        UnsupportedError: the extra or Slurm is not installed.
        RequestError: Slurm does not take such jobs, or not from a folder of this name.
        OutputError: the folder cannot be written to.
    """
    with extra("Slurm", "dask-jobqueue", "cluster"):
        import dask
        import dask_jobqueue
        import distributed
        import distributed.security
    clusters: Any = dask_jobqueue
    connect: Any = distributed.Client
    keys: Any = distributed.security.Security
    with extra("Slurm", "cryptography", "cluster"):
        import cryptography  # noqa: F401 -- `temporary` has another error for it
    size = _USUAL_MEMORY if memory is None else memory + _OF_WORKER
    given: dict[str, Any] = dask.config.get("jobqueue.slurm.scheduler-options", {})
    with _key_files(keys.temporary(), folder) as files:
        found = clusters.SLURMCluster(
            cores=1,
            processes=1,
            memory=f"{size} B",
            job_cpu=_PROCESSORS,
            job_name="ext4kit",
            job_extra_directives=list(options),
            job_directives_skip=["#SBATCH -t "],  # the limit of the partition counts
            log_directory=str(folder),
            security=keys(require_encryption=True, **files),
            scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"} | given,
        )
        try:
            _check_script(found.job_script())
            found.adapt(minimum=workers, maximum=workers)
            client = connect(found, set_as_default=False)
            try:
                executor: Executor = client.get_executor(pure=False, retries=_TRIES)
                yield executor
            finally:
                client.close()
        finally:
            found.close()


@contextmanager
def _key_files(security: Any, folder: Path) -> Iterator[dict[str, str]]:
    """The files of new keys, which only this user can read, by the options that name them.

    Raises:
        RequestError: the scripts of Slurm jobs cannot have the path of the folder.
        OutputError: the folder cannot be written to.
    """
    if shlex.quote(str(folder)) != str(folder):
        text = "its path has spaces or other signs that a script of Slurm would have to quote"
        raise RequestError(f"{folder.parent}: {text}; move the case")
    names = {"tls_ca_file": "ca.pem"}
    for role in ("client", "scheduler", "worker"):
        names |= {f"tls_{role}_cert": "cert.pem", f"tls_{role}_key": "key.pem"}
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        held = tempfile.TemporaryDirectory(prefix="keys-", dir=folder)
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}") from error
    with held as keys:
        for option, name in names.items():
            (Path(keys) / name).write_text(getattr(security, option))
        yield {option: str(Path(keys) / name) for option, name in names.items()}


def _check_script(script: str) -> None:
    """Ask Slurm whether it would take a job.

    Raises:
        UnsupportedError: Slurm is not installed.
        RequestError: it would not.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script)
        file.flush()
        words = ["sbatch", "--test-only", file.name]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise UnsupportedError("Slurm is not installed here: no command sbatch") from error
    if done.returncode:
        lines = [line.removeprefix("sbatch: ").removeprefix("error: ")
                 for line in done.stderr.splitlines() if line.strip()]  # fmt: skip
        raise RequestError(f"Slurm takes no such jobs: {'; '.join(lines)}")
