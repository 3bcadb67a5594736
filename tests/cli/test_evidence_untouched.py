"""Every command opens the evidence to read only, and leaves it as it was."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sample_images import Built
from tests.cli.conftest import ROOT
from tests.environment import missing

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("volumes",),
    ("volumes", "--scan"),
    ("info", "--groups"),
    ("ls", "-rl", "/"),
    ("stat", "/sub/data"),
    ("cat", "/sub/data"),
    ("extract", "/", "-o", "OUT"),
    ("deleted",),
    ("recover", "-o", "OUT"),
    ("scan", "-o", "OUT"),
    ("who", "1-200"),
    ("blocks", "--slack", "-o", "OUT"),
    ("verify",),
    ("timeline",),
    ("logs", "--all"),
    ("artifacts",),
    ("roots",),
    ("journal list",),
    ("journal audit",),
    ("journal replay", "-o", "OUT"),
    ("journal history", "/sub"),
)


ON_A_DIRTY_LOG: tuple[tuple[str, ...], ...] = (
    ("ls", "-r", "/", "--as-of", "5"),
    ("timeline",),
    ("report",),
    ("recover", "-o", "OUT"),
    ("journal audit",),
    ("journal replay", "-o", "OUT"),
)


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_evidence_is_opened_read_only(
    image: Path, tmp_path: Path, untouched: str, command: tuple[str, ...]
) -> None:
    check_calls(image, tmp_path, command)


@pytest.mark.heavy
@pytest.mark.parametrize("command", ON_A_DIRTY_LOG, ids=lambda command: command[0])
def test_an_image_with_a_log_to_replay_is_opened_read_only(
    unpacked: Callable[[str], Built], tmp_path: Path, command: tuple[str, ...]
) -> None:
    image = unpacked("power_cut").image
    before = hashlib.sha256(image.read_bytes()).digest()
    check_calls(image, tmp_path, command)
    assert hashlib.sha256(image.read_bytes()).digest() == before


def check_calls(image: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Run a command under a call tracer: the image is opened, and only ever to read."""
    if reason := missing("strace"):
        pytest.skip(reason)
    trace, out = tmp_path / "trace", tmp_path / "out"
    name, *rest = command
    arguments = [*name.split(), str(image), *(str(out) if one == "OUT" else one for one in rest)]
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
