"""Fetching e2fsprogs' cases: what becomes of a tarball, and of trouble on the way to one."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import multiprocessing
import random
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests import cases
from tests.cases import __main__, fetching, images, source, tools
from tests.parsers.reference import needs_tools, run

CONTENT = random.Random(8).randbytes(1024)
BLOCK = 3000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cases belong, still empty."""
    folder = tmp_path / "home"
    monkeypatch.setenv(cases.HOME, str(folder))
    return folder


def image_of(folder: Path, name: str, *requests: str) -> bytes:
    """A small file system, changed by debugfs."""
    path = folder / f"{name}.img"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", path, "8M")
    for request in requests:
        run("debugfs", "-w", "-R", request, path)
    return path.read_bytes()


@pytest.fixture
def tarball(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound image, a broken one, one that waits for its journal, and one that nobody knows."""
    needs_tools("mke2fs", "debugfs", "e2fsck", "dumpe2fs", "zstd")
    content, script = tmp_path / "content", tmp_path / "script"
    content.write_bytes(CONTENT)
    script.write_text(f"jo\njw -b {BLOCK} {content}\njc\n")
    made = {name: image_of(tmp_path, name) for name in ("f_sound", "f_strange", "j_due")}
    made["f_broken"] = image_of(tmp_path, "f_broken", "setb 5000")
    run("debugfs", "-w", "-f", script, tmp_path / "j_due.img")
    made["j_due"] = (tmp_path / "j_due.img").read_bytes()
    known = [f"{hashlib.sha256(made[name]).hexdigest()}  {name}.img\n" for name in made]
    (tmp_path / "known").write_text("".join(line for line in known if "strange" not in line))
    monkeypatch.setattr(images, "KNOWN", tmp_path / "known")
    packed = tmp_path / "e2fsprogs_1.0.orig.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for name, data in made.items():
            add(archive, f"e2fsprogs-1.0/tests/{name}/image.gz", gzip.compress(data))
        add(archive, "e2fsprogs-1.0/tests/f_sound/expect.1", b"text")
    return packed


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def index_of(home: Path) -> dict[str, dict[str, Any]]:
    lines = (home / cases.INDEX).read_text().splitlines()
    return {record["name"]: record for record in map(json.loads, lines)}


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """These shell scripts, by name with `_` for `-`, stand in front of the programs there are."""
    folder.mkdir()
    for name, text in scripts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setattr(tools, "PATH", f"{folder}:{tools.PATH}")


# -- from a tarball ---------------------------------------------------------------------------


def test_records_hold_what_e2fsprogs_says(
    home: Path, tarball: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetching.fetch(tarball)
    found = index_of(home)
    exits = {name: record["e2fsck_fn_exit"] for name, record in found.items()}
    assert exits == {"f_broken": 4, "f_sound": 0, "j_due": 0}
    assert found["j_due"]["replay"]["blocks"] == {str(BLOCK): hashlib.sha256(CONTENT).hexdigest()}
    assert "replay" not in found["f_sound"]
    assert "left out, their content is not known: f_strange.img" in capsys.readouterr().out


def test_a_masked_hash_is_that_of_the_image_with_the_block_replaced(
    home: Path, tarball: Path, tmp_path: Path
) -> None:
    fetching.fetch(tarball)
    replay = index_of(home)["j_due"]["replay"]
    expected = bytearray((tmp_path / "j_due.img").read_bytes())
    expected[BLOCK * 1024 : (BLOCK + 1) * 1024] = CONTENT
    for start, end in replay["masked_ranges"]:
        expected[start:end] = bytes(end - start)
    assert replay["masked_sha256"] == hashlib.sha256(expected).hexdigest()
    assert len(replay["masked_ranges"]) == 2


def test_images_come_out_of_the_archive_as_they_were(
    home: Path, tarball: Path, tmp_path: Path
) -> None:
    fetching.fetch(tarball)
    out = tmp_path / "out"
    out.mkdir()
    cases.unpack(out, ["images/f_broken.img"])
    assert (out / "images/f_broken.img").read_bytes() == (tmp_path / "f_broken.img").read_bytes()


@pytest.mark.heavy
def test_a_reference_that_does_not_end_is_a_timeout(
    home: Path, tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("e2fsck", path=tools.PATH)
    hangs = f'case "$*" in *f_sound*) exec sleep 60;; *) exec {real} "$@";; esac'
    programs(tmp_path / "bin", monkeypatch, e2fsck=hangs)
    monkeypatch.setattr(tools, "LIMIT", 5.0)
    fetching.fetch(tarball)
    exits = {name: record["e2fsck_fn_exit"] for name, record in index_of(home).items()}
    assert exits == {"f_broken": 4, "f_sound": "timeout", "j_due": 0}


def test_where_they_are_complete_nothing_is_said_or_done(
    home: Path, tarball: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetching.fetch(tarball)
    before = {path.name: path.stat().st_mtime_ns for path in home.iterdir() if path.name != "lock"}
    capsys.readouterr()
    fetching.fetch(tarball)
    fetching.fetch(None)
    after = {path.name: path.stat().st_mtime_ns for path in home.iterdir() if path.name != "lock"}
    assert after == before
    assert set(after) == {cases.INDEX, cases.ARCHIVE, fetching.MADE}
    assert capsys.readouterr().out == ""


def test_another_e2fsprogs_is_asked_anew(
    home: Path, tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching.fetch(tarball)
    real = shutil.which("e2fsck", path=tools.PATH)
    other = f'case "$*" in -V) echo e2fsck 9.9 >&2;; *) exec {real} "$@";; esac'
    programs(tmp_path / "bin", monkeypatch, e2fsck=other)
    fetching.fetch(tarball)
    assert {record["e2fsprogs"] for record in index_of(home).values()} == {"9.9"}


def test_of_two_at_once_one_makes_them(home: Path, tarball: Path, tmp_path: Path) -> None:
    def fetch(number: int) -> None:
        with (tmp_path / f"said {number}").open("w") as sys.stdout:
            fetching.fetch(tarball)

    context = multiprocessing.get_context("fork")
    both = [context.Process(target=fetch, args=(number,)) for number in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.exitcode for each in both] == [0, 0]
    said = [(tmp_path / f"said {number}").read_text() for number in range(2)]
    assert sorted(map(bool, said)) == [False, True]
    assert len(index_of(home)) == 3


def test_what_a_killed_one_left_is_removed(home: Path, tarball: Path) -> None:
    for name in ("making-x/images", "apt-y/state"):
        (home / name).mkdir(parents=True)
    fetching.fetch(tarball)
    names = {path.name for path in home.iterdir()}
    assert names == {cases.INDEX, cases.ARCHIVE, fetching.MADE, "lock"}


# -- places -----------------------------------------------------------------------------------


def test_cases_are_looked_for_where_they_are_told_then_beside_then_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "REPOSITORY", tmp_path / "repository")
    monkeypatch.delenv(cases.HOME, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert cases.home() == tmp_path / "user/.cache/ext4kit/e2fsprogs-cases"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cases.home() == tmp_path / "caches/ext4kit/e2fsprogs-cases"
    beside = tmp_path / "shared/e2fsprogs-cases"
    beside.mkdir(parents=True)
    (beside / cases.INDEX).touch()
    assert cases.home() == beside
    monkeypatch.setenv(cases.HOME, str(tmp_path / "named"))
    assert cases.home() == tmp_path / "named"


def test_a_folder_that_others_prepared_is_left_alone(home: Path, tarball: Path) -> None:
    home.mkdir()
    (home / cases.INDEX).write_text("")
    fetching.fetch(tarball)
    assert [path.name for path in home.iterdir()] == [cases.INDEX]


# -- trouble ----------------------------------------------------------------------------------


def said_by_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> str:
    """What the command says on standard error when it fails."""
    monkeypatch.setattr(sys, "argv", ["cases", "fetch", *words])
    assert __main__.main() == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_tarball_that_is_not_what_its_name_says_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tarball = tmp_path / "e2fsprogs_1.46.2.orig.tar.gz"
    tarball.write_bytes(b"something else")
    assert "is not that of" in said_by_main(monkeypatch, capsys, "--tarball", str(tarball))
    assert not (home / cases.INDEX).exists()


def test_a_tarball_newer_than_the_tools_is_refused(
    home: Path, tarball: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = tarball.rename(tarball.with_name("e2fsprogs_99.1.orig.tar.gz"))
    monkeypatch.setenv(__main__.TARBALL, str(newer))
    assert "newer than the installed e2fsprogs" in said_by_main(monkeypatch, capsys)


@pytest.mark.parametrize(
    "data",
    [b"", b"no tarball", gzip.compress(b"no tarball")[:-9]],
    ids=["empty", "text", "cut"],
)
def test_a_tarball_that_cannot_be_read_is_told_in_one_line(
    data: bytes,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs_tools("e2fsck")
    tarball = tmp_path / "source.tar.gz"
    tarball.write_bytes(data)
    assert str(tarball) in said_by_main(monkeypatch, capsys, "--tarball", str(tarball))
    assert not (home / cases.INDEX).exists()


def test_without_a_way_to_the_mirror_one_line_says_what_to_do(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_tools("e2fsck")
    offline = "echo 'W: one' >&2; echo 'E: no way to the mirror' >&2; exit 100"
    programs(tmp_path / "bin", monkeypatch, apt_get=offline, apt_cache="exit 100")
    said = said_by_main(monkeypatch, capsys)
    assert "no way to the mirror" in said
    assert "--tarball" in said
    assert [path.name for path in home.iterdir()] == ["lock"]


def test_without_apt_one_line_says_what_to_do(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_tools("e2fsck")
    monkeypatch.setattr(source, "PATH", str(tmp_path))
    said = said_by_main(monkeypatch, capsys)
    assert "apt-get is not installed" in said
    assert "--tarball" in said


# -- apt --------------------------------------------------------------------------------------


def test_the_newest_source_that_the_tools_can_judge_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "".join(f"echo Version: {each};" for each in ("1.46.2-2", "1.47.0-2", "1.99.1-1"))
    give = f'case "$*" in *source*e2fsprogs=*) echo "$*" > {tmp_path}/words; touch '
    give += '"e2fsprogs_${*##*=}.orig.tar.gz";; esac'
    programs(tmp_path / "bin", monkeypatch, apt_get=give, apt_cache=listed)
    monkeypatch.setattr(source, "PATH", tools.PATH)
    folder = tmp_path / "apt"
    folder.mkdir()
    assert source.download(folder, "1.47.1").name == "e2fsprogs_1.47.0-2.orig.tar.gz"
    assert (tmp_path / "words").read_text().endswith("source --download-only e2fsprogs=1.47.0-2\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deb [arch=amd64] http://a b main\n", "deb-src [arch=amd64] http://a b main\n"),
        ("deb-src http://a b main\n#deb x\n", "deb-src http://a b main\n#deb x\n"),
        ("deb cdrom:[Debian]/ b main\ndeb http://a b c\n", "deb-src http://a b c\n"),
        ("Types: deb deb-src\nURIs: http://deb.a\n", "Types: deb-src\nURIs: http://deb.a\n"),
    ],
)
def test_lists_of_package_sources_ask_for_source_packages_alone(text: str, expected: str) -> None:
    assert source.for_sources(text) == expected


def test_the_list_of_images_is_one_that_sha256sum_reads(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--ignore-missing", images.KNOWN],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "improperly formatted" not in done.stderr
    assert len(images.KNOWN.read_text().splitlines()) > 200
