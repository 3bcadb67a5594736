"""A file system of 15 TiB with few files on it: the right answers, in memory by what is used."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes import machine

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SIZE = 15 << 40  # 122,880 groups: more than s_block_group_nr can count
OPTIONS = (
    "-t", "ext4", "-E", f"hash_seed={machine.HASH_SEED},nodiscard,lazy_itable_init=1",
)  # fmt: skip
FOLDERS, FILES_EACH = 200, 200
MEMORY_KIB = 400 << 10  # the descriptors alone take 8 MiB, as columns 12


@dataclass(frozen=True, slots=True)
class Vast:
    """The image and what the kernel says of it.

    Attributes:
        living: inode number of each path.
        removed: SHA-256 of each file that was removed.
    """

    image: Path
    living: dict[str, int]
    removed: dict[str, str]


@pytest.fixture(scope="module")
def vast(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vast]:
    folder = tmp_path_factory.mktemp("vast")
    image, root = folder / "vast.img", folder / "mounted"
    root.mkdir()
    try:
        machine.make_file_system(image, SIZE, OPTIONS)
    except OSError as error:
        pytest.skip(f"no file of {SIZE >> 40} TiB here: {error}")
    with machine.loop_device(image) as device:
        sums = _mounted(device, root, lambda: _fill(root))
        gone = [path for path in sums if path.split("/")[1].endswith("3")]
        living = _mounted(device, root, lambda: _thin(root, gone))
    yield Vast(image, living, {path: sums[path] for path in gone})
    shutil.rmtree(folder)


def _mounted(device: Path, root: Path, act: Any) -> Any:
    """Mounted so that the kernel leaves unused inode tables as they are: holes."""
    machine.mount(device, root, "noinit_itable")
    try:
        return act()
    finally:
        machine.unmount(root)


def _fill(root: Path) -> dict[str, str]:
    """Folders in the root are spread over all groups by the kernel; SHA-256 of each file."""
    chance, sums = random.Random("vast"), {}
    for number in range(FOLDERS):
        folder = root / f"folder {number:03}"
        folder.mkdir()
        for each in range(FILES_EACH):
            path = folder / f"file {each:03}"
            data = chance.randbytes(chance.choice((10, 500, 4096, 9000)))
            path.write_bytes(data)
            sums[f"/{path.relative_to(root)}"] = hashlib.sha256(data).hexdigest()
    return sums


def _thin(root: Path, gone: list[str]) -> dict[str, int]:
    """Remove files; the inode number of each path that stays."""
    for path in gone:
        (root / path[1:]).unlink()
    return {f"/{path.relative_to(root)}": path.stat().st_ino for path in root.rglob("*")}


# What wait4 tells of a child's memory begins with that of the process it was forked from.
_TELLING_ITS_PEAK = """
import os, re
from pathlib import Path
from ext4kit.cli.main import main
def end(code, leave=os._exit):
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
    os.write(2, f"\\n{peak[1]}".encode())
    leave(code)
os._exit = end
main()
"""


def _frugal(*arguments: str | Path) -> str:
    """The output of a command that ends well and within the bound of memory."""
    words = [sys.executable, "-c", _TELLING_ITS_PEAK, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 10_000 < int(done.stderr.splitlines()[-1]) < MEMORY_KIB
    return done.stdout


def _records(said: str, kind: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in said.splitlines())
    return [one for one in found if one["record"] == kind]


def test_everything_is_listed_as_the_kernel_lists_it(vast: Vast) -> None:
    entries = _records(_frugal("ls", "-r", "--json", vast.image), "entry")
    assert {entry["path"]: entry["inode"] for entry in entries} == vast.living


def test_what_was_removed_comes_back(vast: Vast, tmp_path: Path) -> None:
    found = _records(_frugal("deleted", "--json", vast.image), "deleted")
    assert {one["path"] for one in found} == set(vast.removed)
    _frugal("recover", vast.image, "-o", tmp_path / "out")
    top = tmp_path / "out" / "files"
    files = [path for path in top.rglob("*") if stat.S_ISREG(path.lstat().st_mode)]
    sums = {f"/{path.relative_to(top)}": _sum(path) for path in files}
    assert sums == vast.removed


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_nothing_is_wrong_with_it(vast: Vast) -> None:
    machine.run("e2fsck", "-fn", vast.image)
    said = _frugal("verify", "--json", vast.image)
    assert [json.loads(line)["record"] for line in said.splitlines()] == ["summary"]


def test_its_groups_are_those_of_dumpe2fs(vast: Vast) -> None:
    ours, theirs = _frugal("info", "-g", vast.image), machine.run("dumpe2fs", vast.image).decode()
    assert _groups(ours) == _groups(theirs)


def _groups(said: str) -> str:
    return said[said.index("\nGroup 0:") :].strip()


@pytest.mark.parametrize("command", ["volumes", "timeline", "journal audit", "journal list"])
def test_the_other_commands_are_frugal_too(vast: Vast, command: str) -> None:
    assert _frugal(*command.split(), vast.image)
