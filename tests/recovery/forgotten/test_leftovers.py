"""The judgement on freed blocks is itself held to account: hand-made outputs and blocks."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from sample_images import build
from sample_images.recipes.entryscan import entries_left
from sample_images.recipes.leftovers import Leftovers, judge_leftovers
from sample_images.recipes.machine import make_file_system, run
from sample_images.recipes.ondisk import Disk
from sample_images.recipes.truth import FileTruth, LiveFile, Truth, load

BLOCK = 4096
CONTENT = random.Random(1).randbytes(2 * BLOCK + 100)
OTHER = random.Random(2).randbytes(2 * BLOCK)
FREE = 1500  # a block that mke2fs leaves alone


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An empty file system with `CONTENT` in some free blocks."""
    path = tmp_path / "disk.img"
    make_file_system(path, 8 << 20, ("-t", "ext4", "-O", "^has_journal"))
    with path.open("r+b") as disk:
        disk.seek(FREE * BLOCK)
        disk.write(CONTENT)
    return path


def _truth(**changes: Any) -> Truth:
    values: dict[str, Any] = dict(
        path=b"a/b.txt", inode=12, generation=7, size=len(CONTENT), mode=0o100644, uid=0, gid=0,
        mtime_ns=0, sha256=hashlib.sha256(CONTENT).hexdigest(), blocks=[(0, FREE, 3, False)],
        blocks_hold=True, name_left=True, path_left=True,
    )  # fmt: skip
    return Truth("hand", [FileTruth(**{**values, **changes})])


def _judge(image: Path, truth: Truth, *outputs: tuple[bytes, dict[str, Any]]) -> Leftovers:
    out = image.parent / "out"
    (out / "carved").mkdir(parents=True)
    lines = []
    for at, (content, record) in enumerate(outputs):
        name = f"carved/{at}"
        (out / name).write_bytes(content)
        lines.append(json.dumps({"output": name, "grade": "carved", **record}) + "\n")
    (out / "manifest.jsonl").write_text("".join(lines))
    return judge_leftovers(image, truth, out)


def test_bytes_count_without_a_name_and_a_name_without_its_path(image: Path) -> None:
    nameless = _judge(image, _truth(), (CONTENT, {}))
    assert (nameless.holding, nameless.exact, nameless.named, nameless.pathed) == (1, 1, 0, 0)
    assert (nameless.carved, nameless.carved_exact, nameless.wrong) == (1, 1, 0)
    assert [one.inode for one in nameless.nameless] == [12]


def test_name_and_path_are_told_apart(image: Path) -> None:
    named = _judge(image, _truth(), (CONTENT, {"name": "b.txt", "path": None}))
    assert (named.named, named.pathed, named.names_given, named.paths_given) == (1, 0, 1, 0)


def test_the_full_path_counts_for_both(image: Path) -> None:
    pathed = _judge(image, _truth(), (CONTENT, {"path": "/a/b.txt", "inode": 12, "generation": 7}))
    assert (pathed.named, pathed.pathed, pathed.names_given, pathed.paths_given) == (1, 1, 1, 1)


def test_a_content_under_the_inode_and_name_of_another_is_told(image: Path) -> None:
    other = FileTruth(
        path=b"a/c.txt", inode=13, generation=8, size=len(OTHER), mode=0o100644, uid=0, gid=0,
        mtime_ns=0, sha256=hashlib.sha256(OTHER).hexdigest(), blocks=[(0, FREE + 9, 2, False)],
    )  # fmt: skip
    truth = _truth()
    truth.files.append(other)
    own = {"path": "/a/b.txt", "inode": 12, "generation": 7, "first_block": FREE, "blocks": 3}
    came = _judge(
        image, truth, (CONTENT, own), (OTHER, {**own, "first_block": FREE + 9}), (OTHER, {})
    )
    assert (came.joined, [one.sha256 for one in came.misjoined]) == (2, [other.sha256])
    assert [one.sha256 for one in came.misnamed] == [other.sha256]


