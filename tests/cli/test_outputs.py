"""An output that cannot be written ends a command before it reads any evidence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4kit.cli.main import run
from tests.environment import is_root

_OPENED: list[str] | None = None  # paths that were opened, while they are counted
WORK = {
    "extract": ("/", "-o"),
    "recover": ("-o",),
    "report": ("--html",),
    "export": ("--bodyfile",),
    "export --db": ("--csv", "OTHER", "--db"),
    "journal replay": ("-o",),
    "journal history": ("<2>", "--transaction", "2", "--raw"),
}
FOLDERS = ("extract", "recover")


def _hear(event: str, arguments: Sequence[object]) -> None:
    if event == "open" and _OPENED is not None and isinstance(arguments[0], str | bytes):
        _OPENED.append(os.fsdecode(arguments[0]))


sys.addaudithook(_hear)


@contextmanager
def opened_paths() -> Iterator[list[str]]:
    """The paths that Python opens within."""
    global _OPENED  # noqa: PLW0603 -- an audit hook cannot be removed
    found: list[str] = []
    _OPENED = found
    try:
        yield found
    finally:
        _OPENED = None


def told(work: str, image: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """(exit code, the message), of a command that must not have opened its image."""
    words = [str(out.with_name("other.csv")) if word == "OTHER" else word for word in WORK[work]]
    capsys.readouterr()
    with opened_paths() as found:
        code = run([*work.removesuffix(" --db").split(), str(image), *words, str(out)])
    assert str(image) not in found
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return code, said


def test_the_opening_of_the_image_is_heard(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened_paths() as found:
        assert run(["recover", str(image), "-o", str(tmp_path / "new" / "out")]) == 0
    assert str(image) in found
    assert (tmp_path / "new/out/manifest.jsonl").is_file()


@pytest.mark.parametrize("work", WORK)
def test_what_is_there_already_ends_a_command(
    work: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "there"
    file.write_text("mine")
    code, said = told(work, image, file, capsys)
    assert code == 2 and ("not a folder" if work in FOLDERS else "already exists") in said
    code, said = told(work, image, tmp_path, capsys)
    assert code == 2 and ("not empty" if work in FOLDERS else "already exists") in said
    code, said = told(work, image, file / "below", capsys)
    assert code == 2 and "is not a folder" in said
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("work", [each for each in WORK if each not in FOLDERS])
def test_a_file_in_a_folder_that_is_not_there_ends_a_command(
    work: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = told(work, image, tmp_path / "none" / "file", capsys)
    assert code == 1 and "No such file" in said


@pytest.mark.skipif(is_root(), reason="root may write everywhere")
@pytest.mark.parametrize("work", WORK)
def test_a_folder_without_permission_ends_a_command(
    work: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    code, said = told(work, image, tmp_path / "new", capsys)
    assert code == 1 and "cannot be written" in said


@pytest.mark.kernel
@pytest.mark.parametrize("work", WORK)
def test_a_folder_that_is_read_only_ends_a_command(
    work: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file system that is mounted read-only lets not even root write."""
    with read_only(tmp_path) as folder:
        code, said = told(work, image, folder / "new", capsys)
    assert code == 1 and "cannot be written" in said


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A folder of a file system that is mounted read-only."""
    place = folder / "read-only"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)
