"""The workers of a Dask scheduler do the jobs of a case as one process does them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.case.making import case, jobs_of, made_case, outputs, tables
from tests.conftest import Images
from tests.program import run_program

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and four workers, each a process."""
    with distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as found:
        yield found


def _run(cluster: Any, folder: Path) -> subprocess.Popen[bytes]:
    words: list[str | Path] = [sys.executable, "-m", "ext4kit", "case", "run", "-j", "4"]
    words += ["--split", "9M", "--case", folder, "--scheduler", cluster.scheduler_address]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_cluster_finds_what_one_process_finds(
    cluster: Any, unpacked: Images, tmp_path: Path
) -> None:
    images = [unpacked(name).image for name in ("rm_rf_tree", "ext3")]
    alone = made_case(tmp_path / "alone", *images)
    case(alone, "run", "-j", "2")
    together = made_case(tmp_path / "together", *images)
    process = _run(cluster, together)
    assert process.stdout is not None
    process.stdout.readline()
    victim = next(worker.pid for worker in cluster.workers.values() if worker.process.is_alive())
    os.kill(victim, signal.SIGKILL)
    _, told = process.communicate()
    assert process.returncode == 0, told.decode()
    assert outputs(together) == outputs(alone)
    assert tables(together / "case.sqlite") == tables(alone / "case.sqlite")
    assert sum(job["task"].startswith("scan/") for job in jobs_of(together)) == 2 * 4
    assert {job["state"] for job in jobs_of(together)} == {"done"}


def test_a_scheduler_that_does_not_answer_is_told(unpacked: Images, tmp_path: Path) -> None:
    folder = made_case(tmp_path / "case", unpacked("ext3").image)
    done = run_program("case", "run", "--case", folder, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 3
    assert b"no Dask scheduler answers" in done.stderr
    assert len(done.stderr.splitlines()) == 1
