"""What tells itself by its own bytes: inodes, first blocks and directories, against debugfs."""

from __future__ import annotations

import re
import stat
import struct
from typing import Any

import numpy as np
import pytest

from ext4kit.parsers.traces import (
    find_dirblock_tails,
    find_dot_entries,
    first_blocks,
    inline_extents,
    is_index_block,
    plausible_inodes,
)
from tests.parsers.reference import Image, make_image, run

DIRECTORIES = ("", "a", "a/b", "many")
FILES = {"a/empty": 0, "a/one": 1, "a/b/large": 40_000, "one-k": 1024}
OPTIONS = {
    "extents": ("-O", "metadata_csum"),
    "block maps": ("-O", "^extents,^64bit,^metadata_csum,^filetype"),
    "inline": ("-O", "inline_data"),
}


@pytest.fixture(scope="module", params=OPTIONS)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("traces")
    for name in DIRECTORIES:
        (folder / "tree" / name).mkdir(parents=True, exist_ok=True)
    for name, size in FILES.items():
        (folder / "tree" / name).write_bytes(b"x" * size)
    for number in range(300):
        (folder / "tree" / "many" / f"a-name-of-some-length-{number:04}").touch()
    (folder / "tree" / "link").symlink_to("a/one")
    made = make_image(folder, 8, "-b", "1024", "-I", "256", *OPTIONS[request.param])
    run("e2fsck", "-fyD", made.path, accept=(0, 1))
    return made


def number_of(image: Image, path: str) -> int:
    return image.stat(f"/{path}", r"Inode: (\d+)")


def slots(image: Image) -> Any:
    """The inode table, by number - 1."""
    first = int(re.findall(r"Inode table at (\d+)", run("dumpe2fs", image.path))[0])
    count = int(image.header["Inodes per group"])
    raw = image.read(first * 1024, count * 256)
    return np.frombuffer(raw, np.uint8).reshape(-1, 256)


def units(image: Image) -> Any:
    return np.frombuffer(image.path.read_bytes(), np.uint8).reshape(-1, 1024)


def is_inline(image: Image, path: str) -> bool:
    return bool(_flags(image, path) & 0x10000000)


def _flags(image: Image, path: str) -> int:
    found = re.search(r"Flags: 0x([0-9a-f]+)", image.debugfs(f"stat /{path}"))
    assert found is not None
    return int(found[1], 16)


def test_inodes_in_use_are_those_that_the_bitmap_says(image: Image) -> None:
    rows = plausible_inodes(slots(image)) + 1
    count = int(image.header["Inodes per group"])
    asked = image.debugfs(*(f"testi <{number}>" for number in range(1, count + 1)))
    in_use = {int(one) for one in re.findall(r"Inode (\d+) is marked in use", asked)}
    first = int(image.header["First inode"])
    assert {row for row in rows.tolist() if row >= first} == {one for one in in_use if one >= first}
    assert {2, 8} <= set(rows.tolist()) <= in_use


def test_the_first_block_of_files_and_directories_is_that_of_debugfs(image: Image) -> None:
    table = slots(image)
    rows = plausible_inodes(table)
    for kind, paths in ((stat.S_IFDIR, DIRECTORIES), (stat.S_IFREG, FILES)):
        row, block, generation = first_blocks(table, rows, kind)
        known = dict(
            zip(
                (row + 1).tolist(),
                zip(block.tolist(), generation.tolist(), strict=True),
                strict=True,
            )
        )
        for path in paths:
            number = number_of(image, path)
            if is_inline(image, path) or FILES.get(path) == 0:
                assert number not in known
                continue
            expected = (
                image.data_blocks(f"/{path}")[0],
                image.stat(f"/{path}", r"Generation: (\d+)"),
            )
            assert known[number] == expected
    least, _, _ = first_blocks(table, rows, stat.S_IFREG, least=40_000)
    large = number_of(image, "a/b/large") - 1
    assert large in least.tolist()
    assert set(least.tolist()) <= {large, 8 - 1, 7 - 1}  # and the journal, and the resize inode


def test_extents_in_an_inode_are_those_that_debugfs_maps(image: Image) -> None:
    for path in FILES:
        blocks = image.data_blocks(f"/{path}") if FILES[path] else []
        found = inline_extents(image.inode_raw(f"/{path}"))
        if not _flags(image, path) & 0x80000:
            assert found == []
            continue
        assert [one for first, count in found for one in range(first, first + count)] == blocks


def test_directories_are_found_by_their_dots(image: Image) -> None:
    row, number, parent, typed = find_dot_entries(units(image)[:, :24])
    found = dict(zip(row.tolist(), zip(number.tolist(), parent.tolist(), strict=True), strict=True))
    expected = {}
    for path in (*DIRECTORIES, "lost+found"):
        if not is_inline(image, path):
            above = number_of(image, path.rpartition("/")[0])
            expected[image.data_blocks(f"/{path}")[0]] = (number_of(image, path), above)
    assert found == expected
    assert typed is ("filetype" in image.header["Filesystem features"].split())


DOTS = struct.pack("<IHBB4sIHBB4s", 12, 12, 1, 2, b".\0\0\0", 2, 1012, 2, 2, b"..\0\0")


@pytest.mark.parametrize(
    ("at", "data", "is_one"),
    [
        (0, DOTS, True),
        (7, b"\0", True),  # without the filetype feature
        (0, b"\0\0\0\0", False),
        (4, b"\x10", False),
        (6, b"\2", False),
        (7, b"\1", False),
        (8, b"..", False),
        (12, b"\1\0\0\0", True),
        (12, b"\0\0\0\0", False),
        (16, b"\x0c\0", True),
        (16, b"\x0d\0", False),
        (16, b"\x0e\0", False),
        (18, b"\1", False),
        (18, b"\3", False),
        (20, b".\0", False),
        (20, b"...", False),
        (20, b"..\0x", False),
    ],
)
def test_what_are_no_dots_begins_no_directory(at: int, data: bytes, is_one: bool) -> None:
    changed = DOTS[:at] + data + DOTS[at + len(data) :]
    row, _, _, _ = find_dot_entries(np.frombuffer(bytes(24) + changed, np.uint8).reshape(2, 24))
    assert row.tolist() == [1] * is_one


def test_blocks_of_an_index_and_leaves_are_told_apart(image: Image) -> None:
    numbers = image.data_blocks("/many")
    printed = image.debugfs("htree_dump /many")
    leaves = {int(one) for one in re.findall(r"Reading directory block \d+, phys (\d+)", printed)}
    assert len(leaves) == len(numbers) - 1
    found = is_index_block(units(image)[numbers])
    assert [number not in leaves for number in numbers] == found.tolist()


def test_tails_of_directory_blocks_are_where_checksums_are(image: Image) -> None:
    tails = set(find_dirblock_tails(units(image)).tolist())
    with_tails = "metadata_csum" in image.header["Filesystem features"].split()
    leaves = {
        one
        for path in (*DIRECTORIES, "lost+found")
        if not is_inline(image, path)
        for one in image.data_blocks(f"/{path}")
    } - {image.data_blocks("/many")[0]}  # the root of its index has a tail of another form
    assert tails == (leaves if with_tails else set())
