"""The package as it is built and installed: from the files of the tree, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environment import ROOT

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "ext4kit", "share", "tools")
_BUILD_SDIST = "from setuptools import build_meta; build_meta.build_sdist({!r})"


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment that has the package and nothing else.

    Attributes:
        wheel: what was installed.
        prefix: the environment.
    """

    wheel: Path
    prefix: Path

    @property
    def share(self) -> Path:
        """Where data files are."""
        return self.prefix / "share"

    @property
    def site(self) -> Path:
        """Where packages are."""
        paths = {"base": str(self.prefix), "platbase": str(self.prefix)}
        return Path(sysconfig.get_path("purelib", "venv", paths))

    @property
    def program(self) -> Path:
        """The command."""
        folder = "Scripts" if os.name == "nt" else "bin"
        return self.prefix / folder / ("ext4kit.exe" if os.name == "nt" else "ext4kit")

    @property
    def environment(self) -> dict[str, str]:
        """In it the command finds the libraries of the tests' own environment."""
        path = os.pathsep.join((str(self.program.parent), os.environ.get("PATH", "")))
        return {**os.environ, "PATH": path, "PYTHONPATH": sysconfig.get_path("purelib")}


def _copy(target: Path) -> Path:
    """The sources apart from the tree: builds leave files beside them."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            target.mkdir(exist_ok=True)
            shutil.copy(source, target / name)
    return target


def _pip(*arguments: str | Path, python: Path | None = None) -> None:
    command = [sys.executable, "-m", "pip", *(("--python", python) if python else ())]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _sdist(tree: Path, folder: Path) -> Path:
    folder.mkdir()
    command = [sys.executable, "-c", _BUILD_SDIST.format(str(folder))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree)
    assert done.returncode == 0, done.stderr
    return next(folder.iterdir())


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The package: the tree packed as source distribution, a wheel built from that, installed."""
    folder = tmp_path_factory.mktemp("package")
    source = _sdist(_copy(folder / "tree"), folder / "sdist")
    _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder, source)
    made = Installed(next(folder.glob("*.whl")), folder / "environment")
    command = [sys.executable, "-m", "venv", "--without-pip", str(made.prefix)]
    subprocess.run(command, check=True, capture_output=True)
    python = made.program.with_name("python.exe" if os.name == "nt" else "python")
    _pip("install", "--no-deps", "--no-index", made.wheel, python=python)
    yield made
    shutil.rmtree(folder, ignore_errors=True)
