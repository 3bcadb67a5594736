"""The hashes of ranges of a disk, held against dcfldd's and hashlib's."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from pathlib import Path

import pytest

from tests.environment import needs
from tests.evidence.failing_disk import failing_disk, missing
from tests.program import run_program

SIZE = 3_000_000  # no multiple of what is read at once


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with data, holes and an odd length."""
    path, noise = tmp_path_factory.mktemp("windows") / "disk.img", random.Random(3)
    with path.open("xb") as file:
        for offset in (0, 7 << 20, 11 << 20, 20 << 20):
            file.seek(offset)
            file.write(noise.randbytes(2_345_678))
        file.truncate((23 << 20) + 777)
    return path


def lines_of(disk: Path, *options: str, code: int = 0) -> bytes:
    """What `hash --window` prints."""
    done = run_program("hash", disk, "--window", str(SIZE), "-q", *options)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout


@needs("dcfldd")
@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_the_lines_are_those_of_dcfldd(disk: Path, tmp_path: Path, algorithm: str) -> None:
    log = tmp_path / "log"
    words = ["dcfldd", f"if={disk}", "of=/dev/null", f"hash={algorithm}", f"hashwindow={SIZE}"]
    subprocess.run([*words, f"hashlog={log}"], check=True, capture_output=True)
    told = [line for line in log.read_bytes().splitlines(True) if b" - " in line]
    assert len(told) == 9
    assert lines_of(disk, "--hash", algorithm) == b"".join(told)


@pytest.mark.parametrize("parts", [1, 2, 4, 30])
def test_the_lines_of_parts_are_joined_by_cat(disk: Path, parts: int) -> None:
    whole = run_program("hash", disk, "--window", str(SIZE))
    joined = b"".join(lines_of(disk, "--part", f"{part}/{parts}") for part in range(1, parts + 1))
    assert joined == whole.stdout
    assert hashlib.sha256(joined).hexdigest().encode() in whole.stderr


def test_records_have_the_same(disk: Path) -> None:
    records = list(map(json.loads, lines_of(disk, "--json", "--part", "2/3").splitlines()))
    content = disk.read_bytes()
    assert [each["offset"] for each in records] == [SIZE * number for number in (3, 4, 5)]
    for each in records:
        data = content[each["offset"] :][: each["length"]]
        assert each["digest"] == hashlib.sha256(data).hexdigest()
        assert (each["length"], each["algorithm"], each["unreadable"]) == (SIZE, "sha256", [])


def test_what_cannot_be_read_is_zeros_and_told(disk: Path, tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    bad = (1 << 20, (1 << 20) + 8192)
    with failing_disk(disk, tmp_path / "failing", [bad]) as failing:
        done = run_program("hash", failing, "--window", str(SIZE))
    content = bytearray(disk.read_bytes())
    content[slice(*bad)] = bytes(bad[1] - bad[0])
    expected = hashlib.sha256(content[:SIZE]).hexdigest()
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].decode() == f"0 - {SIZE}: {expected}"
    assert b"image, bytes 1,048,576 to 1,056,767: hashed as zeros" in done.stderr
    assert done.stdout.splitlines()[1:] == lines_of(disk).splitlines()[1:]


@pytest.mark.parametrize(
    "options",
    [("--files",), ("--verify",), ("--image-only",), ("--part", "3/2"), ("--part", "0/2"),
     ("--part", "x")],
)  # fmt: skip
def test_what_does_not_fit_is_refused(disk: Path, options: tuple[str, ...]) -> None:
    assert run_program("hash", disk, "--window", "1M", *options).returncode == 2
    assert run_program("hash", disk, "--window", "0").returncode == 2
