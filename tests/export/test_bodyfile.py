"""mactime reads the bodyfile, and fls says the same of the same image."""

from __future__ import annotations

import csv
import io
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.environment import needs
from tests.export.conftest import HOSTILE, Exported
from tests.export.reading import as_fls_prints, body_lines, exact, fls_lines, raw_path


def mactime(path: Path) -> list[list[str]]:
    """What mactime makes of a bodyfile: date, size, type, mode, uid, gid, inode, name."""
    command = ["mactime", "-d", "-y", "-b", str(path)]
    found = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "TZ": "UTC"}
    ).stdout
    assert b"\x1b" not in found
    return list(csv.reader(io.StringIO(found.decode())))[1:]


@needs("mactime")
@pytest.mark.parametrize("name", ["hostile", "removed"])
def test_mactime_finds_every_time_of_every_file(name: str, request: pytest.FixtureRequest) -> None:
    exported: Exported = request.getfixturevalue(name)
    expected: Counter[tuple[str, str]] = Counter()
    for record in exported.records():
        times: dict[int, set[str]] = {}
        for letter, time in zip("macb", ("mtime", "atime", "ctime", "crtime"), strict=True):
            times.setdefault(record[time] // 10**9, set()).add(letter)
        for letters in times.values():
            marks = "".join(letter if letter in letters else "." for letter in "macb")
            expected[marks, str(record["inode"])] += 1
    rows = mactime(exported.folder / "bodyfile")
    assert Counter((row[2], row[6]) for row in rows) == expected
    assert len({row[7] for row in rows}) == len(exported.records())


@needs("mactime")
def test_mactime_gives_every_hostile_name_back_whole(hostile: Exported) -> None:
    names = {exact(row[7].split(" -> ")[0]) for row in mactime(hostile.folder / "bodyfile")
             if row[3].startswith("r/")}  # fmt: skip
    wanted = {b"/" + name for name in HOSTILE}
    cut = {b"/" + name.split(b" -> ")[0] for name in HOSTILE}
    assert names == cut and len(wanted) == len(cut)


@pytest.mark.parametrize("name", ["hostile", "removed"])
def test_fls_prints_the_same_of_live_files_but_for_what_it_leaves_out(
    name: str, request: pytest.FixtureRequest
) -> None:
    exported: Exported = request.getfixturevalue(name)
    lines = body_lines(exported.text("bodyfile"))
    live = [line for line in lines if not line[1].endswith(" (deleted)") or name == "hostile"]
    assert Counter(as_fls_prints(line, True) for line in live) == Counter(
        fls_lines(exported.image, "-u")
    )


def test_deleted_files_are_marked_and_none_else(removed: Exported) -> None:
    mark = " (deleted)"
    names = [line[1] for line in body_lines(removed.text("bodyfile"))]
    marked = [exact(name.removesuffix(mark)) for name in names if name.endswith(mark)]
    assert Counter(marked) == Counter(map(raw_path, removed.records("deleted")))
    assert len(marked) == removed.record["deleted"]


def test_times_with_fractions_have_all_nanoseconds(removed: Exported, ext4kit: Cli) -> None:
    done = ext4kit(
        "export", removed.image, "--bodyfile", "-", "--fractions", "--without", "deleted"
    )
    times = [line[7:11] for line in body_lines(done.stdout)]
    expected = [
        [f"{record[name] // 10**9}.{record[name] % 10**9:09d}"
         for name in ("atime", "mtime", "ctime", "crtime")]
        for record in removed.records("live")
    ]  # fmt: skip
    assert times == expected


def test_each_line_has_eleven_fields(hostile: Exported) -> None:
    assert {line.count("|") for line in hostile.text("bodyfile").splitlines()} == {10}
