"""case.json beside what a command wrote: who, what, when, of which evidence, and what came of it.

Oracles: coreutils for hashes, the clock, the installed packages, the manifest.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.main import run as run_command
from ext4kit.output.extraction import extract
from tests.cli.conftest import Run


def case_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "case.json").read_text())
    return found


def sha256sum(path: Path) -> str:
    return subprocess.run(["sha256sum", path], capture_output=True, check=True).stdout[:64].decode()


def test_who_did_what_with_which_tool(run: Run, image: Path, tmp_path: Path) -> None:
    out, before = tmp_path / "out", datetime.now(UTC)
    told = ("--operator", "A. Nalyst", "--case-number", "2026/17")
    assert run("extract", image, "/sub", "-o", out, *told).returncode == 0
    case = case_of(out)
    assert case["command"] == ["ext4kit", "extract", str(image), "/sub", "-o", str(out), *told]
    assert (case["operator"], case["case_number"]) == ("A. Nalyst", "2026/17")
    assert (case["state"], case["reason"], case["errors"]) == ("complete", None, 0)
    times = [datetime.fromisoformat(case[name]) for name in ("started", "ended")]
    assert before <= times[0] <= times[1] <= datetime.now(UTC)
    assert case["tool"]["version"] == metadata.version("ext4kit")
    assert case["libraries"]["numpy"] == metadata.version("numpy")
    evidence = case["evidence"]
    assert evidence["files"] == [{"path": str(image), "size": image.stat().st_size}]
    assert (evidence["format"], evidence["size"]) == ("raw", image.stat().st_size)
    assert [each["worked_on"] for each in case["volumes"]] == [True]
    lines = (out / "manifest.jsonl").read_text().splitlines()
    assert case["counts"]["written"] + case["counts"]["recorded"] == len(lines)
    (output,) = case["outputs"]
    assert output["sha256"] == sha256sum(out / output["path"])
    assert not list(out.glob(".*"))


def test_what_was_not_read_and_why(run: Run, deleted: Path, tmp_path: Path) -> None:
    """The end of the image is missing: what a file lost there is told."""
    cut = tmp_path / "cut.img"
    cut.write_bytes(deleted.read_bytes()[: 9 << 20])
    out = tmp_path / "out"
    done = run("recover", cut, "-o", out)
    case = case_of(out)
    assert done.returncode == 1
    assert case["state"] == "complete"
    assert case["errors"] == sum(each["severity"] == "error" for each in case["problems"]) > 0


def test_evidence_that_stayed_the_same(run: Run, image: Path, tmp_path: Path) -> None:
    done = run("extract", image, "/", "-o", tmp_path / "out", "--verify-evidence")
    digest = sha256sum(image)
    assert done.returncode == 0
    assert b"evidence unchanged: 1 file" in done.stdout
    assert digest.encode() in done.stdout
    check = case_of(tmp_path / "out")["evidence_check"]
    assert check["unchanged"] is True
    assert check["files"][0]["before"]["sha256"] == check["files"][0]["after"]["sha256"] == digest
    done = run("extract", image, "/", "-o", tmp_path / "json", "--verify-evidence", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["unchanged"] for each in records if each["record"] == "evidence check"] == [True]


def test_evidence_that_changed_meanwhile(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def changing(*arguments: Any) -> Any:
        with copy.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"!")
        return extract(*arguments)

    before = sha256sum(copy)
    monkeypatch.setattr("ext4kit.cli.extract.extract", changing)
    out = tmp_path / "out"
    assert run_command(["extract", str(copy), "/", "-o", str(out), "--verify-evidence"]) == 1
    said = capsys.readouterr()
    assert "unchanged" not in said.out
    assert f"was {before}, now it is {sha256sum(copy)}" in said.err
    assert case_of(out)["evidence_check"]["unchanged"] is False


def test_a_request_that_cannot_be_met_leaves_nothing(run: Run, image: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert run("extract", image, "/none", "-o", tmp_path / "out").returncode == 2
    assert not list((tmp_path / "out").iterdir())
