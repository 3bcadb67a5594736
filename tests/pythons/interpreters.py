"""The Pythons of this machine, and those of Debian's suites."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

MINORS = (11, 12, 13, 14)  # of Python 3; the classifiers of pyproject.toml name the same
SUITES = {"bookworm": 11, "trixie": 13, "sid": 14}  # of Debian, and the Python of each
_PLACES = (
    "~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin", "~/.local/bin", "/usr/local/bin",
    "/usr/bin", "/opt/*/bin", "/opt/python/*/bin",
)  # fmt: skip
_VERSION = re.compile(r"Python (3)\.(\d+)\.(\d+)$")


def found_interpreters() -> dict[int, Path]:
    """Of each minor version the newest interpreter here; pre-releases are left out."""
    newest: dict[int, tuple[int, Path]] = {}
    for minor in MINORS:
        for path in _candidates(f"python3.{minor}"):
            version = _version_of(path)
            if version and version[0] == minor and version[1] > newest.get(minor, (-1, path))[0]:
                newest[minor] = version[1], path
    return {minor: path for minor, (_, path) in newest.items()}


def _candidates(name: str) -> Iterator[Path]:
    folders = [Path(each) for each in os.get_exec_path()]
    for pattern in _PLACES:
        whole = Path(pattern).expanduser()
        folders += Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))
    for folder in dict.fromkeys(folders):
        if (path := folder / name).is_file() and os.access(path, os.X_OK):
            yield path


def _version_of(python: Path) -> tuple[int, int] | None:
    """(minor version, patch) of a released Python 3 that can make environments."""
    done = subprocess.run(
        [python, "-c", "import sys, ensurepip, venv; print('Python', sys.version.split()[0])"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = _VERSION.search(done.stdout.strip())
    return (int(said[2]), int(said[3])) if said and not done.returncode else None
