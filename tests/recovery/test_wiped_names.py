"""Wiped files have their true names, and what a wiping program left is never their content."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.machine import copy_sparse, make_file_system, mounted, sync, truncate
from tests.conftest import Cli

pytestmark = pytest.mark.kernel
MIB = 1 << 20
SOLID = ("intact", "consistent")
LAYOUTS = {
    "ordered": (("-t", "ext4", "-b", "1024", "-J", "size=16"), "noatime"),
    "journaled data": (("-t", "ext4", "-J", "size=24"), "noatime,data=journal"),
    "plain directories": (
        ("-t", "ext4", "-J", "size=16", "-O", "^dir_index,^metadata_csum"),
        "noatime",
    ),
    "fast commits": (("-t", "ext4", "-J", "size=16", "-O", "fast_commit"), "noatime"),
    "ext3": (("-t", "ext3", "-J", "size=16"), "noatime"),
}
Record = dict[str, Any]


def text(word: str, size: int) -> bytes:
    return (f"{word} " * size).encode()[:size]


CONTENTS = {
    "secret-plan.txt": text("plan", 12_813),
    "a/b/nested name.pdf": text("nested", 30_000),
    "whole-blocks.txt": text("whole", 16_384),
    "L" * 60: text("long", 5_000),
    "x": text("x", 3_000),
    "yz": text("yz", 3_000),
    "000": text("zeros", 3_000),
    ".hidden": text("hidden", 100_000),
    "empty.txt": b"",
}


SLOW = ("journaled data", "plain directories", "fast commits", "ext3")


@pytest.fixture(
    params=[pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in LAYOUTS]
)
def disk(
    needs_kernel: None, request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Path, tuple[str, ...], str]:
    options, mount = LAYOUTS[request.param]
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, options)
    return image, options, mount


def fill(root: Path) -> None:
    for name, content in CONTENTS.items():
        path = root / "d" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (root / "d/0").write_bytes(b"a file that stays")
    sync(root)


def records(ext4kit: Cli, image: Path, *options: str) -> list[Record]:
    done = ext4kit("deleted", image, "--json", *options)
    assert done.returncode == 0
    return [line for line in map(json.loads, done.stdout.splitlines()) if "grade" in line]


def wiped(found: list[Record]) -> dict[str, Record]:
    return {one["path"]: one for one in found if "wiped" in one and not one["superseded"]}


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


def test_files_of_shred_have_their_names(
    ext4kit: Cli, disk: tuple[Path, tuple[str, ...], str], tmp_path: Path
) -> None:
    image, _, mount = disk
    with mounted(image, mount) as root:
        fill(root)
        for name in CONTENTS:
            run("shred", "-u", root / "d" / name)
    found = records(ext4kit, image, "--versions", "--sources", "journal")
    files = wiped(found)
    assert set(files) == {f"/d/{name}" for name in CONTENTS}
    for name, content in CONTENTS.items():
        file = files[f"/d/{name}"]
        assert file["grade"] not in SOLID
        assert "content-wiped" in {reason["code"] for reason in file["reasons"]}
        assert file["wiped"]["true_name"] and file["wiped"]["certain"]
        if content:
            assert file["wiped"]["size"] == len(content)
            assert len(file["wiped"]["names"]) == len(Path(name).name)
    done = ext4kit("recover", image, "--versions", "-o", tmp_path / "out")
    assert done.returncode in (0, 1)
    lines = (tmp_path / "out/manifest.jsonl").read_text().splitlines()
    for one in map(json.loads, lines):
        name = (one.get("path") or "").removeprefix("/d/")
        if one.get("output") and one["grade"] in SOLID and name in CONTENTS:
            assert (tmp_path / "out" / one["output"]).read_bytes() == CONTENTS[name]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command",
    [
        ("shred", "-u", "-n", "1", "-z"),
        ("shred", "-u", "--remove=wipe"),
        ("shred", "--remove=unlink"),
        ("wipe", "-f"),
        ("wipe", "-fq"),
        ("srm", "-ll"),
        ("scrub", "-r"),
        ("bleachbit", "--shred"),
    ],
    ids=" ".join,
)
def test_no_program_leaves_a_wrong_name_or_a_solid_content(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4"))
    with mounted(image, "noatime") as root:
        fill(root)
        path = root / "d/secret-plan.txt"
        run(*command, path)
        assert not path.exists()
    # BleachBit renames over any file whose name of one character it draws, such as /d/0
    found = [one for one in records(ext4kit, image) if one["inode"] and one["path"] != "/d/0"]
    assert {one["path"] for one in found} == {"/d/secret-plan.txt"}
    assert all(one["grade"] not in SOLID and "wiped" in one for one in found)


def test_many_files_and_directories_with_an_index(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4", "-b", "1024", "-J", "size=8"))
    with mounted(image, "noatime") as root:
        (root / "d").mkdir()
        every = [root / "d" / f"file with a longer name {number}.txt" for number in range(200)]
        for path in every:
            path.write_bytes(b"some words\n" * 100)
        sync(root)
        run("shred", "-u", *every[100:104])
        run("find", root / "d", "-name", "*15[0-4].txt", "-exec", "shred", "-u", "{}", ";")
    expected = {f"/d/{path.name}" for path in every[100:104] + every[150:155]}
    assert set(wiped(records(ext4kit, image))) == expected


def test_what_users_did_before_and_after_is_told_apart(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4", "-J", "size=16"))
    with mounted(image, "noatime") as root:
        for name in ("first", "linked", "reused", "open.txt", "sub/inner"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(text(name, 9_000))
        (root / "other").hardlink_to(root / "linked")
        sync(root)
        (root / "first").rename(root / "renamed")
        sync(root)
        run("shred", "-u", root / "renamed", root / "linked", root / "sub/inner")
        (root / "other").unlink()
        (root / "sub").rename(root / "sub of old")
        run("shred", "-u", root / "reused")
        (root / "0").write_bytes(text("user", 9_000))  # perhaps with the same inode number
        sync(root)
        (root / "0").unlink()
        with (root / "open.txt").open("rb"):
            run("shred", "-u", root / "open.txt")
            sync(root)
    found = {one["path"]: one for one in records(ext4kit, image, "--sources", "journal")}
    expected = {"/renamed", "/other", "/sub/inner", "/reused", "/0", "/open.txt"}
    assert set(found) == expected
    assert found["/renamed"]["former_paths"] == [{"path": "/first"}]
    assert "wiped" not in found["/0"] and found["/0"]["size"] == 9_000
    assert all(one["grade"] not in SOLID for path, one in found.items() if path != "/0")


def in_steps(root: Path, path: Path, names: list[str], size: int) -> None:
    """What a program does that fills up a file, cuts it, renames it and removes it."""
    truncate(path, size)
    sync(root)
    truncate(path, 0)
    for name in names:
        path = path.rename(path.with_name(name))
        sync(root)
    path.unlink()


def test_random_names_are_undone(needs_kernel: None, ext4kit: Cli, tmp_path: Path) -> None:
    """As BleachBit and srm leave them if a commit comes between their steps."""
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4"))
    with mounted(image, "noatime") as root:
        fill(root)
        in_steps(root, root / "d/secret-plan.txt", ["Wgjy_t0C-" * 25 + "a", "D"], 16_384)
        in_steps(root, root / "d/.hidden", [".kxyzab"], 4 * 32_769)
    files = wiped(records(ext4kit, image))
    assert {path: one["wiped"]["tool"] for path, one in files.items()} == {
        "/d/secret-plan.txt": "BleachBit",
        "/d/.hidden": "srm (secure-delete)",
    }
    assert files["/d/.hidden"]["wiped"]["size"] == len(CONTENTS[".hidden"])


def rotate(root: Path) -> Iterator[None]:
    log = root / "app.log"
    for _ in range(3):
        log.write_bytes(text("line", 5_000))
        yield
        for number in (3, 2, 1):
            if (old := root / f"app.log.{number}").exists():
                old.rename(root / f"app.log.{number + 1}")
                yield
        log.rename(root / "app.log.1")
        yield
    for path in root.glob("app.log.*"):
        path.unlink()


def move_to_zeros(root: Path) -> Iterator[None]:
    path = root / "notes.txt"
    path.write_bytes(text("note", 5_000))
    yield
    for name in ("0000", "000", "00", "0"):
        path = path.rename(root / name)
        yield
    path.unlink()


def update_as_dpkg(root: Path) -> Iterator[None]:
    for number in range(3):
        path = root / "tmp.i"
        path.write_bytes(b"#padding\n" * 512)
        yield
        truncate(path, 1092)
        path = path.rename(root / f"000{number}")
        yield
        path.unlink()


def save_as_editors_do(root: Path) -> Iterator[None]:
    path = root / "letter.txt"
    path.write_bytes(text("letter", 5_000))
    yield
    for probe in ("4913", "5036"):
        (root / probe).write_bytes(b"")
        yield
        (root / probe).unlink()
    path.rename(root / "letter.txt~")
    yield
    path.write_bytes(text("changed", 6_000))
    yield
    (root / "letter.txt~").unlink()


def deliver_mail(root: Path) -> Iterator[None]:
    for name in ("tmp", "new", "cur"):
        (root / name).mkdir()
    letter = root / "tmp/1.msg"
    letter.write_bytes(text("mail", 3_000))
    yield
    letter = letter.rename(root / "new/1.msg")
    yield
    letter = letter.rename(root / "cur/1.msg:2,S")
    yield
    letter.unlink()


def short_names(root: Path) -> Iterator[None]:
    (root / "000").write_bytes(text("three", 3_000))
    path = root / "t"
    path.write_bytes(text("t", 3_000))
    yield
    (root / "000").unlink()
    truncate(path, 0)
    yield
    path = path.rename(root / "u")
    yield
    path.unlink()


def download(root: Path) -> Iterator[None]:
    path = root / "film.part"
    with path.open("wb", 0) as stream:
        for piece in range(1, 6):
            stream.write(text("film", 3_001 * piece))
            yield
    path.rename(root / "film")
    yield
    (root / "film").unlink()


NEIGHBOURS: dict[str, tuple[Callable[[Path], Iterator[None]], str]] = {
    "rotation": (rotate, "app.log.3"),
    "loop": (move_to_zeros, "0"),
    "dpkg": (update_as_dpkg, "0002"),
    "editor": (save_as_editors_do, "letter.txt~"),
    "mail": (deliver_mail, "cur/1.msg:2,S"),
    "short": (short_names, "000"),
    "download": (download, "film"),
}


def test_no_other_program_is_taken_for_a_wiping_program(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4", "-J", "size=8"))
    with mounted(image, "noatime") as root:
        for name, (act, _) in NEIGHBOURS.items():
            (root / name).mkdir()
            for _ in act(root / name):
                sync(root)
            sync(root)
    found = records(ext4kit, image)
    assert [one["path"] for one in found if "wiped" in one] == []
    paths = {one["path"] for one in found}
    assert {f"/{name}/{last}" for name, (_, last) in NEIGHBOURS.items()} <= paths
    assert "wiping programs" not in ext4kit("timeline", image).stdout


@pytest.fixture(scope="module")
def long_ago(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(image after the unmount, copy from before it); the journal wrapped after the creations."""
    folder = tmp_path_factory.mktemp("long ago")
    image, live = folder / "disk.img", folder / "live.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4", "-b", "1024", "-J", "size=1"))
    with mounted(image, "noatime") as root:
        (root / "d").mkdir()
        (root / "other").mkdir()
        for name in ("alpha.txt", "secret-plan.txt", "zeta.txt"):
            (root / "d" / name).write_bytes(text(name, 5_000))
    with mounted(image, "noatime") as root:
        for number in range(250):
            path = root / f"other/{number}"
            path.write_bytes(b"x" * 3_000)
            sync(root)
            path.unlink()
        sync(root)
        run("shred", "-u", root / "d/secret-plan.txt")
        copy_sparse(image, live)
    return image, live


