"""No false alarm: what the kernel and mke2fs made and e2fsck calls clean gives no finding."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import ext4kit
from ext4kit.verify import verify
from sample_images.recipes import machine
from tests.filesystem.matrix import COMBINATIONS, built, kernel_missing
from tests.filesystem.matrix_oracle import debugfs


def is_clean_to_e2fsck(image: Path, work: Path) -> bool:
    """What `e2fsck -fn` says once the log was replayed, in a copy."""
    copy = work / "copy"
    shutil.copyfile(image, copy)
    subprocess.run(["e2fsck", "-E", "journal_only", "-p", copy], capture_output=True, check=False)
    done = subprocess.run(["e2fsck", "-fn", copy], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.kernel
@pytest.mark.parametrize("name", [one.name for one in COMBINATIONS])
def test_a_clean_file_system_gives_no_finding(name: str, tmp_path: Path) -> None:
    if missing := kernel_missing():
        pytest.skip(missing)
    image = built(name).image
    with ext4kit.open(image) as opened:
        result = verify(opened.volume().filesystem())
    clean = is_clean_to_e2fsck(image, tmp_path)
    assert clean or name == "project_quota", "the oracle finds something: not a healthy image"
    assert result.is_clean is clean, result.findings.kept[:5]
    assert not clean or not result.findings.counts, result.findings.counts


@pytest.mark.kernel
def test_what_was_removed_while_open_waits_and_is_no_damage(
    needs_kernel: None, tmp_path: Path
) -> None:
    """A folder and the file in it, both removed while open, as a power cut leaves them."""
    image, root, cut = (tmp_path / name for name in ("disk.img", "root", "cut.img"))
    machine.make_file_system(image, 16 << 20, ("-t", "ext4"))
    root.mkdir()
    with machine.loop_device(image) as device:
        machine.mount(device, root, "noatime")
        try:
            folder, file = root / "above" / "folder", root / "above" / "folder" / "file"
            folder.mkdir(parents=True)
            file.write_bytes(b"open")
            handles = [os.open(path, os.O_RDONLY) for path in (folder, file)]
            numbers = {os.fstat(handle).st_ino for handle in handles}
            file.unlink()
            folder.rmdir()
            machine.sync(root)
            machine.copy_sparse(image, cut)
            for handle in handles:
                os.close(handle)
        finally:
            machine.unmount(root)
    with ext4kit.open(cut) as opened:
        found = verify(opened.volume().filesystem()).findings
    assert set(found.counts) == {"inode-orphan-waiting"}
    assert {each.inode for each in found.kept} == numbers


def test_a_quota_counts_the_inodes_that_hold_values_of_attributes(tmp_path: Path) -> None:
    image, tree, value = (tmp_path / name for name in ("disk.img", "tree", "value"))
    tree.mkdir()
    value.write_bytes(b"value" * 2000)
    make = ("-t", "ext4", "-O", "ea_inode,quota", "-d", str(tree))
    for number in range(3):
        (tree / f"{number}").touch()
    machine.make_file_system(image, 16 << 20, make)
    debugfs(image, *(f"ea_set -f {value} /{number} user.n" for number in range(3)), write=True)
    subprocess.run(["e2fsck", "-fy", image], capture_output=True, check=False)  # writes the quotas
    assert is_clean_to_e2fsck(image, tmp_path)
    with ext4kit.open(image) as opened:
        result = verify(opened.volume().filesystem())
    assert not result.findings.counts, result.findings.kept[:5]
