"""Partition tables written by sfdisk."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SYNC_SECONDS = 60
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def write_table(disk: Path, script: str, *options: str) -> None:
    """Partition a disk as `script` says, in sfdisk's words; skip where sfdisk cannot be used."""
    tool = shutil.which("sfdisk", path=_PATH)
    if tool is None:
        pytest.skip("needs sfdisk")
    if not _sync_returns():
        pytest.skip("sfdisk waits for a system-wide sync, which does not come back here")
    done = subprocess.run([tool, "-q", *options, disk], input=script.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr


@functools.cache
def _sync_returns() -> bool:
    """Whether sync(2) ends; on a kernel that lost a file system's thread it never does."""
    probe = subprocess.Popen(["sync"])
    try:
        return probe.wait(SYNC_SECONDS) == 0
    except subprocess.TimeoutExpired:
        probe.kill()
        return False
