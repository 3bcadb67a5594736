"""`ext4kit packages`: lines, records, exit codes, lists from outside, originals, times."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import ext4kit as library
from ext4kit.packages.findings import package_findings
from ext4kit.units import Moment
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import mounted, sync
from tests.conftest import Cli
from tests.packages.making import call, copy_tree, image_of
from tests.schemas.outputs import complaint


def records(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    lines = ext4kit("packages", *words, "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [complaint(one["record"], one) for one in found] == [""] * len(found)
    return found


@pytest.fixture(scope="module")
def clean(dpkg_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of a system without differences."""
    return image_of(dpkg_root, tmp_path_factory.mktemp("clean") / "clean.img")


@pytest.fixture(scope="module")
def altered(dpkg_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of a system with a changed program, changed configuration, a foreign file."""
    folder = tmp_path_factory.mktemp("altered")
    root = copy_tree(dpkg_root, folder / "root")
    (root / "usr/bin/a").write_text("evil")
    (root / "etc/tiny.conf").write_text("evil")
    (root / "usr/bin/\x1b[2Jevil").write_text("evil")
    (root / "usr/lib/python3/__pycache__").mkdir(parents=True)
    (root / "usr/lib/python3/__pycache__/none.cpython-311.pyc").write_text("x")
    (root / "usr/lib/locale").mkdir(parents=True)
    (root / "usr/lib/locale/locale-archive").write_text("x")
    return image_of(root, folder / "altered.img")


def test_exit_codes(ext4kit: Cli, clean: Path, altered: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    empty = image_of(tmp_path / "root", tmp_path / "empty")
    codes = {
        ("packages", clean): 0, ("packages", altered): 1, ("packages", empty): 1,
        ("packages", empty, "--list"): 0, ("packages", clean, "/nothing"): 2,
        ("packages", clean, "--owner", "/usr/bin/a"): 0,
        ("packages", clean, "--owner", "/usr/bin/nothing"): 1,
        ("packages", clean, "--list", "--owner", "/x"): 2,
        ("packages", clean, "--against", tmp_path): 2,
    }  # fmt: skip
    assert {words: ext4kit(*words).returncode for words in codes} == codes


def test_lines(ext4kit: Cli, altered: Path) -> None:
    done = ext4kit("packages", altered)
    rows = [line.split()[0] for line in done.stdout.splitlines() if "/usr/" in line]
    assert rows == ["changed", "foreign", "foreign"]
    assert "\x1b" not in done.stdout and "tiny 1.0-1" in done.stdout
    assert "1 changed, 2 foreign, 1 configured" in done.stdout
    every = ext4kit("packages", altered, "--all").stdout
    assert "configured" in every and "locales" in every


def test_records(ext4kit: Cli, altered: Path) -> None:
    *found, summary = records(ext4kit, altered)
    assert [(one["kind"], one["path"]) for one in found] == [
        ("changed", "/usr/bin/a"), ("foreign", "/usr/bin/\x1b[2Jevil"),
        ("foreign", "/usr/lib/python3/__pycache__/none.cpython-311.pyc"),
    ]  # fmt: skip
    md5 = subprocess.run(["md5sum"], input=b"evil", capture_output=True, check=True).stdout
    assert found[0]["found"] == md5.split()[0].decode()
    assert found[0]["expected"].startswith("md5 ") and found[0]["package"] == "tiny 1.0-1"
    assert summary["generated"] == {"locales": 1}
    assert summary["differences"] == {"changed": 1, "foreign": 2, "configured": 1}
    paths = {one["path"]: one["status"] for one in records(ext4kit, altered, "--all")
             if one["record"] == "packaged file"}  # fmt: skip
    assert paths["/usr/bin/a"] == "changed" and paths["/usr/bin/b"] == "unchanged"
    (package,) = records(ext4kit, altered, "--list")
    assert (package["name"], package["version"], package["system"]) == ("tiny", "1.0-1", "dpkg")


def test_lists_from_outside(ext4kit: Cli, clean: Path, altered: Path, tmp_path: Path) -> None:
    for options in ((), ("--hash", "md5"), ("--json",), ("--hash", "sha1")):
        known = tmp_path / "known"
        known.write_bytes(ext4kit("hash", "--files", clean, "/usr/bin", *options).stdout.encode())
        assert ext4kit("packages", clean, "--against", known).returncode == 0
        found = records(ext4kit, altered, "--against", known)
        assert [(one["kind"], one["path"]) for one in found[:2]] == [
            ("changed", "/usr/bin/a"), ("foreign", "/usr/bin/\x1b[2Jevil"),
        ]  # fmt: skip


def test_a_reference_tells_of_a_changed_list(ext4kit: Cli, dpkg_root: Path, tmp_path: Path) -> None:
    root = copy_tree(dpkg_root, tmp_path / "root")
    (root / "usr/bin/a").write_text("evil")
    sums = root / "var/lib/dpkg/info/tiny.md5sums"
    evil = call("md5sum", "usr/bin/a", cwd=root).strip()
    lines = sums.read_text().splitlines()
    sums.write_text("".join(f"{evil if one.endswith('bin/a') else one}\n" for one in lines))
    image = image_of(root, tmp_path / "image")
    assert "changed" not in {one.get("kind") for one in records(ext4kit, image)}
    found = records(ext4kit, image, "--against", dpkg_root)
    assert {(one["kind"], one["path"]) for one in found[:-1]} >= {
        ("changed", "/usr/bin/a"), ("list", "/usr/bin/a")
    }  # fmt: skip


def test_times_and_originals(
    needs_kernel: None, dpkg_root: Path, tmp_path: Path, ext4kit: Cli
) -> None:
    """A journal that shows the files before they were changed gives them back."""
    image = image_of(dpkg_root, tmp_path / "image", has_journal=True)
    with mounted(image, "defaults") as root:
        for name in "abcdef":
            os.utime(root / "usr/bin" / name)
        sync(root)
    with mounted(image, "defaults") as root:
        (root / "usr/bin/b").unlink()
        (root / "usr/bin/new").write_text("program A, replaced")
        (root / "usr/bin/new").rename(root / "usr/bin/a")
        (root / "usr/bin/c").chmod(0o4755)
        sync(root)
    before = time.time()
    *found, _ = records(ext4kit, image)
    by_path = {one["path"]: one for one in found}
    assert {path: one["kind"] for path, one in by_path.items()} == {
        "/usr/bin/a": "changed", "/usr/bin/b": "missing", "/usr/bin/c": "mode",
    }  # fmt: skip
    assert before - 60 < by_path["/usr/bin/a"]["time"] / 1e9 < before + 60
    assert by_path["/usr/bin/c"]["transaction"] is not None
    for name in "ab":
        original = by_path[f"/usr/bin/{name}"]["original"]
        out = tmp_path / f"out-{name}"
        ext4kit("recover", image, "--inode", str(original["inode"]), "-o", out)
        found_again = [one.read_bytes() for one in out.rglob("*") if one.is_file()]
        assert f"program {name}\n".encode() in found_again
    assert "the original of /usr/bin/a is a deleted file" in ext4kit("packages", image).stdout


def test_the_state_at_a_time(needs_kernel: None, dpkg_root: Path, tmp_path: Path) -> None:
    """What changed later is unchanged then, or not known; what is not known is not missing."""
    image = image_of(dpkg_root, tmp_path / "image", has_journal=True)
    with mounted(image, "defaults") as root:
        for place in root.rglob("*"):  # all directories and inodes are in the journal
            os.utime(place, follow_symlinks=False)
        for folder in ("usr/bin", "etc", "usr/lib/tiny", "var/lib/dpkg/info"):
            (root / folder / "made").write_text("x")
        sync(root)
        time.sleep(0.1)
        then = Moment(time.time_ns())
        time.sleep(0.1)
        (root / "usr/bin/b").unlink()
        (root / "usr/bin/a").write_text("PROGRAM A, changed")
        (root / "etc/tiny.conf").unlink()
        sync(root)
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        now = {(str(one.kind), one.path) for one in package_findings(workspace).each}
        found = package_findings(workspace.as_of(then), is_quick=True)
        assert now == {
            ("changed", b"/usr/bin/a"), ("missing", b"/usr/bin/b"), ("foreign", b"/usr/bin/made"),
            ("foreign", b"/usr/lib/tiny/made"),
        }  # fmt: skip
        kinds = {(str(one.kind), one.path) for one in found.each}
        uncertain = {("unreadable", b"/usr/bin/a"), ("unreadable", b"/usr/bin/b")}
        assert kinds - uncertain == {one for one in now if one[0] == "foreign"}
        assert found.check.status_of(b"/usr/bin/c") == "unchanged"


def test_roots_of_names_that_are_not_utf8(ext4kit: Cli, dpkg_root: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    place = os.fsdecode(os.fsencode(outer) + b"/\xe4jail")
    copy_tree(dpkg_root, Path(place))
    image = image_of(outer, tmp_path / "image")
    assert ext4kit("packages", image, os.fsdecode(b"/\xe4jail")).returncode == 0
