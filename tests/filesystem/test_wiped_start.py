"""Disks whose start is gone: every surviving tree is listed, and nothing foreign is read."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sample_images.recipes.machine import make_file_system, mounted, run
from sample_images.recipes.wiped.scenes import (
    SCENES,
    build,
    by_e2fsck,
    digests_below,
    options_for,
    run_program,
    tail_matches,
)
from tests.conftest import Cli

pytestmark = pytest.mark.kernel
MIB = 1 << 20
QUICK = ("root only", "first group", "ext3, 1 KiB")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in SCENES]
)
def test_no_file_fewer_than_e2fsck_gives_and_none_of_foreign_bytes(
    needs_kernel: None, name: str, tmp_path: Path
) -> None:
    image, out, again = (tmp_path / one for one in ("disk.img", "out", "deleted"))
    truth, deleted = build(image, SCENES[name])
    options = options_for(image)
    done = run_program(["extract", image, "/", *options, "-o", out])
    ours = digests_below(out / "files") | digests_below(out / "unnamed")
    assert done.returncode == 1 or ("--lost" in options and set(truth) <= set(ours))
    assert set(truth) & set(by_e2fsck(image)) <= set(ours)
    if "ext3" not in name:  # without checksums a folder can be found without its upper one
        for digest in set(truth) & set(ours):
            assert any(tail_matches(path, truth[digest]) for path in ours[digest])
    if "--lost" not in options:
        run_program(["recover", image, *options, "-o", again, "--sources", "blocks"])
        got = {
            one for part in ("files", "unnamed", "partial") for one in digests_below(again / part)
        }
        assert got - set(truth) <= deleted


@pytest.fixture
def torn(needs_kernel: None, tmp_path: Path) -> Path:
    """Of /a/b/c the inode of /a is cleared; /x/y is a loop of directories that nothing names."""
    path = tmp_path / "disk.img"
    make_file_system(path, 64 * MIB, ("-t", "ext4"))
    with mounted(path, "defaults") as top:
        for folder in ("a/b/c", "x/y", "whole"):
            (top / folder).mkdir(parents=True)
        (top / "a/b/c/file").write_bytes(b"deep")
        (top / "a/alone").write_bytes(b"alone")
        (top / "x/y/file").write_bytes(b"in a loop")
        (top / "whole/file").write_bytes(b"reached")
    x = run("debugfs", "-R", "stat /x", path).split(b"Inode: ")[1].split()[0].decode()
    for command in (f"link <{x}> /x/y/again", "unlink /x", "clri /a"):
        run("debugfs", "-w", "-R", command, path)
    return path


def test_trees_without_a_parent_are_listed_and_opened_by_number(ext4kit: Cli, torn: Path) -> None:
    done = ext4kit("ls", "-r", torn)
    paths = done.stdout.splitlines()
    assert done.returncode == 1
    tops = {path.split("/")[2] for path in paths if path.startswith("/unattached/")}
    assert {path.partition("/unattached/")[2].partition("/")[2] for path in paths} >= {
        "c/file", "y/file",
    }  # fmt: skip
    assert "/whole/file" in paths and len(paths) == len(set(paths))
    contents = set()
    for path in paths:
        if (
            path.startswith("/unattached/")
            and json.loads(ext4kit("stat", torn, path, "--json").stdout.splitlines()[0])["type"]
            == "file"
        ):
            contents.add(ext4kit("cat", torn, path).stdout)
    assert contents == {"deep", "alone", "in a loop"}
    assert set(ext4kit("ls", torn, "/unattached").stdout.split()) == tops
    assert "not reached from the root directory" in " ".join(ext4kit("report", torn).stdout.split())


def test_a_whole_file_system_has_nothing_unattached(
    ext4kit: Cli, needs_kernel: None, tmp_path: Path
) -> None:
    path = tmp_path / "disk.img"
    make_file_system(path, 64 * MIB, ("-t", "ext4"))
    with mounted(path, "defaults") as top:
        (top / "file").write_bytes(b"here")
    assert ext4kit("ls", "-r", path).stdout.split() == ["/lost+found", "/file"]
    assert ext4kit("ls", path, "/unattached").stdout == ""
    assert "no such file" in ext4kit("ls", path, "/unattached/other").stderr


def test_files_of_the_file_system_itself_are_not_unattached(
    ext4kit: Cli, needs_kernel: None, tmp_path: Path
) -> None:
    path = tmp_path / "disk.img"
    options = ("-t", "ext4", "-O", "quota,project,orphan_file", "-E", "quotatype=prjquota")
    make_file_system(path, 64 * MIB, options)
    assert ext4kit("ls", path, "/unattached").stdout == ""


def _tool(*words: str) -> Callable[[Path], None]:
    def over(image: Path) -> None:
        subprocess.run([*words, str(image)], check=True, capture_output=True)

    return over


OVER: dict[str, tuple[str, Callable[[Path], None]]] = {
    "swap": ("mkswap", _tool("mkswap")),
    "vfat": ("mkfs.vfat", _tool("mkfs.vfat")),
    "crypto_LUKS": (
        "cryptsetup",
        _tool("sh", "-c", 'echo key | cryptsetup luksFormat -q --pbkdf pbkdf2 '
              '--pbkdf-force-iterations 1000 "$0" -'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OVER)
def test_what_was_made_over_a_file_system_hides_it_not(
    ext4kit: Cli, needs_kernel: None, name: str, tmp_path: Path
) -> None:
    tool, over = OVER[name]
    if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        pytest.skip(f"needs {tool}")
    path = tmp_path / "disk.img"
    make_file_system(path, 400 * MIB, ("-t", "ext4", "-O", "^flex_bg"))
    with mounted(path, "defaults") as top:
        for folder in range(9):  # in several groups, of which the first one is overwritten
            (top / f"{folder}").mkdir()
            (top / f"{folder}" / "file").write_bytes(b"here")
    over(path)
    done = ext4kit("ls", path)
    assert done.returncode == 3
    options = done.stderr.partition(f"`ext4kit ls {path} ")[2].partition("`")[0].split()
    assert "--superblock" in options
    assert ext4kit("ls", "-r", path, *options).stdout.count("/file\n") > 3


def test_an_external_journal_is_told_what_it_is_for(
    ext4kit: Cli, needs_kernel: None, tmp_path: Path
) -> None:
    path = tmp_path / "journal.img"
    make_file_system(path, 16 * MIB, ("-O", "journal_dev"))
    done = ext4kit("ls", path)
    assert done.returncode == 3
    assert "the external journal of a file system: give it with --journal" in done.stderr
