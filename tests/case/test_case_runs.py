"""Each job of a case is done once, whatever happens to the run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cases.database import CaseDatabase
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.jobs import JobOrder, JobResult, StoppedError, run_job
from ext4kit.cases.ledger import Ledger
from ext4kit.cases.running import RunOptions, run_jobs
from ext4kit.evidence.mounts import storage_of
from tests.case.making import case, jobs_of, killed_runs, made_case, outputs, tables
from tests.conftest import Images
from tests.environment import needs
from tests.program import run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="jobs need POSIX")


@pytest.fixture
def images(unpacked: Images, tmp_path: Path) -> list[Path]:
    """Two samples, and a file that is no image."""
    noise = tmp_path / "noise.bin"
    noise.write_bytes(random.Random(5).randbytes(1 << 17))
    return [unpacked("rm_rf_tree").image, unpacked("ext3").image, noise]


def test_each_job_is_done_and_told(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "one", *images)
    said = case(folder, "run", "-j", "2", "--do", "report,verify,timeline")
    jobs = jobs_of(folder)
    assert len(said.splitlines()) == len(jobs) == 2 * 4  # a quick report too
    assert {job["state"] for job in jobs} == {"done"}
    assert {job["tries"] for job in jobs} == {1}
    for job in jobs:
        assert (folder / job["folder"] / "job.json").is_file()
    image = images[0]
    records = [
        json.loads(line) for line in run_program("verify", image, "--json").stdout.splitlines()
    ]
    made = (folder / f"images/{image.name}/volume-1/verify/verify.jsonl").read_text("utf-8")
    assert [json.loads(line) for line in made.splitlines()] == records
    assert case(folder, "run", "--do", "report,verify,timeline") == ""  # nothing is done twice
    assert jobs_of(folder) == jobs
    case(folder, "run", "--do", "verify,recover", "--no-quick")
    assert Counter(job["task"] for job in jobs_of(folder))["recover"] == 2
    record = json.loads(
        (folder / f"images/{image.name}/volume-1/recover/files/case.json").read_text()
    )
    assert (record["operator"], record["case_number"]) == ("R. Roe", "7")


def test_quick_runs_of_all_volumes_come_first(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "one", *images)
    tasks = [line.split(": ")[1] for line in case(folder, "run").splitlines()]
    assert tasks[:4] == ["report-quick", "export-quick"] * 2
    assert not any(task.endswith("-quick") for task in tasks[4:])


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_runs_go_on_where_they_were(images: list[Path], tmp_path: Path, kills: int) -> None:
    plain = made_case(tmp_path / "plain", *images)
    case(plain, "run", "-j", "2")
    folder = made_case(tmp_path / "killed", *images)
    killed_runs(folder, random.Random(kills), kills, 3.0)
    case(folder, "run", "-j", "2")
    jobs = jobs_of(folder)
    assert {job["state"] for job in jobs} == {"done"}
    assert outputs(folder) == outputs(plain)
    assert not list(folder.rglob("*.incomplete"))
    assert tables(folder / "case.sqlite") == tables(plain / "case.sqlite")


def _hanging(folder: Path, seconds: float | None = None) -> JobOrder:
    """A job that waits for a passphrase from a pipe that nobody writes to."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    words = ("volumes", str(folder / "disk.img"), "--password-file", str(pipe))
    return JobOrder(str(folder / "job"), words, stdout="out", seconds=seconds)


def test_a_job_that_hangs_is_stopped(tmp_path: Path) -> None:
    result = run_job(_hanging(tmp_path, 2))
    assert not result.is_done
    assert "stopped after 2 seconds" in result.message
    assert not list(tmp_path.glob("job*"))


def test_a_job_with_too_little_memory_fails_alone(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "one", images[0])
    case(folder, "run", "--do", "verify", "--memory", "20M", code=1)
    (job,) = jobs_of(folder)
    assert job["state"] == "failed"
    assert job["message"]
    assert "--retry" in case(folder, "status")
    case(folder, "run", "--do", "verify", code=1)  # what failed is not tried again by itself
    case(folder, "run", "--do", "verify", "--retry")
    (job,) = jobs_of(folder)
    assert (job["state"], job["tries"]) == ("done", 2)