def test_a_joined_content_whose_end_is_not_right_is_still_the_right_one(image: Path) -> None:
    own = {"path": "/a/b.txt", "inode": 12, "generation": 7, "first_block": FREE, "blocks": 3}
    came = _judge(image, _truth(), (CONTENT[:-7], own))
    assert (came.joined, came.misjoined, came.misnamed, came.wrong) == (1, [], [], 1)


def test_a_file_that_is_only_partly_there_is_not_asked_for(image: Path) -> None:
    assert _judge(image, _truth(blocks_hold=False)).holding == 0


def test_a_part_of_a_file_is_wrong_and_as_intact_the_worst(image: Path) -> None:
    told = {"inode": 12, "generation": 7, "grade": "intact"}
    result = _judge(image, _truth(), (CONTENT[:BLOCK], told), (CONTENT[BLOCK:], {}))
    assert (result.exact, result.wrong, len(result.intact_wrong)) == (0, 2, 1)
    assert (result.carved, result.carved_exact, result.is_bad) == (1, 0, True)


def test_a_block_in_two_outputs_is_found_whatever_the_manifest_says(image: Path) -> None:
    assert _judge(image, _truth(), (CONTENT, {}), (CONTENT[BLOCK:], {})).twice == 2


def test_bytes_that_are_on_the_disk_twice_may_come_twice(image: Path) -> None:
    with image.open("r+b") as disk:
        disk.seek((FREE + 100) * BLOCK)
        disk.write(CONTENT)
    assert _judge(image, _truth(), (CONTENT, {}), (CONTENT, {})).twice == 0


def test_a_block_claimed_by_two_records_is_found_whatever_was_written(image: Path) -> None:
    first, second = {"extents": [[0, FREE, 2]]}, {"extents": [[0, FREE + 1, 2], [2, 900, 1]]}
    result = _judge(image, _truth(), (CONTENT, first), (OTHER, second))
    assert (result.twice, result.claimed_twice) == (0, 1)


def test_the_bytes_of_a_living_file_are_found(image: Path) -> None:
    truth = _truth()
    truth.live.append(LiveFile(b"c", 13, 8, hashlib.sha256(OTHER).hexdigest()))
    result = _judge(image, truth, (CONTENT, {}), (OTHER, {}))
    assert (len(result.live), result.wrong) == (1, 0)


def test_an_entry_is_found_in_a_free_block_at_any_place_and_nowhere_else(image: Path) -> None:
    entry = struct.pack("<IHBB", 77, 16, 5, 1) + b"a.txt"
    inside = struct.pack("<IHBB", 78, 16, 5, 1) + b"b.txt"
    with image.open("r+b") as disk:
        disk.seek((FREE + 50) * BLOCK + 1236)
        disk.write(entry)
        disk.seek(3 * BLOCK + 40)  # within the file system's own metadata
        disk.write(inside)
    wanted = {(77, b"a.txt"), (77, b"b.txt"), (78, b"b.txt"), (79, b"a.txt")}
    with Disk(image) as disk:
        assert entries_left(disk, wanted) == {(77, b"a.txt")}


@pytest.mark.kernel
def test_the_entries_of_a_removed_tree_lie_in_blocks_that_debugfs_calls_free(
    tmp_path: Path,
) -> None:
    made = build("forgotten_tree", tmp_path, small=True)
    left = [one for one in load(made.truth).files if one.name_left]
    raw = made.image.read_bytes()
    assert left
    for one in left[::10]:
        name = one.path.rsplit(b"/", 1)[-1]
        head, tail = struct.pack("<I", one.inode), bytes([len(name), 1]) + name
        entry = re.escape(head) + rb".." + re.escape(tail)
        places = [found.start() // BLOCK for found in re.finditer(entry, raw, re.DOTALL)]
        said = [run("debugfs", "-R", f"testb {place}", made.image) for place in places]
        assert any(b"not in use" in words for words in said), (one.path, places)
