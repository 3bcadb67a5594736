"""`extract --as-of` has the grade of `recover`, by the truth of the samples."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ext4kit.opening import open_image
from ext4kit.recovery import JOURNAL_ONLY, DeletedFile, Grade, find_deleted, vouch_by_recovery
from sample_images.recipes.score import read_records
from sample_images.recipes.truth import load
from tests.conftest import Cli, Images

SAMPLES = ("rm_rf_tree", "removed_after_remount", "ext3")


def last_transactions(image: Path) -> dict[int, list[DeletedFile]]:
    """Intact deleted files, by the last transaction that shows each one linked."""
    found: dict[int, list[DeletedFile]] = {}
    with open_image(image) as opened:
        for file in find_deleted(opened.volume().filesystem(), sources=JOURNAL_ONLY):
            last = file.deleted_between[0]
            if file.kind == "file" and file.grade is Grade.INTACT and last is not None:
                found.setdefault(last.transaction, []).append(file)
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_intact_files_are_vouched_for_before_their_deletion(name: str, unpacked: Images) -> None:
    built, count = unpacked(name), 0
    truth = {(one.inode, one.generation): one.sha256 for one in load(built.truth).files}
    with open_image(built.image) as image:
        for transaction, files in last_transactions(built.image).items():
            then = image.volume().filesystem(as_of=transaction)
            doubted = image.volume().filesystem(as_of=transaction)
            vouch_by_recovery(then)
            for file in files:
                assert file.number is not None and file.generation is not None
                inode = then.inode(file.number)
                assert then.content_uncertainty(inode) is None, file.path
                content = then.content(inode).read(0, inode.size)
                told = hashlib.sha256(content).hexdigest()
                assert told == truth[file.number, file.generation]
                count += doubted.content_uncertainty(inode) is not None
    assert count > 1


def test_extract_vouches_for_a_tree_that_was_removed(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    built = unpacked("rm_rf_tree")
    truth = {(one.inode, one.generation): one.sha256 for one in load(built.truth).files}
    last = max(last_transactions(built.image))
    done = ext4kit("extract", built.image, "/", "--as-of", str(last), "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    records = list(read_records(tmp_path / "out"))
    assert not [record for record in records if record["reasons"]]
    removed = [one for one in records if (one["inode"], one["generation"]) in truth]
    assert len(removed) > 40
    for one in removed:
        assert one["sha256"] == truth[one["inode"], one["generation"]], one["path"]


def test_what_recovery_calls_consistent_is_so_with_its_reasons(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    """After a power cut the deleted files are consistent and not intact."""
    built = unpacked("power_cut")
    with open_image(built.image) as image:
        files = list(find_deleted(image.volume().filesystem(), sources=JOURNAL_ONLY))
    doubtful = {
        last.transaction: file.path.decode()
        for file in files
        if (last := file.deleted_between[0])
        and file.path
        and file.path.isascii()
        and file.grade is Grade.CONSISTENT
    }
    transaction, path = doubtful.popitem()
    options = ["--as-of", str(transaction), "-o", tmp_path / "out"]
    done = ext4kit("extract", built.image, path, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 consistent"
    (record,) = read_records(tmp_path / "out")
    assert record["grade"] == "consistent"
    assert record["reasons"]
