"""`recover` with a second process: the same result, and the same end of what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ext4kit.output import can_be_apart
from tests.cli.conftest import ROOT
from tests.cli.test_errors import (
    _ends_unfinished,
    _records,
    _whole_files_are_told,
    small_disk,
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two processors",
)


def _program(many: int, *arguments: str | Path, slow: float = 0.0) -> list[str]:
    """The program with a second process from `many` files on, each piece written slowly."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # test runners ignore it
        "from ext4kit.cli import main\nfrom ext4kit.output import rooted\n"
        "from ext4kit.recovery import salvage\n"
        f"salvage._MANY = {many}\n"
        "plain = rooted._write_all\n"
        f"def slow(*each):\n    time.sleep({slow})\n    plain(*each)\n"
        f"rooted._write_all = slow if {slow} else plain\n"
        f"sys.exit(main.run({list(map(str, arguments))!r}))\n"
    )
    return [sys.executable, "-c", code]


def _run(many: int, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(_program(many, *arguments), cwd=ROOT, capture_output=True, check=False)


@pytest.mark.heavy
def test_a_second_process_changes_nothing(deleted: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    alone = _run(1_000_000, "recover", deleted, "-o", one, "--versions")
    apart = _run(1, "recover", deleted, "-o", two, "--versions")
    assert alone.returncode == apart.returncode == 0, apart.stderr
    assert apart.stdout == alone.stdout.replace(str(one).encode(), str(two).encode())
    assert (two / "manifest.jsonl").read_bytes() == (one / "manifest.jsonl").read_bytes()
    assert _tree(two) == _tree(one)


def _tree(out: Path) -> dict[str, tuple[int, int]]:
    """Size and, below `files`, time of each file; its bytes are in the manifest as a hash."""
    found = {}
    for path in out.rglob("*"):
        if path.is_file() and path.name != "case.json":
            facts, below = path.stat(), path.relative_to(out).as_posix()
            found[below] = facts.st_size, facts.st_mtime_ns * below.startswith("files/")
    return found


@pytest.mark.kernel
def test_a_full_disk_leaves_a_valid_manifest(deleted: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path) as small:
        done = _run(1, "recover", deleted, "-o", small / "out")
        assert done.returncode == 1, done.stderr
        assert b"No space left" in done.stderr
        _ends_unfinished(small / "out")


@pytest.mark.heavy
@pytest.mark.parametrize("whole_group", [False, True])
def test_an_interrupt_leaves_a_valid_manifest(
    deleted: Path, tmp_path: Path, whole_group: bool
) -> None:
    out = tmp_path / "out"
    manifest = out / "manifest.jsonl"
    done = subprocess.Popen(
        _program(1, "recover", deleted, "-o", out, slow=0.2),
        cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (manifest.exists() and manifest.stat().st_size):
        time.sleep(0.02)
    if whole_group:  # as a terminal does
        os.killpg(done.pid, signal.SIGINT)
    else:
        done.send_signal(signal.SIGINT)
    _, said = done.communicate(timeout=30)
    assert done.returncode == 130, said
    assert said.strip() == b"ext4kit: interrupted"
    records = _records(manifest)
    assert "interrupted" in str(records[-1]["problems"])
    _whole_files_are_told(out, records)
    assert json.loads((out / "case.json").read_text())["state"] == "incomplete"


def test_one_processor_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert not can_be_apart()
