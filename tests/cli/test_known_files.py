"""Known files in commands: what is marked, hidden and selected, and known bad files in `report`."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ext4kit.fields import SomeDigests
from ext4kit.filesystem.content import Content
from ext4kit.known.digests import Digester
from sample_images import unpack
from tests.cli.conftest import Run

DEEP = b"deep\n"  # in /sub/deep/text


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("rm_rf_tree", tmp_path_factory.mktemp("known")).image


def records(run: Run, *arguments: object, kind: str) -> list[dict[str, Any]]:
    lines = run(*arguments, "--json").stdout.splitlines()
    return [record for record in map(json.loads, lines) if record["record"] == kind]


@pytest.fixture(scope="module")
def recovered(run: Run, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recovered") / "out"
    assert run("recover", sample, "-o", out, "--no-readme").returncode == 0
    return out / "files"


@pytest.fixture(scope="module")
def five(recovered: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A list by md5sum of five of the deleted files, and their paths."""
    chosen = sorted(path for path in recovered.rglob("*") if path.is_file())[::18][:5]
    command = ["md5sum", *(str(path.relative_to(recovered)) for path in chosen)]
    done = subprocess.run(command, cwd=recovered, check=True, capture_output=True)
    path = tmp_path_factory.mktemp("list") / "five.md5"
    path.write_bytes(done.stdout)
    return path, {f"/{one.relative_to(recovered)}" for one in chosen}


def test_deleted_marks_hides_and_selects(
    run: Run, sample: Path, five: tuple[Path, set[str]]
) -> None:
    every = records(run, "deleted", sample, kind="deleted")
    marked = records(run, "deleted", sample, "--known", five[0], kind="deleted")
    assert {one["path"] for one in marked if one["known"] == "five.md5"} == five[1]
    assert [one["path"] for one in marked] == [one["path"] for one in every]
    assert all("known" not in one for one in every)
    hidden = records(run, "deleted", sample, "--known", five[0], "--hide-known", kind="deleted")
    only = records(run, "deleted", sample, "--known", five[0], "--only-known", kind="deleted")
    assert {one["path"] for one in only} == five[1]
    assert len(hidden) == len(every) - len(only)
    table = run("deleted", sample, "--known", five[0]).stdout.decode()
    assert table.count("[known: five.md5]") == 5


