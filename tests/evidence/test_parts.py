"""Parts of an image are regular files in its folder: nothing else is opened, whatever its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.cli.main import run
from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from tests.evidence.containers.test_ex01 import SAMPLE as EX01

SECRET = b"the analyst's own file" * 100
Placing = Callable[[Path, Path], object]

PLACINGS: dict[str, Placing] = {
    "a link out of this folder": lambda part, secret: part.symlink_to(secret),
    "a link that leads nowhere": lambda part, _secret: part.symlink_to(part.name),
    "a pipe": lambda part, _secret: os.mkfifo(part),
    "a directory": lambda part, _secret: part.mkdir(),
}
# what the first part holds, and the name of the second
SERIES = {
    "disk.001": (b"first part" * 600, "disk.002"),
    "disk.aa": (b"first part" * 600, "disk.ab"),
    "disk.E01": (b"EVF\x09\x0d\x0a\xff\x00\x01\x01\x00\x00\x00", "disk.E02"),
    "disk.s01": (b"EVF\x09\x0d\x0a\xff\x00\x01\x01\x00\x00\x00", "disk.s02"),
    "disk.Ex01": (EX01.read_bytes(), "disk.Ex02"),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside the folder of the evidence."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("first", SERIES)
@pytest.mark.parametrize("what", PLACINGS)
def test_a_part_that_is_no_file_of_the_folder_is_refused(
    tmp_path: Path, secret: Path, first: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "evidence"
    folder.mkdir()
    data, second = SERIES[first]
    (folder / first).write_bytes(data)
    PLACINGS[what](folder / second, secret)
    assert run(["volumes", str(folder / first)]) == 3
    said = capsys.readouterr().err
    assert said == (
        f"ext4kit: {folder / second}: by its name a part of {first}, but it is {what}; put the "
        "part itself there, or remove this one\n"
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize("first", ["disk.001", "disk.aa", "disk.E01"])
def test_a_device_is_no_part(tmp_path: Path, first: str) -> None:
    data, second = SERIES[first]
    (tmp_path / first).write_bytes(data)
    (tmp_path / second).symlink_to("/dev/zero")
    with pytest.raises(AccessError, match="a link out of this folder"):
        open_evidence(tmp_path / first)
    (tmp_path / second).unlink()
    try:
        os.mknod(tmp_path / second, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("needs root")
    with pytest.raises(AccessError, match="a device"):
        open_evidence(tmp_path / first)


def test_a_link_that_stays_in_the_folder_is_a_part(tmp_path: Path) -> None:
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces" / "second").write_bytes(b"2" * 4096)
    (tmp_path / "disk.001").write_bytes(b"1" * 4096)
    (tmp_path / "disk.002").symlink_to(tmp_path / "pieces" / "second")
    with open_evidence(tmp_path / "disk.001") as evidence:
        assert evidence.source.read(4000, 200) == b"1" * 96 + b"2" * 104


def test_of_links_to_an_image_elsewhere_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "links").mkdir()
    for name in ("disk.001", "disk.002"):
        (tmp_path / "disk" / name).write_bytes(b"1" * 4096)
        (tmp_path / "links" / name).symlink_to(tmp_path / "disk" / name)
    there = tmp_path / "disk" / "disk.001"
    with pytest.raises(AccessError, match=f"open the image at its own path, {there}$"):
        open_evidence(tmp_path / "links" / "disk.001")
    with open_evidence(there) as evidence:
        assert evidence.source.size == 8192


def test_a_file_alone_may_be_a_link_to_anywhere(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "disk.001").symlink_to(secret)
    with open_evidence(tmp_path / "evidence" / "disk.001") as evidence:
        assert evidence.source.size == len(SECRET)


def test_segments_of_an_ex01_are_found_in_its_folder(tmp_path: Path) -> None:
    shutil.copy(EX01, tmp_path / "disk.Ex01")
    with open_evidence(tmp_path / "disk.Ex01") as evidence:
        assert evidence.files == (tmp_path / "disk.Ex01",)
