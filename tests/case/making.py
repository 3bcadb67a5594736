"""Cases for tests, and what they hold when they are done."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.program import run_program

# what two runs of one command over the same evidence may differ in
_OF_THE_RUN = ("made_ns", "made_iso", "command", "started", "ended")


def case(folder: Path, *words: str | Path, code: int = 0) -> str:
    """Run a command of a case, which must end with this code; returns what it wrote."""
    done = run_program("case", *words[:1], "--case", folder, *words[1:], cwd=folder.parent)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode()


def made_case(folder: Path, *images: Path) -> Path:
    """A new case with these images."""
    done = run_program("case", "init", folder, "--operator", "R. Roe", "--case-number", "7")
    assert done.returncode == 0, done.stderr.decode()
    for image in images:
        run_program("case", "add", "--case", folder, image)
    return folder


def jobs_of(folder: Path) -> list[dict[str, Any]]:
    """The jobs by `case status`."""
    return [json.loads(line) for line in case(folder, "status", "--json").splitlines()]


def outputs(folder: Path) -> dict[str, object]:
    """The records that all jobs wrote, without what belongs to the run."""
    found: dict[str, object] = {}
    for path in sorted((folder / "images").rglob("*.jsonl")):
        lines = map(json.loads, path.read_text("utf-8").splitlines())
        found[str(path.relative_to(folder))] = list(map(_plain, lines))
    return found


def _plain(record: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in record.items() if name not in _OF_THE_RUN}


def killed_runs(folder: Path, source: random.Random, times: int, longest: float, *more: str) -> int:
    """Start runs of a case and kill each with SIGKILL after some time; returns how many ended."""
    ended = 0
    words: list[str | Path] = [sys.executable, "-m", "ext4kit", "case", "run", "-j", "2", "-q"]
    words += ["--case", folder, *more]
    for _ in range(times):
        process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        time.sleep(source.uniform(0, longest))
        ended += process.poll() is not None
        process.kill()
        process.wait()
    return ended


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables of a database."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = [name for (name,) in rows if not name.startswith("sqlite_")]
        return {
            name: sorted(database.execute(f"SELECT * FROM {name}").fetchall(), key=repr)  # noqa: S608
            for name in names
        }
