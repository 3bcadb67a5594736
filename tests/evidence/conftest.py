"""Disks and volumes for the tests, made by the tools that are the oracles too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.environment.kernel import missing_for_kernel

Run = Callable[..., str]
Make = Callable[[str, int], Path]

# Options of strace in front of a command that calls sync(2), which returns at once then. It would
# wait for all file systems of the machine, for ever where the kernel lost a thread of one.
_WITHOUT_SYNC = ("-f", "-qq", "-o", os.devnull, "-e", "inject=sync:retval=0")
_ASKS_LOOP_DEVICES = "cannot check mount status"  # mkfs.btrfs, of each mounted loop device
_CALL_SYNC = ("mkreiserfs", "sgdisk")


@pytest.fixture
def run() -> Run:
    """Run a tool and give its stdout; skip the test where the tool is not installed."""

    def found(tool: str) -> str:
        path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
        place = shutil.which(tool, path=path)
        if place is None:
            pytest.skip(f"needs {tool}")
        return place

    def call(*command: str | Path, text: str | None = None) -> str:
        tool = found(str(command[0]))
        words = [tool, *map(str, command[1:])]
        if command[0] in _CALL_SYNC:
            words = [found("strace"), *_WITHOUT_SYNC, *words]
        places = os.environ | {"LVM_SYSTEM_DIR": ""}  # else pvcreate wants to write to /etc
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, check=False, env=places
        )
        if done.returncode == -signal.SIGSEGV:
            pytest.skip(f"needs a system where {words[0]} does not crash")
        if _ASKS_LOOP_DEVICES in done.stderr:
            pytest.skip("needs root, as loop devices are mounted here")
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
