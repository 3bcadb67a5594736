"""Names of deleted files beside those of The Sleuth Kit, and the cause of each difference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes import machine
from tests.conftest import Cli, Images


def differences(ext4kit: Cli, image: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(differences in names of deleted files, the record of the comparison)."""
    done = ext4kit("crosscheck", "--deleted", "--json", image)
    assert done.returncode in (0, 1), done.stderr
    *found, outcome = (json.loads(line) for line in done.stdout.splitlines())
    return [one for one in found if one["field"] == "deleted name"], outcome


def causes(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(one["cause"] for one in found)


def test_where_the_kernel_left_the_entries_both_have_all_names(
    ext4kit: Cli, unpacked: Images
) -> None:
    found, outcome = differences(ext4kit, unpacked("removed_on_5_10").image)
    assert found == []
    assert outcome["deleted_names"] >= 100


def test_where_the_kernel_cleared_them_the_journal_has_them(ext4kit: Cli, unpacked: Images) -> None:
    found, outcome = differences(ext4kit, unpacked("removed_after_remount").image)
    assert causes(found) == {"name-from-journal": outcome["deleted_names"]}
    assert all(one["tsk"] is None and one["ext4kit"] == one["inode"] for one in found)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder of ten files, by the running kernel."""
    path = tmp_path / "disk.img"
    machine.make_file_system(path, 32 << 20, ("-t", "ext4", "-O", "^metadata_csum"))
    with machine.mounted(path, "noatime") as root:
        (root / "few").mkdir()
        for number in range(10):
            (root / "few" / f"file-{number}").write_bytes(b"text\n" * 1000)
    return path


def inode_of(image: Path, path: str) -> int:
    """As debugfs says."""
    return int(machine.run("debugfs", "-R", f"stat {path}", image).split()[1])


@pytest.mark.kernel
def test_an_entry_of_an_inode_in_use_is_not_the_name_of_a_deleted_file(
    ext4kit: Cli, image: Path
) -> None:
    inode = inode_of(image, "/few/file-4")
    machine.run("debugfs", "-w", "-R", "ln /few/file-4 /few/again", image)
    machine.run("debugfs", "-w", "-R", "unlink /few/file-4", image)
    found, _ = differences(ext4kit, image)
    (one,) = found
    assert (one["path"], one["cause"]) == ("/few/file-4", "not-its-name")
    assert (one["tsk"], one["ext4kit"]) == (inode, None)
    assert "the inode is allocated" in one["detail"]


@pytest.mark.kernel
@pytest.mark.parametrize("seed", ["19", "35"])
def test_hashes_that_look_like_names_are_explained_and_names_are_not_called_hashes(
    ext4kit: Cli, tmp_path: Path, seed: str
) -> None:
    """What The Sleuth Kit lists and nobody ever made. The seed fixes the hashes of the index.

    With 19 they are in an index block and in front of those by which the kernel sorted a block,
    with 35 one of them has the byte of a slash.
    """
    path = tmp_path / "disk.img"
    hashes = ("-E", f"hash_seed=00000000-0000-4000-8000-0000000000{seed}")
    options = ("-t", "ext4", "-b", "1024", "-N", "8000", "-J", "size=4", *hashes)
    machine.make_file_system(path, 32 << 20, options)
    with machine.mounted(path, "noatime") as root:
        (root / "d").mkdir()
        for number in range(7000):
            (root / "d" / f"file-{number}").touch()
    found, _ = differences(ext4kit, path)
    assert found and causes(found) == {"index-block": len(found)}
    assert all(one["ext4kit"] is None for one in found)
    with machine.mounted(path, "noatime") as root:
        for number in range(0, 7000, 35):
            (root / "d" / f"file-{number}").unlink()
    found, _ = differences(ext4kit, path)
    names = [one for one in found if one["path"].startswith("/d/file-")]
    assert names and "index-block" not in causes(names)