def test_a_name_that_nothing_shows_is_not_invented(
    ext4kit: Cli, long_ago: tuple[Path, Path]
) -> None:
    files = wiped(records(ext4kit, long_ago[0]))
    assert list(files) == ["/d/0"]
    record = files["/d/0"]["wiped"]
    assert not record["true_name"] and record["size"] in (None, 5_000)
    assert len(record["names"][0]["name"]) == len("secret-plan.txt")
    assert "name before unknown" in ext4kit("deleted", long_ago[0], "/d/0").stdout


def test_a_directory_that_was_not_written_out_has_the_name(
    ext4kit: Cli, long_ago: tuple[Path, Path]
) -> None:
    """A copy from while it was mounted: the journal was not yet written to its home blocks."""
    files = wiped(records(ext4kit, long_ago[1]))
    assert list(files) == ["/d/secret-plan.txt"]
    assert files["/d/secret-plan.txt"]["wiped"]["true_name"]
    assert "before the replay" in files["/d/secret-plan.txt"]["sources"]["name"]


def test_a_content_from_before_the_wiping_keeps_its_grade(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    """The journal has what was saved an hour before, and the wiping program's bytes."""
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4", "-J", "size=16"))
    with mounted(image, "noatime,data=journal") as root:
        path = root / "secret.txt"
        path.write_bytes(text("first", 16_384))
        os.utime(path, (1_600_000_000, 1_600_000_000))
        sync(root)
        run("shred", "-u", path)
    solid = [one for one in records(ext4kit, image, "--versions") if one["grade"] in SOLID]
    assert [(one["path"], one["superseded"]) for one in solid] == [("/secret.txt", True)]
    out = tmp_path / "out"
    ext4kit("recover", image, "--versions", "-o", out, "--min-grade", "consistent")
    (file,) = (one for one in (out / "files").rglob("*") if one.is_file())
    assert file.read_bytes() == text("first", 16_384)


def test_commands_tell_of_the_wiping(needs_kernel: None, ext4kit: Cli, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4"))
    with mounted(image, "noatime") as root:
        fill(root)
        os.chown(root / "d/secret-plan.txt", 1234, 1234)
        sync(root)
        run("shred", "-u", root / "d/secret-plan.txt")
    path = "/d/secret-plan.txt"
    line = next(one for one in ext4kit("deleted", image).stdout.splitlines() if path in one)
    assert line.endswith("[wiped as by shred or wipe, renamed 15 times, 12,813 bytes before]")
    for asked in (path, "/d/1"):
        assert path in ext4kit("deleted", image, asked).stdout
    assert "the file got 15 names, 000000000000000 to 1" in ext4kit("explain", image, path).stdout
    assert path.rpartition("/")[2] in ext4kit("ls", image, "/d", "--view", "deleted").stdout
    assert "12813" in ext4kit("versions", image, path).stdout
    done = ext4kit("timeline", image, "--json", "--kind", "hint")
    hints = [line for line in map(json.loads, done.stdout.splitlines()) if line.get("path") == path]
    assert [(hint["new"], hint["reason"].split(";")[0]) for hint in hints] == [
        (15, "the file was cut and renamed before the deletion as wiping programs do")
    ]
    lines = map(json.loads, ext4kit("report", image, "--json").stdout.splitlines())
    (sign,) = (one for one in lines if (one["record"], one.get("code")) == ("sighting", "wiped"))
    assert (sign["path"], sign["size"]) == (path, 12_813)
    assert sign["note"] == "as by shred or wipe, renamed 15 times, 12,813 bytes before, uid 1234"
