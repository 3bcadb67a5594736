"""What the tests need of the machine: tools, the kernel, a folder for images, and what is left out.

Attributes:
    PACKAGES: the Debian packages, and the commands of each that the tests call.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from sample_images.cache import cache_folder

ROOT = Path(__file__).resolve().parents[2]
PACKAGES: dict[str, list[str]] = {
    package: commands
    for package, *commands in (
        line.split()
        for line in Path(__file__).with_name("packages.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}


def everything() -> bool:
    """Whether all slow tests run, with all that they repeat."""
    return os.environ.get("EXT4KIT_SLOW", "") not in ("", "0")


def widen_path() -> None:
    """Let commands be found where administrators have them, and where `provide` unpacks them."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    further = ("/usr/local/sbin", "/usr/sbin", "/sbin", str(cache_folder() / "commands"))
    folders += [folder for folder in further if folder not in folders]
    os.environ["PATH"] = os.pathsep.join(folders)


def is_root() -> bool:
    """Whether this is root; nobody is where there are no user ids."""
    return getattr(os, "geteuid", lambda: -1)() == 0


def missing(*commands: str) -> str:
    """Which of these commands are not here, as the reason of a skipped test; empty for none."""
    absent = [command for command in commands if shutil.which(command) is None]
    return f"needs {', '.join(absent)}" if absent else ""


def needs(*commands: str) -> pytest.MarkDecorator:
    """The mark of a test that is skipped where one of these commands is not here."""
    return pytest.mark.skipif(bool(missing(*commands)), reason=missing(*commands))


@cache
def makes_revision_0() -> bool:
    """Whether mke2fs makes file systems of revision 0: from 1.47.2 on it refuses `-r 0`.

    What it offers instead, `-E revision=0`, ends in an error with every set of features.
    """
    with tempfile.NamedTemporaryFile() as image:
        image.truncate(2 << 20)
        words = ["mke2fs", "-q", "-F", "-n", "-t", "ext2", "-r", "0", "-O", "none", image.name]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0


def skip_if_revision_0(options: str) -> None:
    """Skip a test that asks mke2fs for revision 0, if it makes none."""
    if "-r 0" in options and not makes_revision_0():
        pytest.skip("needs an mke2fs that makes revision 0, of e2fsprogs before 1.47.2")


def package_of(command: str) -> str:
    """The Debian package that brings a command, "" when none of the list does."""
    return next((package for package, names in PACKAGES.items() if command in names), "")