def test_recover_writes_what_is_not_known(
    run: Run, sample: Path, recovered: Path, five: tuple[Path, set[str]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("recover", sample, "-o", out, "--no-readme", "--known", five[0], "--hide-known")
    every = {path.relative_to(recovered) for path in recovered.rglob("*") if path.is_file()}
    there = {path.relative_to(out / "files") for path in out.rglob("files/**/*") if path.is_file()}
    assert {f"/{path}" for path in every - there} == five[1]
    lines = (out / "manifest.jsonl").read_text().splitlines()
    assert all(json.loads(line)["known"] is None for line in lines)


def test_live_files_are_marked_and_selected(run: Run, image: Path, tmp_path: Path) -> None:
    known = tmp_path / "a list.sha1"
    known.write_text(hashlib.sha1(DEEP).hexdigest() + "\n")
    text = run("ls", "-r", image, "--known", known).stdout.decode()
    assert [line for line in text.splitlines() if "[" in line and "known" in line] == [
        "/sub/deep/text  [known: a list.sha1]"
    ]
    assert run("ls", "-r", image, "--known", known, "--only-known").stdout == (
        b"/sub/deep/text  [known: a list.sha1]\n"
    )
    long = run("ls", "-l", image, "/sub/deep", "--known", known).stdout.decode()
    assert long.endswith("text  [known: a list.sha1]\n")
    every = records(run, "ls", "-r", image, kind="entry")
    hidden = records(run, "ls", "-r", image, "--known", known, "--hide-known", kind="entry")
    assert [one["path"] for one in hidden] == [
        one["path"] for one in every if one["path"] != "/sub/deep/text"
    ]
    seen = records(run, "ls", "-r", image, "--known", known, "--view", "all", kind="node")
    assert [one["path"] for one in seen if one["known"]] == ["/sub/deep/text"]
    nodes = run("ls", "-r", image, "--known", known, "--view", "all", "--only-known").stdout
    assert nodes == b"/sub/deep/text  [known: a list.sha1]\n"


def test_known_bad_files_are_a_strong_sign(
    run: Run, sample: Path, five: tuple[Path, set[str]], tmp_path: Path
) -> None:
    live = records(run, "hash", "--files", sample, kind="file hash")[0]
    bad = tmp_path / "bad.txt"
    bad.write_text(five[0].read_text() + live["sha256"] + "\n")
    report = ("report", sample, "--quick", "--known-bad", bad)
    (sign,) = (one for one in records(run, *report, kind="sign") if one["code"] == "known-bad")
    assert (sign["weight"], sign["count"]) == ("strong", 6)
    seen = [one for one in records(run, *report, kind="sighting") if one["code"] == "known-bad"]
    assert {one["path"] for one in seen if one["seen"] == ["deleted"]} == five[1]
    assert {one["grade"] for one in seen if one["seen"] == ["deleted"]} == {"intact"}
    (there,) = (one for one in seen if one["seen"] == ["there"])
    assert there["path"] == live["path"] and there["grade"] is None
    assert there["note"] == f"sha256 {live['sha256']} is in bad.txt"
    page = tmp_path / "page.html"
    run(*report, "--html", page)
    assert "Known bad files" in page.read_text() and live["sha256"] in page.read_text()


def test_the_report_counts_without_what_is_hidden(
    run: Run, sample: Path, five: tuple[Path, set[str]]
) -> None:
    report = ("report", sample, "--quick")
    (every,) = records(run, *report, kind="deletions")
    known = (*report, "--known", five[0])
    (hidden,) = records(run, *known, "--hide-known", kind="deletions")
    assert hidden["total"] == every["total"] - 5
    (about,) = records(run, *known, "--hide-known", kind="report")
    assert "deleted files that are known: five.md5" in about["left_out"]
    marked = records(run, *known, kind="deleted")
    assert {one["path"] for one in marked if one["known"]} == five[1]


def test_a_size_that_is_in_no_list_is_not_read(
    run: Run, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ext4kit.cli import main

    hashed, found = list[int](), Digester._hashed

    def counted(self: Digester, content: Content) -> SomeDigests:
        hashed.append(content.size)
        return found(self, content)

    monkeypatch.setattr(Digester, "_hashed", counted)
    known = tmp_path / "list.csv"
    known.write_text(f"md5,size\n{hashlib.md5(DEEP).hexdigest()},5\n")
    main.run(["ls", "-r", str(image), "--known", str(known), "-q"])
    assert hashed == [5, 5]  # of equal size


def test_files_of_an_image_as_sums_csv_and_records(
    run: Run, image: Path, tree: Path, tmp_path: Path
) -> None:
    for name in ("md5", "sha1", "sha256"):
        sums = tmp_path / name
        sums.write_bytes(run("hash", "--files", image, "--hash", name).stdout)
        checked = subprocess.run([f"{name}sum", "-c", str(sums)], cwd=tree, capture_output=True)
        assert checked.returncode == 0, checked.stderr
        assert len(sums.read_bytes().splitlines()) == 5
    of_folder = run("hash", "--files", tree, "--hash", "md5").stdout
    assert sorted(of_folder.splitlines()) == sorted((tmp_path / "md5").read_bytes().splitlines())
    rows = list(csv.DictReader(run("hash", "--files", image, "--csv").stdout.decode().splitlines()))
    found = records(run, "hash", "--files", image, kind="file hash")
    assert [(row["sha256"], row["md5"], int(row["size"]), row["path"]) for row in rows] == [
        (one["sha256"], one["md5"], one["size"], one["path"]) for one in found
    ]
    only = run("hash", "--files", image, "/sub/deep").stdout
    assert only == f"{hashlib.sha256(DEEP).hexdigest()}  ./sub/deep/text\n".encode()
    assert run("hash", "--files", tree, "sub/deep/text").stdout == only


@pytest.mark.skipif(shutil.which("hashdeep") is None, reason="hashdeep is not installed")
def test_hashdeep_agrees_that_the_files_are_known(
    run: Run, image: Path, tree: Path, tmp_path: Path
) -> None:
    made = subprocess.run(["hashdeep", "-r", "-l", "."], cwd=tree, capture_output=True, check=True)
    known = tmp_path / "tree.hashdeep"
    known.write_bytes(made.stdout)
    entries = records(run, "ls", "-r", image, "--known", known, kind="entry")
    assert all((one["known"] == known.name) is (one["type"] == "file") for one in entries)


@pytest.mark.skipif(shutil.which("hfind") is None, reason="The Sleuth Kit is not installed")
def test_hfind_finds_what_is_known(run: Run, image: Path, tmp_path: Path) -> None:
    sums = tmp_path / "sums.md5"
    sums.write_bytes(run("hash", "--files", image, "/sub", "--hash", "md5").stdout)
    subprocess.run(["hfind", "-i", "md5sum", str(sums)], check=True, capture_output=True)
    for one in records(run, "hash", "--files", image, kind="file hash"):
        done = subprocess.run(["hfind", "-q", str(sums), one["md5"]], capture_output=True)
        assert (done.stdout.strip() == b"1") is one["path"].startswith("/sub/"), one


@pytest.mark.parametrize("data", [b"", b"nothing\n", b"SQLite format 3\0"], ids=len)
@pytest.mark.parametrize("command", ["deleted", "recover", "ls", "report"])
def test_a_list_without_a_hash_ends_the_command(
    run: Run, image: Path, tmp_path: Path, command: str, data: bytes
) -> None:
    known = tmp_path / "list"
    known.write_bytes(data)
    options = ("-o", tmp_path / "out") if command == "recover" else ()
    names = ("--known", "--known-bad") if command == "report" else ("--known",)
    for name in names:
        done = run(command, image, *options, name, known)
        assert done.returncode == 2 and not done.stdout
        assert done.stderr.count(b"\n") == 1 and str(known).encode() in done.stderr
    assert not (tmp_path / "out").exists()


def test_bad_lines_are_told(run: Run, image: Path, tmp_path: Path) -> None:
    known = tmp_path / "list"
    known.write_text(f"{'0' * 32}\nno hash\n{'1' * 32}\nno hash\n")
    done = run("ls", "-r", image, "--known", known)
    assert done.returncode == 0
    assert b"list: 2 lines have no hash and are left out, first line 2" in done.stderr


@pytest.mark.parametrize(
    "options",
    [("--hide-known",), ("--only-known",), ("--known", "LIST", "--hide-known", "--only-known")],
)
def test_options_that_make_no_sense_are_refused(
    run: Run, image: Path, five: tuple[Path, set[str]], options: tuple[str, ...]
) -> None:
    words = [str(five[0]) if word == "LIST" else word for word in options]
    assert run("deleted", image, *words).returncode == 2
    assert run("hash", image, "/sub").returncode == 2
    assert run("hash", image, "--files", "--verify").returncode == 2
    assert run("hash", image, "--files", "/nothing").returncode == 2
