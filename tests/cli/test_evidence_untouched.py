"""Every command opens the evidence to read only, and leaves it as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("volumes",),
    ("info", "--groups"),
    ("ls", "-rl", "/"),
    ("stat", "/sub/data"),
    ("cat", "/sub/data"),
    ("extract", "/", "-o", "OUT"),
    ("deleted",),
    ("recover", "-o", "OUT"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_evidence_is_opened_read_only(
    image: Path, tmp_path: Path, untouched: str, command: tuple[str, ...]
) -> None:
    if not shutil.which("strace"):
        pytest.skip("no strace")
    trace, out = tmp_path / "trace", tmp_path / "out"
    name, *rest = command
    arguments = [name, str(image), *(str(out) if one == "OUT" else one for one in rest)]
    calls = "open,openat,openat2,truncate,rename,unlink,unlinkat,chmod,utimensat"
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), "-e", f"trace={calls}", sys.executable, "-m", "ext4kit",
         *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = [line for line in trace.read_text(errors="replace").splitlines() if str(image) in line]
    assert seen
    for line in seen:
        flags = re.search(r"O_[A-Z_|]+", line)
        assert flags, line
        assert set(flags[0].split("|")) <= {"O_RDONLY", "O_CLOEXEC"}, line
