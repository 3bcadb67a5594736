"""Each difference between ext4kit and The Sleuth Kit, with the kernel as the arbiter."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.crosscheck import CrossCheck, Difference, Options, Right, crosscheck
from ext4kit.journal import ReplayedBlocks
from tests.conftest import Cli
from tests.filesystem.matrix import COMBINATIONS, Built, build, kernel_missing
from tests.filesystem.matrix_oracle import debugfs

PATIENCE = 3.0
EXPECTED = {
    "default": {"epoch", "link-target"},
    "1k_blocks": {"epoch", "link-target", "index-block"},
    "inline_data_1k": {"inline-directory"},
    "encrypt": {"epoch", "link-target", "name-with-nul"},
    "ext2": {"ext3-times", "epoch", "link-target"},
    "inode_128": {"epoch", "link-target"},
    "unreplayed": {"epoch", "link-target", "journal"},
    "fast_commit": {"epoch", "link-target", "journal"},
}
BY_CHANCE = {"epoch", "name-with-nul", "index-block"}  # random keys, seeds, i_extra_isize
ENTRIES = {"1k_blocks": 5000}


def compared(image: Path, patience: float = 60.0) -> CrossCheck:
    """The comparison of an image, the contents too."""
    with library.open(image) as opened:
        volume = opened.volume()
        now, raw = volume.filesystem(), volume.filesystem(replay=False)
        before = raw if isinstance(now.blocks, ReplayedBlocks) else None
        result = crosscheck(volume.facts.source, now, before, Options(True, patience))
        result.groups = [
            replace(group, one=dict(enumerate(map(group.one, range(len(group.cause))))).__getitem__)
            for group in result.groups
        ]
        return result


LATER = {"default", "inode_128", "fast_commit"}
PARAMETERS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LATER else []) for name in EXPECTED
]


@pytest.fixture(scope="module", params=PARAMETERS)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Built, CrossCheck]]:
    if missing := kernel_missing():
        pytest.skip(missing)
    name = request.param
    combination = next(each for each in COMBINATIONS if each.name == name)
    combination = replace(combination, entries=ENTRIES.get(name, 300))
    image = tmp_path_factory.mktemp("crosscheck") / f"{name}.img"
    built = build(combination, image)
    yield built, compared(image, PATIENCE if name == "ext2" else 60.0)
    image.unlink()


@pytest.mark.kernel
def test_every_difference_has_a_known_cause(case: tuple[Built, CrossCheck]) -> None:
    built, result = case
    wanted = EXPECTED[built.combination.name]
    found = {difference.cause.code for difference in result.differences()}
    assert wanted - BY_CHANCE <= found <= wanted
    assert result.open == 0


@pytest.mark.kernel
def test_the_kernel_says_the_same_as_the_one_who_is_called_right(
    case: tuple[Built, CrossCheck],
) -> None:
    built, result = case
    wrong = [
        (difference, told)
        for difference in result.differences()
        if (told := kernel_says(built, difference)) is not None and told != difference.ext4kit
    ]
    assert not wrong, wrong[:5]


def kernel_says(built: Built, difference: Difference) -> object:
    """The kernel's value where it tells one; None where it does not."""
    tree = built.tree
    assert difference.cause.right is Right.EXT4KIT
    if difference.field == "name":
        there = tree.paths.get(difference.path)
        assert (there is None) == (difference.ext4kit is None), difference
        return there
    node = tree.nodes[tree.paths[difference.path]]
    if difference.field == "content":
        if node.target is not None and not difference.path.startswith(b"/encrypted"):
            return hashlib.sha256(node.target).hexdigest()
        return node.digest.split("-")[1] if node.digest is not None else None
    replayed = built.combination.name == "fast_commit"  # a replay dates directories itself
    if replayed and difference.field in ("mtime", "ctime"):
        return None
    value = node.numbers.get(difference.field)
    return (
        f"{value & 0o7777:04o}" if difference.field == "mode" and isinstance(value, int) else value
    )


