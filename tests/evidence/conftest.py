"""Disks and volumes for the tests, made by the tools that are the oracles too."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.environment.kernel import missing_for_kernel

Run = Callable[..., str]
Make = Callable[[str, int], Path]


@pytest.fixture
def run() -> Run:
    """Run a tool and give its stdout; skip the test where the tool is not installed."""

    def call(*command: str | Path, text: str | None = None) -> str:
        path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
        tool = shutil.which(str(command[0]), path=path)
        if tool is None:
            pytest.skip(f"needs {command[0]}")
        done = subprocess.run(
            [tool, *map(str, command[1:])], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A sparse file of so many MiB."""

    def create(name: str, mebibytes: int) -> Path:
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(mebibytes << 20)
        return path

    return create


@pytest.fixture
def loop(run: Run) -> Iterator[Callable[..., Path]]:
    """Attach files to loop devices, detached at the end; skip where that is not allowed."""
    if reason := missing_for_kernel():
        pytest.skip(reason)
    attached: list[str] = []

    def attach(path: Path, *options: str) -> Path:
        attached.append(run("losetup", "-f", "--show", *options, path).strip())
        return Path(attached[-1])

    yield attach
    for device in attached:
        run("losetup", "-d", device)
