"""Partition tables written by sfdisk."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def write_table(disk: Path, script: str, *options: str) -> None:
    """Partition a disk as `script` says, in sfdisk's words; skip where there is no sfdisk.

    The kernel is not told, which also spares the sync(2) of all file systems.
    """
    tool = shutil.which("sfdisk", path=_PATH)
    if tool is None:
        pytest.skip("needs sfdisk")
    done = subprocess.run(
        [tool, "-q", "--no-tell-kernel", *options, disk], input=script.encode(), capture_output=True
    )
    assert done.returncode == 0, done.stderr
