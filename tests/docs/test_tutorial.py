"""Every command on the tutorial's page does what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment import ROOT

PAGE = ROOT / "docs/tutorial.md"
LEFT_OUT = "..."  # a line that stands for any number of lines


def steps() -> Iterator[tuple[str, list[str]]]:
    """(command, lines shown behind it) of the page, in order."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        command: str = ""
        shown: list[str] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line[2:], []
            else:
                shown.append(line)
        yield command, shown


@pytest.mark.heavy
def test_the_tutorial_is_what_happens(tmp_path: Path) -> None:
    (tmp_path / "sample_images").symlink_to(ROOT / "sample_images")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ext4kit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ext4kit "$@"\n')
    (programs / "ext4kit").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    ran = 0
    for command, shown in steps():
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stderr)
        said = (done.stdout + done.stderr).splitlines()
        assert is_shown(said, shown), (command, said, shown)
        ran += 1
    assert ran > 20


def is_shown(said: list[str], shown: list[str]) -> bool:
    """Whether the page shows what was said, apart from what it leaves out."""
    pattern = "".join(
        r"(?:.*\n)*" if line == LEFT_OUT else re.escape(line.rstrip()) + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in said)) is not None
