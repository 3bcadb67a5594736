"""Folders of an output: a link in the place of one leads nowhere, and deep ones take no longer."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4kit.errors import OutputError
from ext4kit.filesystem.content import Chunk
from ext4kit.output import OutputDirectory, UnwritableError
from ext4kit.output.folders import Folders
from ext4kit.problems import Problems
from sample_images.recipes import machine
from tests.program import run_program

CHUNKS = [Chunk(0, 1, b"x")]


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("what", ["link", "folder"])
def test_a_folder_that_is_replaced_is_refused(tmp_path: Path, what: str, is_far: bool) -> None:
    """A user of this computer puts another one in its place while files are written."""
    output, elsewhere = OutputDirectory(tmp_path / "out"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    output.write((b"files", b"first"), CHUNKS)
    (tmp_path / "out/files").rename(tmp_path / "away")
    if what == "link":
        (tmp_path / "out/files").symlink_to(elsewhere)
    else:
        (tmp_path / "out/files").mkdir()
    for number in range(100 if is_far else 0):  # until it is no longer held open
        output.write((b"%d" % number, b"a"), CHUNKS)
    with pytest.raises(OutputError, match="files: was replaced during the run"):  # noqa: PT012
        output.write((b"files", b"second"), CHUNKS)
        output.report(Problems())
    assert not list(elsewhere.iterdir()) and not list((tmp_path / "out/files").iterdir())


def test_folders_of_any_number_are_found_again(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    paths = [f"{a}/{b}/{c}" for a in range(6) for b in range(6) for c in range(6)]
    for path in paths:
        for end in (1, 3):
            if not (tmp_path / path[:end]).exists():
                folders.make(path[:end])
        folders.make(path)
    for path in reversed(paths):
        os.close(folders.place(f"{path}/x").open(os.O_CREAT | os.O_EXCL))
    folders.check()
    assert {str(each.parent.relative_to(tmp_path)) for each in tmp_path.rglob("x")} == set(paths)


def test_deep_folders_take_no_longer_than_others(tmp_path: Path) -> None:
    """8,259 of them in each other, of which only the first have paths that programs can open."""
    output, parts = OutputDirectory(tmp_path / "out"), [b"files"]
    started, refused = time.process_time(), 0
    for _ in range(8259):
        parts.append(b"d")
        try:
            output.make_folder(parts)
        except UnwritableError:
            refused += 1
    took = time.process_time() - started
    depth = (4095 - len(f"{tmp_path}/out/files")) // 2
    assert 8259 - refused == depth
    assert took < 8
    output.report(Problems())
    subprocess.run(["rm", "-r", str(tmp_path / "out")], check=True)  # Python's own is recursive


@contextmanager
def mounted(image: Path, where: Path) -> Iterator[Path]:
    where.mkdir()
    machine.run("mount", "-o", "loop", image, where)
    try:
        yield where
    finally:
        machine.unmount(where)


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """An image with a compressed archive, and another name of it."""
    tree, image = tmp_path / "tree", tmp_path / "a.img"
    tree.mkdir()
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as inner:
        inner.writestr("b", "needle")
    (tree / "inner.zip.gz").write_bytes(gzip.compress((tmp_path / "inner.zip").read_bytes()))
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), str(image), "16M"]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "b.img").hardlink_to(image)
    return image, tmp_path / "b.img"


@pytest.mark.kernel
def test_an_image_mounted_by_another_name_is_the_evidence(
    linked: tuple[Path, Path], tmp_path: Path
) -> None:
    image, other = linked
    with mounted(other, tmp_path / "mount") as where:
        done = run_program("extract", image, "/", "-o", where / "out")
        assert (done.returncode, b"on the evidence itself" in done.stderr) == (2, True)
        assert not (where / "out").exists()
        assert b"is mounted read-write" in run_program("info", image).stderr


@pytest.mark.kernel
def test_temporary_files_are_not_written_to_the_evidence(
    linked: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, other = linked
    words = [str(image), "--text", "needle", "--inside", "--in", "live", "--json"]
    command = [sys.executable, "-m", "ext4kit", "search", *words]
    assert b"needle" in subprocess.run(command, capture_output=True, check=True).stdout
    with mounted(other, tmp_path / "mount") as where:
        monkeypatch.setenv("TMPDIR", str(where))
        done = subprocess.run(command, capture_output=True)
        assert b"set TMPDIR to another folder" in done.stdout + done.stderr
