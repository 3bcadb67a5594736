"""`versions`: the history of one file, against the states that were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.machine import check, make_file_system, mounted, run, sync
from tests.conftest import Cli

pytestmark = pytest.mark.kernel
MIB = 1 << 20
PATH = "/d/notes.txt"


def lines(word: str, count: int) -> bytes:
    return b"".join(b"%s %d\n" % (word.encode(), at) for at in range(count))


STATES: list[tuple[str | None, bytes, list[str]]] = [
    (PATH, lines("first", 1000), ["created"]),
    (PATH, lines("first", 1000) + b"one more\n", ["written"]),
    (PATH, (lines("first", 1000))[:4096], ["truncated"]),
    (PATH, b"", ["truncated"]),
    (PATH, lines("second", 900), ["written"]),
    ("/d/other.txt", lines("second", 900), ["renamed"]),
    (PATH, lines("second", 900), ["renamed"]),
    (PATH, lines("third", 700), ["created"]),
    (PATH, lines("fourth", 800), ["created"]),
    (PATH, lines("fifth", 1200), ["rewritten"]),
    (PATH, lines("fifth", 1200) + b"last\n", ["written"]),
]


@pytest.fixture(scope="module")
def image(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with ten states before the present one, a commit after each."""
    path = tmp_path_factory.mktemp("versions") / "disk.img"
    make_file_system(path, 64 * MIB, ("-t", "ext4", "-J", "size=8"))
    with mounted(path, "defaults") as top:
        (top / "d").mkdir()
        (top / "d" / "beside").write_bytes(b"always here")
        file, other = top / "d/notes.txt", top / "d/other.txt"
        sync(top)
        file.write_bytes(STATES[0][1])
        sync(top)
        with file.open("ab") as stream:
            stream.write(b"one more\n")
        sync(top)
        with file.open("r+b") as stream:
            stream.truncate(4096)
        sync(top)
        with file.open("r+b") as stream:
            stream.truncate(0)
        sync(top)
        file.write_bytes(STATES[4][1])
        sync(top)
        file.rename(other)
        sync(top)
        other.rename(file)
        sync(top)
        other.write_bytes(STATES[7][1])
        other.rename(file)
        sync(top)
        file.unlink()
        file.write_bytes(STATES[8][1])
        sync(top)
        file.write_bytes(STATES[9][1])
        sync(top)
        with file.open("ab") as stream:
            stream.write(b"last\n")
    return path


def records(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    done = ext4kit("versions", *words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_state_is_listed_with_what_happened(ext4kit: Cli, image: Path) -> None:
    found = [one for one in records(ext4kit, image, PATH) if one["record"] == "file version"]
    told = [(one["path"], one["size"], one["changes"]) for one in found]
    assert told == [(path, len(data), changes) for path, data, changes in STATES]
    assert [one["live"] for one in found] == [False] * 10 + [True]
    assert [one["renamed_from"] for one in found if one["renamed_from"]] == [PATH, "/d/other.txt"]
    ends = {at: one["ended"]["change"] for at, one in enumerate(found) if one["ended"]}
    assert ends == {6: "replaced", 7: "replaced"}
    assert found[6]["ended"]["replaced_by"] == found[7]["inode"]
    times = [one["committed"]["time"] for one in found]
    assert times == sorted(times) and None not in times


def test_all_are_written_with_a_manifest(ext4kit: Cli, image: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert ext4kit("versions", image, PATH, "-o", out).returncode == 0
    manifest = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    for at, (path, data, _) in enumerate(STATES):
        name = f"{(path or '').rpartition('/')[2]}.{at + 1}"
        assert manifest[at]["output"] == name
        # The kernel overwrote or kept what an append or a truncation left: graded below intact.
        assert (out / name).read_bytes() == data, at
    for number in (1, 5, 11):
        assert (
            ext4kit("cat", image, PATH, "--version", str(number)).stdout
            == STATES[number - 1][1].decode()
        )


def test_differences_are_shown(ext4kit: Cli, image: Path) -> None:
    said = ext4kit("versions", image, PATH, "--diff", "1", "2").stdout
    assert said.splitlines()[-1] == "+one more"
    assert said.startswith(f"--- {PATH} version 1\t")
    every = ext4kit("versions", image, PATH, "--diff").stdout
    assert every.count("\n+++ ") + every.startswith("+++ ") == 8  # a rename changes no line
    assert ext4kit("versions", image, PATH, "--diff", "1").returncode == 2
    assert "the last one is 11" in ext4kit("versions", image, PATH, "--diff", "1", "99").stderr


def test_a_path_that_never_was_is_an_error(ext4kit: Cli, image: Path) -> None:
    done = ext4kit("versions", image, "/d/none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "neither the file system nor the evidence of deleted files has this path" in done.stderr
    assert "is a directory; only files have versions" in ext4kit("versions", image, "/d").stderr


def test_a_file_that_never_changed_has_one_version(ext4kit: Cli, image: Path) -> None:
    (one,) = records(ext4kit, image, "/d/beside")
    assert (one["live"], one["size"], one["grade"]) == (True, 11, None)


def test_what_e2fsck_connected_has_its_former_name(
    ext4kit: Cli, needs_kernel: None, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 64 * MIB, ("-t", "ext4", "-J", "size=4"))
    with mounted(image, "defaults") as top:
        (top / "d").mkdir()
        (top / "d/kept").write_bytes(b"kept")
        number = (top / "d/kept").stat().st_ino
    run("debugfs", "-w", "-R", "clri /d", image)
    check(image)
    now = f"/lost+found/#{number}"
    done = ext4kit("ls", image, "/lost+found")
    assert f"#{number}" in done.stdout.split()
    assert "shows the former names of a #NUMBER here" in done.stderr
    for path in ("/d/kept", now):
        (one,) = records(ext4kit, image, path)
        assert (one["path"], one["renamed_from"], one["live"]) == (now, "/d/kept", True)
    assert ext4kit("ls", image, "/").stderr == ""
