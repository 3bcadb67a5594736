"""A real Slurm does the jobs of a case as one process does them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.case.making import case, jobs_of, made_case, outputs, tables
from tests.case.slurm_node import PARTITION, jobs_in_slurm, missing, slurm_node
from tests.conftest import Images
from tests.program import run_program

pytest.importorskip("dask_jobqueue")
pytestmark = [pytest.mark.heavy, pytest.mark.skipif(bool(missing()), reason=missing())]
TASKS = "report,export"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of commands that use a Slurm of one node."""
    with slurm_node(tmp_path_factory.mktemp("slurm")) as env:
        yield env


def _words(folder: Path, *more: str) -> list[str | Path]:
    words: list[str | Path] = [sys.executable, "-m", "ext4kit", "case", "run", "--case", folder]
    return [*words, "--do", TASKS, "--slurm", "2", *more]


def _one_job(env: Mapping[str, str], before: set[str]) -> str:
    """A job of Slurm that is none of those before."""
    while True:
        if found := set(jobs_in_slurm(env)) - before:
            return min(found, key=int)
        time.sleep(0.1)


def test_slurm_finds_what_one_process_finds(
    slurm: Mapping[str, str], unpacked: Images, tmp_path: Path
) -> None:
    images = [unpacked(name).image for name in ("rm_rf_tree", "ext3")]
    alone = made_case(tmp_path / "alone", *images)
    case(alone, "run", "--do", TASKS)
    folder = made_case(tmp_path / "slurm", *images)
    words = _words(folder, "--split", "9M", "--slurm-option", f"--partition={PARTITION}")
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, env=slurm, stdout=pipe, stderr=pipe, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()  # a job of the case has ended
    subprocess.run(["scancel", _one_job(slurm, set())], env=slurm, check=True)  # a worker is lost
    _, told = process.communicate()
    assert process.returncode == 0, told.decode()
    assert outputs(folder) == outputs(alone)
    assert tables(folder / "case.sqlite") == tables(alone / "case.sqlite")
    assert {job["state"] for job in jobs_of(folder)} == {"done"}
    assert jobs_in_slurm(slurm) == []
    assert not list(folder.rglob("*.pem"))  # the keys of the run are gone
    assert list(tmp_path.glob("slurm-*")) == []  # messages of workers are in the case


def test_an_interrupt_cancels_the_jobs_of_slurm(
    slurm: Mapping[str, str], unpacked: Images, tmp_path: Path
) -> None:
    folder = made_case(tmp_path / "case", unpacked("ext3").image)
    process = subprocess.Popen(_words(folder), env=slurm, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 130
    assert jobs_in_slurm(slurm) == []
    assert not list(folder.rglob("*.pem"))
    case(folder, "run", "--do", TASKS)
    assert {job["state"] for job in jobs_of(folder)} == {"done"}


def test_what_slurm_refuses_is_told(
    slurm: Mapping[str, str], unpacked: Images, tmp_path: Path
) -> None:
    folder = made_case(tmp_path / "case", unpacked("ext3").image)
    for options, code, text in (
        (["--slurm-option", "--partition=nowhere"], 2, "partition"),
        (["--scheduler", "tcp://127.0.0.1:9"], 2, "one of --scheduler and --slurm"),
    ):
        done = run_program(*_words(folder, *options)[3:], env=slurm)
        assert (done.returncode, done.stdout) == (code, b"")
        assert text in done.stderr.decode()
        assert len(done.stderr.splitlines()) == 1
    odd = made_case(tmp_path / "a case", unpacked("ext3").image)
    done = run_program(*_words(odd)[3:], env=slurm)
    assert done.returncode == 2
    assert b"move the case" in done.stderr
    assert {job["state"] for job in jobs_of(folder)} == {"waiting"}


def test_no_slurm_is_told_in_one_line(unpacked: Images, tmp_path: Path) -> None:
    folder = made_case(tmp_path / "case", unpacked("ext3").image)
    env = {**os.environ, "PATH": str(tmp_path)}
    done = run_program(*_words(folder)[3:], env=env)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"Slurm is not installed here" in done.stderr
    done = run_program("case", "run", "--case", folder, "--slurm-option", "--time=1")
    assert done.returncode == 2
    assert b"needs --slurm" in done.stderr
