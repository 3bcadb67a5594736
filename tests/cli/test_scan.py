"""`volumes --scan`: file systems are found, and can be read, where no partition table tells."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.schemas.outputs import complaint

MIB = 1 << 20
PLACES = (1 * MIB, 33 * MIB, 65 * MIB)
LINUX = bytes.fromhex("af3dc60f838472478e793d69d8477de4")


@pytest.fixture(scope="module")
def content(image: Path) -> bytes:
    """The bytes of a file system of 24 MiB."""
    return image.read_bytes()


def mbr(size: int) -> bytes:
    """A first sector with three partitions of so many bytes."""
    rows = [struct.pack("<B3sB3sII", 0, b"", 0x83, b"", at // 512, size // 512) for at in PLACES]
    return bytes(446) + b"".join(rows).ljust(64, b"\0") + b"\x55\xaa"


def gpt(size: int, sectors: int) -> bytes:
    """The first 34 sectors of a disk with three such partitions."""
    rows = [
        struct.pack("<16s16sQQQ72s", LINUX, bytes([number] * 16), at // 512,
                    (at + size) // 512 - 1, 0, b"")
        for number, at in enumerate(PLACES, 1)
    ]  # fmt: skip
    table = b"".join(rows).ljust(128 * 128, b"\0")
    head = [b"EFI PART", 0x10000, 92, 0, 0, 1, sectors - 1, 34, sectors - 34, b"\7" * 16, 2, 128,
            128, zlib.crc32(table)]  # fmt: skip
    form = "<8sIIIIQQQQ16sQIII"
    head[3] = zlib.crc32(struct.pack(form, *head))
    whole = struct.pack("<B3sB3sII", 0, b"", 0xEE, b"", 1, sectors - 1)
    guard = bytes(446) + whole.ljust(64, b"\0") + b"\x55\xaa"
    return guard + struct.pack(form, *head).ljust(512, b"\0") + table


TABLES = ("mbr", "gpt", "damaged mbr", "guard of a gpt")


@pytest.fixture
def disk(request: pytest.FixtureRequest, run: Run, content: bytes, tmp_path: Path) -> Path:
    """Three file systems whose partition table was whole, and is not any more."""
    kind = getattr(request, "param", TABLES[0])
    path, sectors = tmp_path / "disk.img", 96 * MIB // 512
    with path.open("xb") as file:
        file.truncate(sectors * 512)
        for place in PLACES:
            file.seek(place)
            file.write(content)
    table = gpt(len(content), sectors) if "gpt" in kind else mbr(len(content))
    put(path, 0, table)
    volumes = told(run, "volumes", path)
    assert [each["offset"] for each in volumes] == list(PLACES)
    if kind == "damaged mbr":  # the partitions begin and end elsewhere
        put(path, 446, b"\xa5" * 64)
    elif kind == "guard of a gpt":
        put(path, 512, bytes(len(table) - 512))
    else:
        put(path, 0, bytes(len(table)))
    return path


def put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def told(run: Run, *arguments: str | Path) -> list[dict[str, Any]]:
    """The records that a command prints."""
    done = run(*arguments, "--json")
    assert done.returncode in (0, 1), done.stderr  # a damaged table is an error
    return [json.loads(line) for line in done.stdout.splitlines()]


def found(run: Run, disk: Path) -> list[dict[str, Any]]:
    kind = "found file system"
    records = [each for each in told(run, "volumes", disk, "--scan") if each["record"] == kind]
    assert [complaint(kind, each) for each in records] == [""] * len(records)
    return records


@pytest.mark.heavy
@pytest.mark.parametrize("disk", TABLES, indirect=True)
def test_all_are_found_and_can_be_read(run: Run, disk: Path) -> None:
    records = found(run, disk)
    assert [each["offset"] for each in records] == list(PLACES)
    assert {each["label"] for each in records} == {"case"}
    assert all(each["is_whole"] and each["relation"] is None for each in records)
    for each in records:
        listed = run("ls", disk, "--offset", str(each["offset"]), "/sub/deep")
        assert (listed.returncode, listed.stdout) == (0, b"text\n")


def test_the_table_names_offset_and_superblock(run: Run, disk: Path) -> None:
    put(disk, PLACES[1], bytes(8192))
    lines = run("volumes", disk, "--scan").stdout.decode().splitlines()
    rows = [line.split() for line in lines if "ext4" in line and "case" in line]
    assert [int(row[0]) for row in rows] == list(PLACES)
    assert "primary" in rows[0]
    (record,) = [each for each in found(run, disk) if each["superblock"] == "backup"]
    block = str(record["block"])
    assert rows[1][rows[1].index("block") + 1] == block
    options = ("--offset", str(PLACES[1]), "--superblock", block)
    assert run("ls", disk, *options, "/sub/deep").stdout == b"text\n"


@pytest.mark.parametrize("command", ["ls", "deleted", "report"])
def test_the_refusal_names_what_was_found(run: Run, disk: Path, command: str) -> None:
    done = run(command, disk)
    said = done.stderr.decode()
    assert done.returncode == 3
    assert "not ext2, ext3 or ext4" in said
    assert all(f"--offset {place}" in said for place in PLACES)
    assert "--scan" in said


def test_a_search_for_a_lost_file_system_names_them_too(
    run: Run, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(PLACES[0]) + content)
    done = run("ls", path, "--lost")
    assert done.returncode == 2
    assert f"--offset {PLACES[0]}" in done.stderr.decode()
    wrong = run("ls", path, "--offset", str(PLACES[0] - 512))
    assert wrong.returncode == 3
    assert f"--offset {PLACES[0]}" in wrong.stderr.decode()


def test_volumes_says_how_to_go_on(run: Run, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(PLACES[0]) + content)
    assert b"--scan" in run("volumes", path).stderr
    assert b"--scan" not in run("volumes", path, "-q").stderr


def test_an_image_without_any_superblock(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "zeros.img"
    path.write_bytes(bytes(4 * MIB))
    done = run("volumes", path, "--scan")
    assert done.returncode == 0
    assert b"no superblock" in done.stdout
    assert b"superblock" not in run("ls", path).stderr.replace(b"no superblock found", b"")
