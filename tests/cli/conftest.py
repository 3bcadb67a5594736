"""A small image made without root, and ways to run the program on it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sample_images import unpack
from tests.program import run_program

ROOT = Path(__file__).resolve().parents[2]
EVIL = b"evil\x1b[31m\xe2\x80\xaegpj\xff\\n"  # escape, right-to-left override, no UTF-8, backslash
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run the program."""
    return run_program


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the image is filled with."""
    root = tmp_path_factory.mktemp("tree")
    (root / "sub/deep").mkdir(parents=True)
    (root / "sub/data").write_bytes(bytes(range(256)) * 3000)
    (root / "sub/deep/text").write_bytes(b"deep\n")
    (root / "[bold]").write_bytes(b"markup\n")
    (root / "link").symlink_to("sub/data")
    (root / "long").symlink_to("x" * 200)
    with (root / "sparse").open("wb") as stream:
        stream.seek(3_000_000)
        stream.write(b"end")
        stream.truncate(5_000_000)
    Path(os.fsdecode(os.fsencode(root) + b"/" + EVIL)).write_bytes(b"evil\n")
    return root


@pytest.fixture(scope="session")
def image(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ext4 image of 24 MiB with that tree."""
    path = tmp_path_factory.mktemp("image") / "e.img"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", "case", "-d", str(tree), str(path), "24M"]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
def copy(image: Path, tmp_path: Path) -> Path:
    """A copy of the image that a test may damage."""
    path = tmp_path / "copy.img"
    path.write_bytes(image.read_bytes())
    return path


@pytest.fixture
def untouched(image: Path) -> object:
    """Fails when the test changed the shared image."""

    def digest() -> str:
        return hashlib.sha256(image.read_bytes()).hexdigest()

    before = digest()
    yield before
    assert digest() == before


@pytest.fixture(scope="session")
def deleted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample from which a whole tree was removed."""
    return unpack("rm_rf_tree", tmp_path_factory.mktemp("deleted")).image
