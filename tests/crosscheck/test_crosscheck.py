"""Each difference between ext4kit and The Sleuth Kit, with the kernel as the arbiter."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ext4kit as library
from ext4kit.crosscheck import (
    CrossCheck,
    CrossCheckOptions,
    Difference,
    LikelyRight,
    bytes_held,
    contents,
    crosscheck,
    usual_limit,
    worker,
)
from ext4kit.crosscheck.second import TskClient
from ext4kit.journal import ReplayedBlocks
from sample_images.recipes import machine
from tests.conftest import Cli
from tests.filesystem.matrix import COMBINATIONS, Built, build, kernel_missing
from tests.filesystem.matrix_oracle import debugfs

NO_TIME = "{} not read by The Sleuth Kit within the time limit"
MUCH = 1 << 30  # The Sleuth Kit walks over every block of such a file when it lists its folder
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


def compared(image: Path, patience: float = 60.0, limit: float = 600.0) -> CrossCheck:
    """The comparison of an image, the contents too."""
    with library.open(image) as opened:
        volume = opened.volume()
        now, raw = volume.filesystem(), volume.filesystem(replay=False)
        before = raw if isinstance(now.blocks, ReplayedBlocks) else None
        result = crosscheck(
            volume.facts.source, now, before, CrossCheckOptions(True, None, patience, limit)
        )
        result.groups = [
            replace(group, one=dict(enumerate(map(group.one, range(len(group.cause))))).__getitem__)
            for group in result.groups
        ]
        return result


NO_LARGE_FILE = "^metadata_csum,^large_file,^huge_file"
MOMENT = (1 << 33) * 10**9  # after 2038
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
    with pytest.MonkeyPatch.context() as patch:
        if name == "ext2":
            patch.setattr(worker._Reader, "listing", _gives_up_at(_heavy_folders(built)))
        result = compared(image)
    yield built, result
    image.unlink()


def _heavy_folders(built: Built) -> set[int]:
    """Inode numbers of folders with a file that The Sleuth Kit takes seconds to minutes for."""
    tree = built.tree
    heavy = [path for path, number in tree.paths.items() if _size(tree.nodes[number]) > MUCH]
    return {tree.paths[path.rpartition(b"/")[0]] for path in heavy}


def _size(node: Any) -> int:
    return node.numbers["size"] if node.digest is not None else 0


def _gives_up_at(folders: set[int]) -> Callable[[Any, int], Any]:
    """The listing of a process that dies at some folders, so that no clock decides."""
    listing = worker._Reader.listing
    return lambda self, number: os._exit(11) if number in folders else listing(self, number)


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
    assert difference.cause.right is LikelyRight.EXT4KIT
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
    slow = result.left_out["names in directories whose reading took too long"]
    assert result.entries + slow + missing[False] == len(built.tree.paths)
    if built.combination.name == "ext2":
        heavy = _heavy_folders(built)
        below = [path for path in built.tree.paths if _parent(built, path) in heavy]
        assert slow == len(below) > 0
        assert not result.agrees


def _parent(built: Built, path: bytes) -> int | None:
    return built.tree.paths.get(path.rpartition(b"/")[0])


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
        result = crosscheck(
            source, ours.volume().filesystem(), None, CrossCheckOptions(hashes=True)
        )
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


@pytest.mark.kernel
def test_fields_that_an_inode_does_not_have_are_known(tmp_path: Path) -> None:
    """Times where i_extra_isize does not reach, and a size without the large_file feature."""
    image, mounted = tmp_path / "extra.img", tmp_path / "mounted"
    mounted.mkdir()
    machine.make_file_system(image, 8 << 20, ("-t", "ext4", "-b", "1024", "-O", NO_LARGE_FILE))
    sizes = {f"extra {size}": size for size in range(4, 28, 4)}
    with machine.loop_device(image) as device:
        machine.mount(device, mounted, "rw")
        for name in (*sizes, "large"):
            (mounted / name).write_bytes(b"x")
            os.utime(mounted / name, ns=(MOMENT + 123_456_789, MOMENT + 987_654_321))
        machine.unmount(mounted)
    requests = [f'sif "/{name}" extra_isize {size}' for name, size in sizes.items()]
    debugfs(image, *requests, f"sif /large size {5 << 30}", write=True)
    found = list(compared(image).differences())
    assert {each.cause.code for each in found} == {"extra-size", "epoch", "high-size"}
    with machine.loop_device(image) as device:
        machine.mount(device, mounted, "ro,noload")
        said = {each: _of_the_kernel(mounted, each) for each in found if each.field != "crtime"}
        born = machine.run("stat", "-c", "%w", mounted / "extra 16").strip()
        machine.unmount(mounted)
    assert said == {each: each.ext4kit for each in said}
    crtimes = [each for each in found if each.field == "crtime" and each.path != b"/extra 20"]
    assert (born, {each.ext4kit for each in crtimes}) == (b"-", {0})


def _of_the_kernel(root: Path, difference: Difference) -> int:
    stat = (root / os.fsdecode(difference.path.lstrip(b"/"))).stat()
    name = "st_size" if difference.field == "size" else f"st_{difference.field}_ns"
    value: int = getattr(stat, name)
    return value


def test_entries_that_cannot_be_are_known(plain: Path, tmp_path: Path) -> None:
    """Debugfs lists the name of an impossible inode, and stops at a broken entry as we do."""
    data = plain.read_bytes()
    place = data.index(b"file-11") - 8
    beyond, broken = tmp_path / "beyond.img", tmp_path / "broken.img"
    beyond.write_bytes(data[:place] + (1 << 24).to_bytes(4, "little") + data[place + 4 :])
    broken.write_bytes(data[: place + 4] + b"\3\0" + data[place + 6 :])
    (found,) = compared(beyond).differences()
    assert (found.path, found.cause.code) == (b"/folder/file-11", "no-such-inode")
    assert b"%d" % (1 << 24) in debugfs(beyond, "ls /folder")
    listed = debugfs(broken, "ls -p /folder").split(b"/")
    unseen = {b"file-%d" % number for number in range(20)} - {b"file-11"} - set(listed)
    lost = {each.path: each.cause.code for each in compared(broken).differences()}
    assert lost == {b"/folder/" + name: "broken-block" for name in unseen}
    assert unseen


def test_names_in_folders_that_count_as_deleted_are_told(plain: Path, tmp_path: Path) -> None:
    image = tmp_path / "freed.img"
    image.write_bytes(plain.read_bytes())
    debugfs(image, "freei <2>", write=True)
    found = list(compared(image).differences())
    assert len(found) == 23
    assert {each.cause.code for each in found} == {"shown-deleted"}


def test_names_whose_inode_counts_as_free_are_told(plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.img"
    other.write_bytes(plain.read_bytes())
    debugfs(other, "unlink /folder/file-3", write=True)
    found = [each for each in between(plain, other) if each.field == "name"]
    assert [each.path for each in found] == [b"/folder/file-3"]
    assert found[0].tsk is None
    assert found[0].cause.right is LikelyRight.OPEN


def test_what_it_cannot_open_is_told_with_the_reason(ext4kit: Cli, tmp_path: Path) -> None:
    image = tmp_path / "bigalloc.img"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "bigalloc", str(image), "64M"]
    subprocess.run(command, check=True, capture_output=True)
    done = ext4kit("crosscheck", image, "--json")
    assert done.returncode == 1
    (record,) = map(json.loads, done.stdout.splitlines())
    assert "bigalloc" in record["tsk_refusal"]
    assert not record["agrees"]
    assert compared(image).hello is None
    assert not multiprocessing.active_children()


@pytest.mark.heavy
def test_a_reader_that_dies_or_hangs_ends_nothing(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, unasked = "names in directories whose reading took too long", NO_TIME.format("names")
    doings = {"dies": lambda: os._exit(11), "hangs": lambda: time.sleep(600)}
    cases = (("dies", 60, 60, slow), ("hangs", 0.2, 60, slow), ("hangs", 60, 0.2, unasked))
    for name, patience, limit, told in cases:
        does = doings[name]
        monkeypatch.setattr(worker._Reader, "listing", lambda self, number, does=does: does())
        result = compared(plain, patience, limit)
        assert result.left_out == {told: 23}
        assert not result.agrees
        assert not multiprocessing.active_children()


def test_what_there_was_no_time_for_is_told(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over after the first folder, then after the first batch of contents."""
    with monkeypatch.context() as patch:
        patch.setattr(TskClient, "listing", _ends_time(TskClient.listing))
        result = compared(plain)
        assert (result.directories, result.entries) == (1, 4)
        assert result.left_out == {
            NO_TIME.format("names"): 20,
            NO_TIME.format("content of files"): 1,
        }
    monkeypatch.setattr(TskClient, "digests", _ends_time(TskClient.digests))
    monkeypatch.setattr(contents, "_FILES_AT_ONCE", 8)
    result = compared(plain)
    assert (result.entries, result.contents, result.total) == (24, 8, 0)
    assert result.left_out == {NO_TIME.format("content of files"): 13}
    assert not result.agrees


def _ends_time(method: Callable[..., Any]) -> Callable[..., Any]:
    def last(self: TskClient, *arguments: Any) -> Any:
        answer = method(self, *arguments)
        self._left = 0.0
        return answer

    return last


def test_how_long_it_may_take_depends_on_what_the_evidence_holds(tmp_path: Path) -> None:
    sparse, full = tmp_path / "sparse", tmp_path / "full"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    full.write_bytes(bytes(8 << 20))
    held = [bytes_held((path,), path.stat().st_size) for path in (sparse, full)]
    assert held[0] < 1 << 20 < 8 << 20 <= held[1]
    assert usual_limit(held[0], True) < usual_limit(held[1], True)
    assert usual_limit(held[1], False) < usual_limit(held[1], True)