@pytest.mark.kernel
def test_everything_is_compared_or_counted_as_left_out(case: tuple[Built, CrossCheck]) -> None:
    built, result = case
    missing = Counter(
        difference.ext4kit is None
        for difference in result.differences()
        if difference.field == "name"
    )
    slow = result.left_out["names in folders that took too long"]
    assert result.entries + slow + missing[False] == len(built.tree.paths)
    if built.combination.name == "ext2":  # a huge sparse file that indirect blocks map
        assert slow
        assert not result.agrees


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small image without root: files, folders, a link."""
    root = tmp_path_factory.mktemp("tree")
    (root / "folder").mkdir()
    for number in range(20):
        (root / f"folder/file-{number}").write_bytes(b"%d\n" % number * 3000)
    (root / "link").symlink_to("folder")
    image = tmp_path_factory.mktemp("plain") / "plain.img"
    command = [
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^metadata_csum",
        "-d",
        str(root),
        str(image),
    ]
    subprocess.run([*command, "16M"], check=True, capture_output=True)
    return image


def between(plain: Path, other: Path) -> list[Difference]:
    """What differs when The Sleuth Kit is given another image than ext4kit."""
    with library.open(plain) as ours, library.open(other) as theirs:
        source = theirs.volume().facts.source
        result = crosscheck(source, ours.volume().filesystem(), None, Options(hashes=True))
        return list(result.differences())


def test_two_readings_of_a_sound_image_agree(ext4kit: Cli, plain: Path) -> None:
    done = ext4kit("crosscheck", plain, "--hashes", "--json")
    assert done.returncode == 0, done.stdout
    (record,) = map(json.loads, done.stdout.splitlines())
    assert record["agrees"]
    assert record["contents"] == 21
    assert record["content_bytes"] == sum(3000 * len(b"%d\n" % n) for n in range(20)) + 6


def test_each_kind_of_change_is_found_and_none_is_made_up(plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.img"
    other.write_bytes(plain.read_bytes())
    changes = {
        "mode": "sif /folder/file-1 mode 0100600",
        "uid": "sif /folder/file-2 uid 70000",
        "gid": "sif /folder/file-3 gid 7",
        "links_count": "sif /folder/file-4 links_count 2",
        "size": "sif /folder/file-5 size 77",
        "mtime": "sif /folder/file-6 mtime @1000000000",
        "crtime": "sif /folder/file-7 crtime @1000000000",
        "atime": "sif /folder/file-8 atime @1000000000",
        "name": "ln /folder/file-9 /folder/new",
    }
    debugfs(other, *changes.values(), write=True)
    found = {(each.field, each.path, each.cause.code) for each in between(plain, other)}
    expected = {
        (field, b"/folder/file-%d" % number, "unexplained")
        for number, field in enumerate(list(changes)[:8], 1)
    }
    expected |= {
        ("name", b"/folder/new", "unexplained"),
        ("content", b"/folder/file-5", "not-read"),
    }
    assert found - {each for each in found if each[0] == "ctime"} == expected


def test_a_changed_byte_is_found(plain: Path, tmp_path: Path) -> None:
    data = bytearray(plain.read_bytes())
    place = data.index(b"17\n17\n17\n")
    data[place] ^= 1
    other = tmp_path / "other.img"
    other.write_bytes(data)
    (found,) = between(plain, other)
    assert (found.field, found.path) == ("content", b"/folder/file-17")
    whole = bytearray(b"17\n" * 3000)
    assert found.ext4kit == hashlib.sha256(whole).hexdigest()
    whole[0] ^= 1
    assert found.tsk == hashlib.sha256(whole).hexdigest()


def test_a_name_with_a_zero_byte_is_known_to_be_cut(plain: Path, tmp_path: Path) -> None:
    image = tmp_path / "nul.img"
    image.write_bytes(plain.read_bytes().replace(b"file-15", b"fil\x00-15"))
    found = list(compared(image).differences())
    assert {(each.path, each.cause.code) for each in found} == {
        (b"/folder/fil", "name-with-nul"),
        (b"/folder/fil\0-15", "name-with-nul"),
    }


def test_names_whose_inode_counts_as_free_are_told(plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.img"
    other.write_bytes(plain.read_bytes())
    debugfs(other, "unlink /folder/file-3", write=True)
    found = [each for each in between(plain, other) if each.field == "name"]
    assert [each.path for each in found] == [b"/folder/file-3"]
    assert found[0].tsk is None
    assert found[0].cause.right is Right.OPEN


def test_what_it_cannot_open_is_told_with_the_reason(ext4kit: Cli, tmp_path: Path) -> None:
    image = tmp_path / "bigalloc.img"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "bigalloc", str(image), "64M"]
    subprocess.run(command, check=True, capture_output=True)
    done = ext4kit("crosscheck", image, "--json")
    assert done.returncode == 1
    (record,) = map(json.loads, done.stdout.splitlines())
    assert "bigalloc" in record["tsk_refusal"]
    assert not record["agrees"]


def test_a_reader_that_dies_or_hangs_ends_nothing(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ext4kit.crosscheck import worker

    monkeypatch.setattr(worker._Reader, "listing", _dies)
    result = compared(plain, 5.0)
    assert result.left_out["names in folders that took too long"] == 23
    assert not result.agrees


def _dies(self: object, number: int) -> None:
    import os

    os._exit(11)
