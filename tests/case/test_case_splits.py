"""The scan of a volume in parts, each a job: the other jobs give what they give alone."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ext4kit.cases.database import CaseDatabase
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.jobs import JobOrder, JobResult
from ext4kit.cases.ledger import Ledger
from ext4kit.cases.running import RunOptions, run_jobs
from ext4kit.cases.tasks import is_scan, scan_task, task_of
from tests.case.making import case, jobs_of, killed_runs, made_case, outputs, tables
from tests.conftest import Images
from tests.program import run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="jobs need POSIX")
TASKS = "report,export,recover"
SPLIT = ("--do", TASKS, "--split", "9M")  # the samples have 32 MiB
PARTS = 4


@pytest.fixture(scope="module")
def images(unpacked: Images) -> list[Path]:
    """Two samples."""
    return [unpacked(name).image for name in ("rm_rf_tree", "ext3")]


@pytest.fixture(scope="module")
def alone(images: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case whose scans are not split."""
    folder = made_case(tmp_path_factory.mktemp("alone") / "case", *images)
    case(folder, "run", "--do", TASKS)
    return folder


def recovered(folder: Path) -> dict[str, str]:
    """Digests of all that `recover` wrote, but for what has times or the command."""
    found = {}
    for path in sorted((folder / "images").rglob("recover/files/**/*")):
        if path.is_file() and path.name not in ("case.json", "report.html", "README.txt"):
            data = path.read_bytes()
            found[str(path.relative_to(folder))] = hashlib.sha256(data).hexdigest()
    assert found
    return found


def check_same(folder: Path, alone: Path) -> None:
    """Compare what two cases found, byte for byte."""
    assert outputs(folder) == outputs(alone)
    assert recovered(folder) == recovered(alone)
    assert tables(folder / "case.sqlite") == tables(alone / "case.sqlite")


def test_a_split_run_finds_the_same(images: list[Path], alone: Path, tmp_path: Path) -> None:
    folder = made_case(tmp_path / "split", *images)
    case(folder, "run", "-j", "2", *SPLIT)
    check_same(folder, alone)
    jobs = jobs_of(folder)
    assert {job["state"] for job in jobs} == {"done"}
    assert sum(is_scan(job["task"]) for job in jobs) == PARTS * len(images)
    for job in jobs:
        record = (folder / job["folder"] / "job.json").read_text()
        assert ("--scan" in record) == (job["task"] in TASKS.split(","))
    assert f"{PARTS} done" in case(folder, "status").splitlines()[1]
    assert case(folder, "run", *SPLIT) == ""  # nothing is done twice
    case(folder, "run", "--do", "report,verify", "--split", "1M")  # no task waits for a scan
    assert sum(is_scan(job["task"]) for job in jobs_of(folder)) == PARTS * len(images)


def test_small_volumes_are_not_split(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "small", images[0])
    case(folder, "run", "--do", "verify", "--split", "1M")
    case(folder, "run", "--do", "report", "--no-quick", "--split", "1G")
    assert [job["task"] for job in jobs_of(folder)] == ["verify", "report"]
    done = run_program("case", "run", "--case", folder, "--split", "0")
    assert done.returncode == 2
    assert b"must be more than 0" in done.stderr


@pytest.mark.heavy
def test_killed_runs_go_on(images: list[Path], alone: Path, tmp_path: Path) -> None:
    folder = made_case(tmp_path / "killed", *images)
    killed_runs(folder, random.Random(8), 4, 3.0, *SPLIT)
    case(folder, "run", "-j", "2", *SPLIT)
    check_same(folder, alone)
    assert {job["state"] for job in jobs_of(folder)} == {"done"}
    assert not list(folder.rglob("*.incomplete"))


@pytest.mark.heavy
def test_the_other_jobs_scan_themselves_if_a_part_fails(
    images: list[Path], alone: Path, tmp_path: Path
) -> None:
    folder = made_case(tmp_path / "failed", *images)
    words: list[str | Path] = [sys.executable, "-m", "ext4kit", "case", "run", "--no-quick", *SPLIT]
    process = subprocess.Popen([*words, "--case", folder, "-q"])
    part = folder / "images" / images[0].name / "volume-1" / task_name(2)
    os.kill(_owner(part.with_name(part.name + ".incomplete")), signal.SIGKILL)
    assert process.wait() == 1
    states = {job["task"]: job for job in jobs_of(folder) if job["image"] == images[0].name}
    assert states.pop(task_name(2))["message"] == "ended by signal 9"
    assert {job["state"] for job in states.values()} == {"done"}
    assert "--scan" not in (part.parent.parent / "report/job.json").read_text()
    case(folder, "run", *SPLIT, "--retry")
    check_same(folder, alone)


def test_parts_of_another_version_are_not_taken(images: list[Path], tmp_path: Path) -> None:
    folder = made_case(tmp_path / "older", images[1])
    case(folder, "run", "--do", "report", "--no-quick", "--split", "9M")
    record = next((folder / "images").rglob(f"{task_name(3)}/job.json"))
    found = json.loads(record.read_text()) | {"version": "0.0"}
    record.write_text(json.dumps(found))
    case(folder, "run", "--do", "export", "--no-quick")
    for task, takes in (("report", True), ("export", False)):
        words = json.loads((record.parents[2] / task / "job.json").read_text())["command"]
        assert ("--scan" in words) == takes


def task_name(part: int) -> str:
    """The name of a part."""
    return scan_task(part, PARTS)


def _owner(folder: Path) -> int:
    """The process of the job in this folder."""
    while True:
        try:
            return int((folder / ".owner").read_text().split()[0])
        except (OSError, IndexError):
            time.sleep(0.002)


def test_parts_have_names_in_their_order() -> None:
    assert [scan_task(part, 12) for part in (1, 12)] == ["scan/01-of-12", "scan/12-of-12"]
    assert task_of("scan/07-of-12").words[:3] == ("scan", "--part", "7/12")
    assert not is_scan("report")


def test_a_task_waits_for_all_parts_of_its_volume(images: list[Path], tmp_path: Path) -> None:
    folder = CaseFolder(made_case(tmp_path / "one", *images))
    begun: list[str] = []
    ended: list[str] = []

    def work(order: JobOrder) -> JobResult:
        volume = order.folder.partition("/volume-1/")[0]
        words = order.words
        if words[0] in TASKS.split(",") and "--quick" not in words and "journal" not in words:
            assert sum(each.startswith(f"{volume}/volume-1/scan/") for each in ended) == PARTS
        begun.append(order.folder)
        time.sleep(random.Random(order.folder).uniform(0, 0.05))
        ended.append(order.folder)
        return JobResult(False, 2, "not wanted", 0, 0)

    with Ledger(folder.ledger) as ledger, CaseDatabase(folder.database) as database:
        ledger.plan([*TASKS.split(","), "verify"], True, 9 << 20)
        with ThreadPoolExecutor(3) as executor:
            run_jobs(folder, ledger, database, executor, work, RunOptions(3), lambda *_: None)
        messages = {job.message for job in ledger.jobs()}
    assert messages == {"not wanted"}
    assert len(begun) == 2 * (PARTS + 4 + 2)
