"""`--tz`: the zone of times that are shown and typed; what programs read stays in UTC."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run

BERLIN = ("--tz", "Europe/Berlin")
MADE = 1_772_388_000  # 2026-03-01 18:00 in UTC
SUMMER = 1_782_900_000  # 2026-07-01 10:00 in UTC
TREE = ("sub/winter", "sub/summer")
MakeImage = Callable[..., Path]


@pytest.fixture
def with_etc(tmp_path: Path) -> MakeImage:
    """Makes an image with files below /etc, a str for the target of a symlink."""

    def make(files: dict[str, str | bytes]) -> Path:
        root = tmp_path / "root"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                path.symlink_to(content)
            else:
                path.write_bytes(content)
        for name, seconds in zip(TREE, (MADE, SUMMER), strict=True):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"content\n")
            os.utime(path, (seconds, seconds))
        image = tmp_path / "system.img"
        command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(root), str(image), "8M"]
        subprocess.run(command, check=True, capture_output=True)
        return image

    return make


def listed(run: Run, image: Path, *options: str) -> list[str]:
    """The lines of `ls -l`."""
    done = run("ls", image, "-l", "/sub", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def clocks(lines: list[str]) -> list[str]:
    return [found[0] for line in lines if (found := re.search(r"\d\d:\d\d:\d\d\S*", line))]


IN_BERLIN = ["12:00:00+02:00", "19:00:00+01:00"]  # of summer, winter
IN_TOKYO = ["19:00:00+09:00", "03:00:00+09:00"]


def zone_file(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def time_zone(changes: list[tuple[int, int]], offsets: list[int], rule: bytes) -> bytes:
    """A time zone file with (time, number of its offset) of each change."""
    kinds = b"".join(struct.pack(">lbb", offset, 0, 0) for offset in offsets)
    old = b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
    new = b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, len(changes), len(offsets), 4)
    new += b"".join(struct.pack(">q", when) for when, _ in changes)
    return old + new + bytes(number for _, number in changes) + kinds + b"ABC\0\n" + rule + b"\n"


ON_SOME_DAYS = time_zone([(MADE - 40_000, 1), (MADE + 40_000, 0)], [0, 10**9], b"UTC0")
OF_FOOTER = time_zone([], [0], b"AAA0BBB-24:30,J60,J61")


@pytest.mark.parametrize(
    ("files", "where", "expected"),
    [
        ({"etc/localtime": "/usr/share/zoneinfo/Europe/Berlin"}, "localtime", IN_BERLIN),
        ({"etc/localtime": "../usr/share/zoneinfo/Europe/Berlin"}, "localtime", IN_BERLIN),
        ({"etc/localtime": "../usr/share/zoneinfo/posix/Asia/Tokyo"}, "localtime", IN_TOKYO),
        ({"etc/timezone": b"Asia/Tokyo\n"}, "timezone", IN_TOKYO),
        ({"etc/localtime": b"damaged", "etc/timezone": b"Asia/Tokyo\n"}, "timezone", IN_TOKYO),
        ({"etc/localtime": "/etc/localtime", "etc/timezone": b"Asia/Tokyo"}, "timezone", IN_TOKYO),
    ],
)
def test_the_image_names_its_zone(
    run: Run, with_etc: MakeImage, files: dict[str, str | bytes], where: str, expected: list[str]
) -> None:
    first, *rest = listed(run, with_etc(files), "--tz", "image")
    name = "Europe/Berlin" if expected is IN_BERLIN else "Asia/Tokyo"
    assert first == f"times in {name} (/etc/{where} of the image)"
    assert clocks(rest) == expected


def test_the_image_has_a_copy_of_its_zone(run: Run, with_etc: MakeImage) -> None:
    first, *rest = listed(
        run, with_etc({"etc/localtime": zone_file("Europe/Berlin")}), "--tz", "image"
    )
    assert first == "times in a zone without a name (/etc/localtime of the image)"
    assert clocks(rest) == IN_BERLIN


def test_the_file_that_the_image_has_comes_before_the_rules_of_today(
    run: Run, with_etc: MakeImage
) -> None:
    """The clock of the image showed what its own file said."""
    files: dict[str, str | bytes] = {
        "etc/localtime": "../usr/share/zoneinfo/Europe/Berlin",
        "usr/share/zoneinfo/Europe/Berlin": zone_file("Asia/Tokyo"),
    }
    lines = listed(run, with_etc(files), "--tz", "image")
    assert clocks(lines) == IN_TOKYO


def test_a_zone_of_this_computer_is_none_of_the_image(
    run: Run, with_etc: MakeImage, tmp_path: Path
) -> None:
    """Debian has a name in its database that stands for the zone of the computer itself."""
    names = tmp_path / "names"
    names.mkdir()
    for name in ("localtime", "Tokyo"):
        (names / name).write_bytes(zone_file("Asia/Tokyo"))
    env = os.environ | {"PYTHONTZPATH": str(names)}

    def code(image: Path, zone: str) -> int:
        words = [sys.executable, "-m", "ext4kit", "ls", str(image), "--tz", zone]
        return subprocess.run(words, cwd=ROOT, env=env, capture_output=True).returncode

    for target in ("/usr/share/zoneinfo/localtime", "Tokyo"):
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
        assert code(with_etc({"etc/localtime": target}), "image") == 2
    image = tmp_path / "system.img"
    assert [code(image, zone) for zone in ("Tokyo", "localtime", "right/Tokyo")] == [0, 2, 2]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "has no /etc/localtime and no /etc/timezone"),
        ({"@rootfs/etc/localtime": "/usr/share/zoneinfo/Europe/Berlin"}, "has no /etc/localtime"),
        ({"etc/localtime": b"MZ" * 50}, "/etc/localtime of the image is of no use"),
        ({"etc/localtime": bytes(2 << 20)}, "/etc/localtime of the image is of no use"),
        ({"etc/timezone": b"A" * 100_000}, "/etc/timezone of the image is of no use"),
        ({"etc/timezone": b"local\n"}, "'local' is no time zone"),
        ({"etc/localtime": "/usr/share/zoneinfo/localtime"}, "localtime, which is not there"),
        ({"etc/localtime": "localtime2"}, "it leads to /etc/localtime2, which is not there"),
        ({"etc/localtime": "../../../Asia/Tokyo"}, "it leads to /Asia/Tokyo, which is not there"),
        ({"etc/localtime": "/" + "x" * 500}, "which is not there"),
        ({"etc/localtime": "localtime"}, "its links lead to no file"),
        ({"etc/localtime/below": b""}, "/etc/localtime of the image is of no use: it is no file"),
        ({"etc/timezone/below": b""}, "/etc/timezone of the image is of no use: it is no file"),
        ({"etc/timezone": b"localtime\n"}, "'localtime' is no time zone"),
        ({"etc/timezone": b"posix/localtime\n"}, "'posix/localtime' is no time zone"),
        ({"etc/localtime": ON_SOME_DAYS}, "an offset is no time of day"),
        ({"etc/localtime": OF_FOOTER}, "an offset is no time of day"),
        ({"etc/timezone": b"Nowhere/\x1b[31m"}, "/etc/timezone of the image is of no use"),
        (
            {"etc/localtime": b"TZif2" + bytes(15) + struct.pack(">6I", *[1 << 31] * 6)},
            "/etc/localtime of the image is of no use",
        ),
    ],
)
def test_an_image_without_a_zone_says_what_to_type(
    run: Run, with_etc: MakeImage, files: dict[str, str | bytes], reason: str
) -> None:
    done = run("ls", with_etc(files), "-l", "--tz", "image")
    assert done.returncode == 2
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert reason in line
    assert "--tz Europe/Berlin" in line
    assert "\x1b" not in line
    assert len(line) < 400


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("Europe/Berln", "near: Europe/Berlin"),
        ("berlin", "near: Europe/Berlin"),
        ("europe/berlin", "near: Europe/Berlin"),
        ("+25:00", "offsets such as +02:00"),
        ("../../../etc/passwd", "is no time zone"),
        ("localtime", "is no time zone"),
        ("LocalTime", "is no time zone"),
        ("posixrules", "is no time zone"),
        ("Factory", "is no time zone"),
        ("posix/Europe/Berlin", "is no time zone"),
        ("right/Europe/Berlin", "is no time zone"),
    ],
)
def test_an_unknown_zone_is_one_line_with_near_names(
    run: Run, image: Path, given: str, near: str
) -> None:
    done = run("ls", image, "--tz", given)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert near in line


@pytest.mark.parametrize(
    ("variable", "name", "expected"),
    [
        ("Asia/Tokyo", "Asia/Tokyo", IN_TOKYO),
        (":Asia/Tokyo", "Asia/Tokyo", IN_TOKYO),
        ("XXX-9", "XXX-9", IN_TOKYO),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1CEST,M3.5.0,M10.5.0/3", IN_BERLIN),
    ],
)
def test_local_is_the_zone_of_this_computer(
    run: Run, with_etc: MakeImage, variable: str, name: str, expected: list[str]
) -> None:
    done = run("ls", with_etc({}), "-l", "/sub", "--tz", "local", env=os.environ | {"TZ": variable})
    first, *rest = done.stdout.decode().splitlines()
    assert first == f"times in {name}"
    assert clocks(rest) == expected


def test_the_environment_alone_changes_nothing(run: Run, image: Path) -> None:
    command = ("ls", image, "-lr")
    shown = {run(*command, env=os.environ | {"TZ": zone}).stdout for zone in ("UTC", "Asia/Tokyo")}
    assert shown == {run(*command, "--tz", "UTC").stdout}


COMMANDS = (
    ("ls", "-lr"),
    ("ls", "-lr", "--view", "deleted"),
    ("stat", "/"),
    ("info",),
    ("volumes", "--scan"),
    ("deleted",),
    ("recover", "--dry-run"),
    ("timeline",),
    ("timeline", "--bursts"),
    ("journal list",),
    ("journal replay",),
    ("journal history", "/keep"),
    ("versions", "/project/tunnel/ledger-0034.db"),
    ("explain", "/project/tunnel/ledger-0034.db"),
    ("report",),
)


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_records_stay_in_utc_and_tables_name_their_zone(
    run: Run, deleted: Path, command: tuple[str, ...]
) -> None:
    name, *rest = command
    words = (*name.split(), deleted, *rest)
    made = re.compile(rb'"(made_ns|made_iso|command)": ("[^"]*"|\d+)')
    plain, zoned = (made.sub(b"", run(*words, "--json", *more).stdout) for more in ((), BERLIN))
    assert zoned == plain
    text = run(*words, *BERLIN).stdout.decode()
    assert text.count("times in Europe/Berlin") == 1
    assert not re.search(r"\d\d:\d\d:\d\d(\.\d+)?Z", text)


def test_typed_times_are_read_in_the_zone(run: Run, with_etc: MakeImage) -> None:
    image = with_etc({"etc/localtime": "/usr/share/zoneinfo/Europe/Berlin"})
    for zone, hour, count in (("UTC", 18, 1), ("Europe/Berlin", 19, 1), ("image", 19, 1),
                              ("Europe/Berlin", 18, 0), ("+09:00", 18, 0)):  # fmt: skip
        done = run("export", image, "--jsonl", "-", "--tz", zone, "--without", "deleted",
                   "--modified-since", f"2026-03-01 {hour}:00",
                   "--modified-until", f"2026-03-01 {hour}:00")  # fmt: skip
        assert done.stdout.count(b'"path": "/sub/winter"') == count, (zone, hour, done.stderr)


@pytest.mark.parametrize("hour", ["2026-03-29 02:30", "2026-10-25T02:30"])
def test_an_hour_that_is_not_one_is_refused(run: Run, deleted: Path, hour: str) -> None:
    done = run("deleted", deleted, "--deleted-since", hour, *BERLIN)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    day = hour[:10]
    assert f"type {day}T00:30:00Z or {day}T01:30:00Z" in line
    assert run("deleted", deleted, "--deleted-since", f"{hour}+01:00", *BERLIN).returncode == 0


def test_a_state_is_named_by_a_time_of_the_zone(run: Run, deleted: Path) -> None:
    words = ("ls", deleted, "-r", "--as-of")
    done = run(*words, "2026-11-21 04:20:48.55", *BERLIN)
    assert done.stdout == run(*words, "2026-11-21 03:20:48.55").stdout
    assert b"committed 2026-11-21T04:20:48" in done.stderr
    assert b"+01:00" in done.stderr


def test_a_recovery_tells_people_the_zone_and_programs_utc(
    run: Run, deleted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run("recover", deleted, "-o", out, *BERLIN).returncode == 0
    readme, page = ((out / name).read_text() for name in ("README.txt", "report.html"))
    assert "in Europe/Berlin" in readme
    assert "all times in Europe/Berlin" in page
    assert "all times in UTC" not in page
    assert not re.search(r"\d\d:\d\d:\d\dZ", readme + page)
    for name in ("manifest.jsonl", "case.json"):
        text = (out / name).read_text()
        assert re.search(r"\d\d:\d\d:\d\d(\.\d+)?Z", text)
        assert not re.search(r"\d\d:\d\d:\d\d(\.\d+)?\+\d\d", text)


def test_the_page_of_a_report_names_the_zone(run: Run, deleted: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("report", deleted, "--html", page, *BERLIN).returncode == 0
    text = page.read_text()
    assert "all times in Europe/Berlin" in text
    assert not re.search(r"\d\d:\d\d:\d\dZ", text)


@pytest.mark.parametrize("form", ["csv", "jsonl", "bodyfile", "timesketch-csv", "timesketch-jsonl"])
def test_exported_files_stay_in_utc(run: Run, deleted: Path, form: str) -> None:
    plain, zoned = (run("export", deleted, f"--{form}", "-", *zone).stdout for zone in ((), BERLIN))
    assert plain == zoned != b""


def test_a_database_stays_in_utc(run: Run, deleted: Path, tmp_path: Path) -> None:
    tables = []
    for name, zone in (("a.db", ()), ("b.db", BERLIN)):
        assert run("export", deleted, "--db", tmp_path / name, *zone).returncode == 0
        with sqlite3.connect(tmp_path / name) as base:
            lines = [line for line in base.iterdump() if line.startswith("INSERT INTO")]
        tables.append([line for line in lines if '"meta"' not in line])
    assert tables[0] == tables[1]


def test_a_listing_of_volumes_has_no_zone_of_its_own(run: Run, image: Path) -> None:
    done = run("volumes", image, "--tz", "image")
    assert done.returncode == 2
    assert b"--tz Europe/Berlin" in done.stderr


def test_each_volume_has_the_zone_of_its_own(run: Run, with_etc: MakeImage, tmp_path: Path) -> None:
    first = with_etc({"etc/localtime": "/usr/share/zoneinfo/Europe/Berlin"})
    second = tmp_path / "second.img"
    shutil.copy(first, second)
    subprocess.run(["debugfs", "-w", "-R", "rm /etc/localtime", second], capture_output=True)
    subprocess.run(["debugfs", "-w", "-R", "symlink /etc/localtime /usr/share/zoneinfo/Asia/Tokyo",
                    second], capture_output=True)  # fmt: skip
    done = run("timeline", first, "--image", second, "--tz", "image", "-q")
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("times in")]
    assert [line.split()[2] for line in lines] == ["Europe/Berlin", "Asia/Tokyo"]


@pytest.mark.kernel
@pytest.mark.skipif(not Path("/usr/share/zoneinfo").is_dir(), reason="needs tzdata")
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
def test_a_listing_is_that_of_ls_on_a_mounted_image(
    run: Run, with_etc: MakeImage, tmp_path: Path, zone: str
) -> None:
    image, folder = with_etc({}), tmp_path / "mounted"
    folder.mkdir()
    subprocess.run(["mount", "-o", "loop,ro", image, folder], check=True)
    try:
        command = ["ls", "-l", "--time-style=+%Y-%m-%d %H:%M:%S%:z", str(folder / "sub")]
        env = {"TZ": zone, "LC_ALL": "C", "PATH": os.environ["PATH"]}
        expected = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    finally:
        subprocess.run(["umount", folder], check=True)
    found = [line.split()[5:7] for line in listed(run, image, "--tz", zone)[1:]]
    assert found == [line.split()[5:7] for line in expected.stdout.splitlines()[1:]]