@pytest.mark.parametrize("wanted", [{"outputs": ("page.html",)}, {"last": "summary"}])
def test_code_1_without_all_outputs_is_a_failure(
    wanted: dict[str, Any], unpacked: Images, tmp_path: Path
) -> None:
    bad = ("verify", str(unpacked("ext3").image), "--json")
    order = JobOrder(str(tmp_path / "job"), bad, stdout="out", last="summary")
    assert run_job(order).is_done
    words = ("stat", str(unpacked("ext3").image), "/", "/nowhere", "--json")
    result = run_job(JobOrder(str(tmp_path / "other"), words, stdout="out", **wanted))
    assert not result.is_done
    assert not (tmp_path / "other").exists()


def test_a_crash_is_told(tmp_path: Path) -> None:
    order = _hanging(tmp_path)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(run_job, order)
        os.kill(_owner(tmp_path), signal.SIGSEGV)
        assert future.result().message == "ended by signal 11"


def _owner(folder: Path) -> int:
    """The process of the job in this folder."""
    while True:
        try:
            return int((folder / "job.incomplete/.owner").read_text().split()[0])
        except (OSError, IndexError):
            time.sleep(0.01)


def _has_ended(process: int) -> bool:
    """Whether a process is gone, or waits only for somebody to take its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_the_process_of_a_killed_run_is_ended_before_the_job_is_done_again(
    unpacked: Images, tmp_path: Path
) -> None:
    order = _hanging(tmp_path)
    code = f"from ext4kit.cases.jobs import *; run_job({order!r})"
    runner = subprocess.Popen([sys.executable, "-c", code])
    left = _owner(tmp_path)
    runner.kill()
    runner.wait()
    assert not _has_ended(left)
    (tmp_path / "pipe").unlink()
    (tmp_path / "pipe").write_text("a passphrase")
    (tmp_path / "disk.img").symlink_to(unpacked("ext3").image)
    assert run_job(order).is_done
    assert _has_ended(left)


def test_a_run_that_ends_takes_its_jobs_with_it(tmp_path: Path) -> None:
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(partial(run_job, is_stopped=stopped.is_set), _hanging(tmp_path))
        process = _owner(tmp_path)
        stopped.set()
        with pytest.raises(StoppedError):
            future.result()
    assert _has_ended(process)


def test_an_interrupt_ends_a_run_in_order(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "one", *images)
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "ext4kit",
        "case",
        "run",
        "--case",
        folder,
        "-j",
        "2",
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()  # a job has ended, others are at work
    process.send_signal(signal.SIGTERM)  # SIGINT may be ignored where the tests run
    process.communicate()
    assert process.returncode == 130
    case(folder, "run")
    assert {job["state"] for job in jobs_of(folder)} == {"done"}


def test_no_more_jobs_than_a_storage_may_have(images: list[Path], tmp_path: Path) -> None:
    folder = CaseFolder(made_case(tmp_path / "one", *images[:2]))
    at_work, most = Counter[str](), Counter[str]()
    lock = threading.Lock()

    def slow(order: JobOrder) -> JobResult:
        with lock:
            at_work["jobs"] += 1
            most["jobs"] = max(most["jobs"], at_work["jobs"])
        time.sleep(0.05)
        with lock:
            at_work["jobs"] -= 1
        return JobResult(False, 2, "not wanted", 0, 0)

    for at_once, expected in (({}, 4), ({storage_of(images[0]): 1}, 1)):
        with Ledger(folder.ledger) as ledger, CaseDatabase(folder.database) as database:
            ledger.plan(["report", "verify", "timeline"], quick_first=True)
            for job in ledger.jobs():
                ledger.again(job.id, "once more")
            most.clear()
            with ThreadPoolExecutor(4) as executor:
                run_jobs(folder, ledger, database, executor, slow,
                         RunOptions(4, at_once=at_once), lambda _job, _result: None)  # fmt: skip
        assert most["jobs"] == expected


@needs("findmnt")
def test_the_storage_of_a_file_is_what_findmnt_says(tmp_path: Path) -> None:
    words: list[str | Path] = ["findmnt", "-n", "-o", "SOURCE", "-T", tmp_path]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    told = lines[-1]  # the one above the others
    assert storage_of(tmp_path / "disk.img") == told.partition("[")[0].rpartition("/")[2]


def test_two_runs_of_a_case_at_once_are_refused(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "one", *images)
    words: list[str | Path] = [sys.executable, "-m", "ext4kit", "case", "run", "--case", folder]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    done = run_program("case", "run", "--case", folder)
    process.communicate()
    assert done.returncode == 2
    assert b"another run" in done.stderr
