"""What blocks are by their place, and who had the others: beside dumpe2fs, and by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.filesystem.block_maps import BlockMaps, Runs
from ext4kit.journal import Log
from ext4kit.journal import block_types as owners_module
from ext4kit.journal.block_types import BlockRole, Owners, by_place, first_inodes
from tests.journal.debugfs_session import spread
from tests.journal.kernel_log import opened, run

FORMS = {
    "plain": ("-b 1024", "16M"),
    "small groups": ("-b 1024 -g 1024 -N 4096 -O ^flex_bg", "16M"),
    "flexible": ("-b 1024 -g 1024 -N 4096 -G 4", "15500K"),
    "meta_bg": ("-b 1024 -g 256 -N 4096 -O meta_bg,^resize_inode,^flex_bg", "16M"),
    "all backups": ("-b 1024 -g 1024 -N 4096 -O ^sparse_super,^resize_inode", "16M"),
    "4k": ("-b 4096 -g 2048", "48M"),
    "mmp": ("-b 1024 -O mmp", "16M"),
    "inode 512": ("-b 1024 -I 512 -g 1024 -N 2048", "16M"),
}


def ranges(text: str) -> Iterator[int]:
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


def told(image: Path) -> dict[int, tuple[BlockRole, int]]:
    """Block -> what it is, as dumpe2fs and debugfs tell."""
    text = run("dumpe2fs", image)
    found: dict[int, tuple[BlockRole, int]] = {}
    per_group = int(re.findall(r"Inodes per group: +(\d+)", text)[0])
    size = int(re.findall(r"Block size: +(\d+)", text)[0])
    per_block = size // int(re.findall(r"Inode size:\s+(\d+)", text)[0])
    for number, part in enumerate(re.split(r"\nGroup (?=\d)", text)[1:]):
        for pattern, kind in (
            (r"(?:Primary|Backup) superblock at (\d+)", BlockRole.SUPERBLOCK),
            (r"Group descriptors? at ([\d-]+)", BlockRole.DESCRIPTORS),
            (r"Reserved GDT blocks at ([\d-]+)", BlockRole.DESCRIPTORS),
        ):
            for place in re.findall(pattern, part):
                found |= {block: (kind, -1) for block in ranges(place)}
        for pattern, kind in (
            (r"Block bitmap at (\d+)", BlockRole.BLOCK_BITMAP),
            (r"Inode bitmap at (\d+)", BlockRole.INODE_BITMAP),
        ):
            found[int(re.findall(pattern, part)[0])] = (kind, number)
        table = list(ranges(re.findall(r"Inode table at ([\d-]+)", part)[0]))
        first = number * per_group + 1
        found |= {
            block: (BlockRole.INODES, first + place * per_block)
            for place, block in enumerate(table)
        }
    for block in spread(run("debugfs", "-R", "stat <8>", image)):
        found[block] = (BlockRole.JOURNAL, -1)
    for place in re.findall(r"MMP block number: +(\d+)", text):
        found[int(place)] = (BlockRole.MMP, -1)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_every_block_with_a_place_is_what_dumpe2fs_says(form: str, tmp_path: Path) -> None:
    options, size = FORMS[form]
    image = tmp_path / "image"
    journal = 4 if "4096" in options.split("-N")[0] else 1
    run("mke2fs", "-q", "-F", "-t", "ext4", "-J", f"size={journal}", *options.split(), image, size)
    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    blocks = np.arange(fs.superblock.blocks_count)
    kind, number = by_place(fs, log, blocks)
    expected = told(image)
    got = {
        block: (BlockRole(one), which)
        for block, one, which in zip(blocks.tolist(), kind.tolist(), number.tolist(), strict=True)
        if one != BlockRole.UNKNOWN
    }
    if fs.superblock.first_data_block == 0 and fs.superblock.block_size > 1024:
        assert got.pop(0) == expected.pop(0)
    got.pop(0, None)  # the boot block of 1,024 bytes is in no group
    assert got == expected


def test_blocks_outside_have_no_place(tmp_path: Path) -> None:
    image = tmp_path / "image"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=1", image, "4M")
    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    blocks = np.array([-5, -1, 4095, 4096, 1 << 40])
    kind, number = by_place(fs, log, blocks)
    outside, unknown = int(BlockRole.OUTSIDE), int(BlockRole.UNKNOWN)
    assert kind.tolist() == [outside, outside, unknown, outside, outside]
    assert number.tolist() == [-1] * 5
    table = int(fs.groups.inode_table[0])
    last = table + fs.superblock.inodes_per_group // 4
    asked = np.array([table - 1, table, table + 1, last - 1, last, 0])
    assert first_inodes(fs, asked).tolist() == [
        -1, 1, 5, fs.superblock.inodes_per_group - 3, -1, -1
    ]  # fmt: skip
    assert [len(part) for part in by_place(fs, log, blocks[:0])] == [0, 0]


# --- owners ---------------------------------------------------------------------------------


def states(*rows: tuple[int, int, int, int]) -> Any:
    """Inodes as (number, generation, mode, block of attributes)."""
    columns = np.array(rows, np.int64).reshape(-1, 4).T

    class Table(SimpleNamespace):
        def __len__(self) -> int:
            return len(rows)

    number, generation, mode, file_acl = columns
    return Table(number=number, generation=generation, mode=mode, file_acl=file_acl)


def maps(runs: list[tuple[int, int, int]], nodes: list[tuple[int, int]]) -> BlockMaps:
    """Runs as (owner, first block, length), tree blocks as (owner, block)."""
    owner, first, length = np.array(runs, np.int64).reshape(-1, 3).T
    table = np.array(nodes, np.int64).reshape(-1, 2)
    data = Runs(owner, first * 0, length, first, first < 0)
    return cast(BlockMaps, SimpleNamespace(runs=data, tree_blocks=(table[:, 0], table[:, 1])))


FILE, DIRECTORY, LINK, PIPE = 0o100644, 0o040755, 0o120777, 0o010644


def asked(owners: Owners, block: int, *orders: int) -> list[tuple[int, int]]:
    kind, number = owners.of(np.full(len(orders), block), np.array(orders))
    return list(zip(kind.tolist(), number.tolist(), strict=True))


@pytest.mark.parametrize("at_once", [1, 2, 1 << 20])
def test_owners_of_blocks_are_those_whose_maps_have_them(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners_module, "AT_ONCE", at_once)
    owners = Owners(np.array([10, 11, 15, 20, 30, 40]))
    assert owners.unowned.tolist() == [10, 11, 15, 20, 30, 40]
    assert asked(owners, 10, 5) == [(0, -1)]
    table = states((12, 1, FILE, 30), (13, 1, DIRECTORY, 0), (14, 1, LINK, 0), (15, 1, PIPE, 0))
    owners.add(
        table, np.array([5, 5, 6, 7]),
        maps([(0, 8, 4), (1, 15, 1), (2, 20, 3)], [(0, 40), (3, 99)]),
    )  # fmt: skip
    assert owners.unowned.tolist() == []
    data, directory, link = (
        int(one) for one in (BlockRole.FILE_DATA, BlockRole.DIRECTORY, BlockRole.SYMLINK)
    )
    assert asked(owners, 10, 5, 4, 9) == [(data, 12)] * 3
    assert asked(owners, 11, 5) == [(data, 12)]
    assert asked(owners, 15, 5) == [(directory, 13)]
    assert asked(owners, 20, 6) == [(link, 14)]
    assert asked(owners, 30, 5) == [(int(BlockRole.XATTR), 12)]
    assert asked(owners, 40, 5) == [(int(BlockRole.MAP_NODE), 12)]


def test_the_last_owner_who_came_not_later_is_meant() -> None:
    owners = Owners(np.array([10, 11]))
    for number, order in ((12, 5), (13, 8), (14, 20)):
        table = states((number, 1, FILE, 0))
        owners.add(table, np.array([order]), maps([(0, 10, 2 if number == 13 else 1)], []))
    data = int(BlockRole.FILE_DATA)
    assert [number for _, number in asked(owners, 10, 1, 5, 7, 8, 19, 20, 99)] == [
        12, 12, 12, 13, 13, 14, 14
    ]  # fmt: skip
    assert asked(owners, 11, 1, 8, 99) == [(data, 13)] * 3
    assert owners.claims[:, 1].tolist().count(5) == 1


def test_a_claim_counts_from_its_first_transaction_on() -> None:
    owners = Owners(np.array([10]))
    for order in (9, 5, 7):
        owners.add(states((12, 1, FILE, 0)), np.array([order]), maps([(0, 10, 1)], []))
    assert owners.claims.tolist() == [[0, 5, 12, int(BlockRole.FILE_DATA), 1]]
    owners.add(states((12, 2, FILE, 0)), np.array([6]), maps([(0, 10, 1)], []))
    assert owners.claims[:, 4].tolist() == [1, 2]
