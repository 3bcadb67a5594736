"""Blocks and inodes that fast commits give out and take back: bitmaps, groups, superblock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.journal.fast_commits.allocation import BlockAllocator, _GroupDescriptor, writable_inode
from ext4kit.journal.fast_commits.inodes import InodeEditors
from ext4kit.journal.fast_commits.overlay import BlockOverlay
from ext4kit.parsers.group import GroupFlags
from tests.journal.kernel_log import opened, run
from tests.journal.written_fast_commits import (
    CREAT,
    DIRECTORY,
    UNLINK,
    Written,
    add_range,
    entry,
    inode,
    make,
    raw_inode,
)

SMALL = (
    "-b 1024 -g 1024 -N 4096 -O ^flex_bg,^resize_inode,^orphan_file"  # 16 groups, 256 inodes each
)
PLAIN = "-b 1024"
ROOT, PER_GROUP = 2, 256
HUGE_FILE = 0x40000  # i_flags
UNUSED = 5  # a group in which no inode is
NONE = np.zeros(0, np.int64), np.zeros(0, np.int64)


def groups(image: Path) -> list[dict[str, Any]]:
    """What dumpe2fs says of each group: free, directories, unused, flags, free blocks."""
    found: list[dict[str, Any]] = []
    for part in re.split(r"\nGroup (?=\d)", run("dumpe2fs", image))[1:]:
        blocks, inodes, directories = re.findall(
            r"(\d+) free blocks, (\d+) free inodes, (\d+) directories", part
        )[0]
        unused = re.findall(r"(\d+) unused inodes", part)
        found.append({
            "blocks": int(blocks), "inodes": int(inodes), "directories": int(directories),
            "unused": int(unused[0]) if unused else 0,
            "flags": set(re.findall(r"[A-Z]+_[A-Z]+", part.splitlines()[0])),
        })  # fmt: skip
    return found


def written(made: Written) -> list[dict[str, Any]]:
    made.replayed()
    return groups(made.image.with_suffix(".written"))


@pytest.mark.parametrize("lazy", [0, 1])
@pytest.mark.parametrize("slot", [1, 20, 256])
def test_a_group_whose_inodes_were_never_used_begins_to_be(
    slot: int, lazy: int, tmp_path: Path
) -> None:
    made = make(tmp_path, f"{SMALL} -E lazy_itable_init={lazy}")
    number, before = UNUSED * PER_GROUP + slot, groups(made.image)
    assert "INODE_UNINIT" in before[UNUSED]["flags"]
    made.commit(inode(number, raw_inode()), entry(CREAT, ROOT, number, "new"))
    after = written(made)
    assert "INODE_UNINIT" not in after[UNUSED]["flags"]
    assert after[UNUSED]["unused"] == PER_GROUP - slot
    assert after[UNUSED]["inodes"] == PER_GROUP - 1
    assert [one for at, one in enumerate(after) if at != UNUSED] == [
        one for at, one in enumerate(before) if at != UNUSED
    ]


def test_slots_that_come_into_use_are_zeros(tmp_path: Path) -> None:
    """Where the table was never written it holds what was there before the file system."""
    made = make(tmp_path, f"{SMALL} -E lazy_itable_init=1")
    table = int(opened(made.image).groups.inode_table[UNUSED]) * 1024
    made.write(table, b"\xaa" * 256 * 30)
    number = UNUSED * PER_GROUP + 20
    made.commit(inode(number, raw_inode()), entry(CREAT, ROOT, number, "new"))
    view = made.replayed()
    rows = [view.fs.inode(UNUSED * PER_GROUP + slot).raw for slot in range(1, 23)]
    assert all(row == bytes(256) for row in rows[:19])
    assert rows[19][:2] == (0o100644).to_bytes(2, "little")
    assert rows[20] == rows[21] == b"\xaa" * 256


def test_a_second_inode_behind_the_last_one_in_use(tmp_path: Path) -> None:
    """Group 0 has 11 inodes in use: the others count as never written."""
    made = make(tmp_path, f"{SMALL} -E lazy_itable_init=1")
    assert groups(made.image)[0]["unused"] == PER_GROUP - 11
    table = int(opened(made.image).groups.inode_table[0]) * 1024
    made.write(table + 11 * 256, b"\xbb" * 256 * 5)  # inodes 12 to 16
    made.commit(
        inode(14, raw_inode()), entry(CREAT, ROOT, 14, "b"),
        inode(12, raw_inode()), entry(CREAT, ROOT, 12, "a"),
    )  # fmt: skip
    after = written(made)
    view_rows = made.image.with_suffix(".written").read_bytes()[table + 11 * 256 :]
    assert after[0]["unused"] == PER_GROUP - 14
    assert after[0]["inodes"] == PER_GROUP - 13
    assert view_rows[256:512] == bytes(256)  # inode 13
    assert view_rows[768:1024] == b"\xbb" * 256  # inode 15


def test_an_inode_in_front_of_the_last_one_changes_no_count_of_unused(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(5):
        (tree / f"{number}").write_bytes(b"x")
    made = make(tmp_path, SMALL, tree)
    made.change("rm /1")
    before = groups(made.image)[0]
    gone = made.number("/2")
    made.commit(entry(UNLINK, ROOT, gone, "2"), inode(30, raw_inode()), entry(CREAT, ROOT, 30, "n"))
    made.commit(entry(UNLINK, ROOT, 30, "n"))
    after = written(made)[0]
    assert after["inodes"] == before["inodes"] + 1
    assert after["unused"] == before["unused"]


@pytest.mark.parametrize("options", [SMALL, PLAIN])
def test_new_directories_are_counted_in_their_group(options: str, tmp_path: Path) -> None:
    made = make(tmp_path, options)
    per_group = 4096 // len(groups(made.image))
    number, before = per_group + 7, groups(made.image)
    made.commit(
        inode(number, raw_inode(DIRECTORY, 1024, links=2)), entry(CREAT, ROOT, number, "d"),
        inode(number + 1, raw_inode()), entry(CREAT, number, number + 1, "f"),
    )  # fmt: skip
    after = written(made)
    assert [one["directories"] for one in after] == [
        one["directories"] + (at == 1) for at, one in enumerate(before)
    ]
    assert [one["inodes"] for one in after] == [
        one["inodes"] - 2 * (at == 1) for at, one in enumerate(before)
    ]


def test_a_new_block_of_a_directory_lies_in_the_group_of_its_inode(tmp_path: Path) -> None:
    made = make(tmp_path, SMALL)
    number, before = 9 * PER_GROUP + 3, groups(made.image)
    made.commit(inode(number, raw_inode(DIRECTORY, 1024, links=2)), entry(CREAT, ROOT, number, "d"))
    view = made.replayed()
    (block,) = view.fs.block_map(view.fs.inode(number)).physical.tolist()
    assert (block - 1) // 1024 == 9
    assert block == free_in(made.image, 9)[0]
    after = groups(made.image.with_suffix(".written"))
    assert after[9]["blocks"] == before[9]["blocks"] - 1


def test_blocks_in_a_group_that_was_never_written(tmp_path: Path) -> None:
    """Its bitmap is made; a range over two groups is in both."""
    made = make(tmp_path, "-b 1024 -g 1024 -N 4096 -O ^resize_inode -G 16", size="15500K")
    before = groups(made.image)
    assert "BLOCK_UNINIT" in before[13]["flags"]
    border = 1 + 13 * 1024
    made.commit(
        inode(30, raw_inode(size=10 * 1024)), add_range(30, 0, 6, border - 6),
        add_range(30, 6, 4, border), entry(CREAT, ROOT, 30, "new"),
    )  # fmt: skip
    made.commit(
        inode(31, raw_inode(size=2048)), add_range(31, 0, 2, 15498), entry(CREAT, ROOT, 31, "end")
    )
    after = written(made)
    for group, taken in ((12, 6), (13, 4), (15, 2)):
        assert "BLOCK_UNINIT" not in after[group]["flags"]
        assert after[group]["blocks"] == before[group]["blocks"] - taken
    assert after[14] == before[14]


def test_more_than_one_block_of_descriptors(tmp_path: Path) -> None:
    """1,024 bytes hold 16 wide descriptors or 32 narrow ones."""
    for options in ("64bit", "^64bit"):
        folder = tmp_path / options
        folder.mkdir()
        made = make(folder, f"-b 1024 -g 256 -N 2048 -O {options},^resize_inode,^flex_bg")
        before = groups(made.image)
        assert len(before) == 64
        per_group = 2048 // 64
        number = 40 * per_group + 2
        made.commit(inode(number, raw_inode()), entry(CREAT, ROOT, number, "new"))
        after = written(made)
        assert [at for at in range(64) if after[at] != before[at]] == [40]


# --- without fast commits -------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return make(tmp_path, SMALL).image


@pytest.fixture
def fs(image: Path) -> FileSystem:
    return opened(image)


def space_of(fs: FileSystem, *reserved: tuple[int, int]) -> BlockAllocator:
    table = np.array(reserved, np.int64).reshape(-1, 2)
    return BlockAllocator(fs, BlockOverlay(fs.blocks), (table[:, 0], table[:, 1]))


def free_in(image: Path, group: int) -> list[int]:
    """Free blocks of a group, as dumpe2fs lists them."""
    part = re.split(r"\nGroup (?=\d)", run("dumpe2fs", image))[1 + group]
    runs = re.findall(r"(\d+)(?:-(\d+))?", re.findall(r"Free blocks: (.*)", part)[0])
    return [
        block for first, last in runs for block in range(int(first), int(last or first) + 1)
    ]  # fmt: skip


def test_blocks_are_given_out_from_a_group_on(fs: FileSystem, image: Path) -> None:
    ninth, tenth = free_in(image, 9), free_in(image, 10)
    space = space_of(fs)
    assert [space.allocate(9) for _ in range(3)] == ninth[:3]
    space = space_of(fs, (ninth[0], 1), (ninth[2], 3))
    assert [space.allocate(9) for _ in range(3)] == [ninth[1], *ninth[5:7]]
    space = space_of(fs, (ninth[0], len(ninth)))
    assert space.allocate(9) == tenth[0]
    last = free_in(image, 15)
    space = space_of(fs, (last[0], 16384 - last[0]))
    assert space.allocate(15) == free_in(image, 0)[0]
    assert space_of(fs).allocate(7) == free_in(image, 8)[0]  # the log fills group 7


def test_what_is_reserved_over_a_border_is_so_in_both_groups(fs: FileSystem, image: Path) -> None:
    ninth, tenth, border = free_in(image, 9), free_in(image, 10), 1 + 10 * 1024
    space = space_of(fs, (border - 2, tenth[0] - border + 4))
    assert space.allocate(10) == tenth[2]
    space = space_of(fs, (ninth[0], border - ninth[0] - 3))
    assert [space.allocate(9) for _ in range(4)] == [border - 3, border - 2, border - 1, tenth[0]]


def test_no_block_is_left(fs: FileSystem) -> None:
    space = space_of(fs, (1, 16383))
    with pytest.raises(CorruptError, match="no free block"):
        space.allocate(3)


def test_the_rest_of_a_short_last_group_is_not_given_out(tmp_path: Path) -> None:
    image = make(tmp_path, SMALL, size="15900K").image
    short, free = opened(image), free_in(image, 15)
    space = space_of(short, (free[0], len(free) - 1))
    assert space.allocate(15) == free[-1] == 15899
    assert space.allocate(15) == free_in(image, 0)[0]
    assert space._clusters_in(15) == 15899 - 15 * 1024
    assert space._clusters_in(14) == 1024


def column(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def test_clusters_are_counted_once(tmp_path: Path) -> None:
    space = space_of(opened(make(tmp_path, "-b 1024 -O bigalloc -C 4096").image))
    count = space.count_clusters
    assert count(*NONE) == 0
    assert count(column(8), column(1)) == 1
    assert count(column(8), column(4)) == 1
    assert count(column(8), column(5)) == 2
    assert count(column(11), column(2)) == 2
    assert count(column(20, 8, 11), column(1, 1, 1)) == 2
    assert count(column(8, 8, 13), column(20, 3, 1)) == 5
    assert count(column(40, 8, 30), column(4, 4, 11)) == 5
    starts, ends = space._clusters([(column(8, 3), column(5, 1))])
    assert (starts.tolist(), ends.tolist()) == ([2, 0], [4, 1])


def test_spans_are_cut_at_the_borders_of_groups(fs: FileSystem) -> None:
    """Block 1 is the first one of group 0."""
    space = space_of(fs)
    parts = space._by_group([(column(1 + 1020, 1), column(1024 + 8, 2)), (column(5000), column(1))])
    found = {group: (one.tolist(), end.tolist()) for group, (one, end) in parts.items()}
    assert found == {
        0: ([1020, 0], [1024, 2]), 1: ([0], [1024]), 2: ([0], [4]), 4: ([903], [904])
    }  # fmt: skip
    assert space._by_group([]) == {}
    covered = space._clusters_of_runs((column(0, 3, 4), column(2, 6, 5)))
    assert np.flatnonzero(covered).tolist() == [0, 1, 3, 4, 5]
    assert len(covered) == 1024
    assert not space._clusters_of_runs(None).any()
    assert space._clusters_of_runs((column(1020), column(1024)))[-4:].all()


def test_a_block_that_comes_back_to_the_same_file_changes_nothing(fs: FileSystem) -> None:
    draft = BlockOverlay(fs.blocks)
    space = BlockAllocator(fs, draft, NONE)
    used = np.flatnonzero(fs.bitmaps.block_bitmap(0))[:3] + 1
    space.note_freed(used, np.ones_like(used))
    space.note_used(used, np.ones_like(used))
    assert space.write_all() == 0
    assert len(draft.changes()) == 0


def test_blocks_that_others_have_are_counted(fs: FileSystem, image: Path) -> None:
    space = BlockAllocator(fs, BlockOverlay(fs.blocks), NONE)
    space.note_used(column(7 * 1024 + 1, free_in(image, 9)[0]), column(3, 1))
    assert space.write_all() == 3


def test_the_slot_of_an_inode(fs: FileSystem) -> None:
    draft = BlockOverlay(fs.blocks)
    number = 3 * PER_GROUP + 6  # the second slot of the second block of the table
    writable_inode(fs, draft, number)[:2] = (7, 8)
    changed = draft.changes()
    assert changed.blocks.tolist() == [int(fs.groups.inode_table[3]) + 1]
    assert np.flatnonzero(changed.rows[0]).tolist() == [256, 257]


@pytest.mark.parametrize(("width", "kept"), [(64, 0x12345), (32, 0x2345)])
def test_a_count_is_kept_in_two_halves(fs: FileSystem, width: int, kept: int) -> None:
    """`bg_free_blocks_count` has its low half at byte 12, its high half at byte 44."""
    row = np.zeros(width, np.uint8)
    descriptor = _GroupDescriptor(fs, 3, row)
    descriptor.set("bg_free_blocks_count", 0x12345)
    assert row[12:14].tobytes() == b"\x45\x23"
    assert width == 32 or row[44:46].tobytes() == b"\x01\x00"
    assert descriptor.get("bg_free_blocks_count") == kept
    descriptor.add("bg_free_blocks_count", -0x45)
    assert descriptor.get("bg_free_blocks_count") == kept - 0x45
    descriptor.add("bg_free_blocks_count", -0x20000)
    assert descriptor.get("bg_free_blocks_count") == 0
    row[18] = 0b111  # bg_flags
    descriptor.clear_flag(GroupFlags.BLOCK_UNINIT)
    assert row[18] == 0b101


@pytest.mark.parametrize(
    ("sectors", "low", "high", "huge"),
    [
        (10, 10, 0, False),
        ((2 << 32) + 5, 5, 2, False),
        ((1 << 48) - 1, (1 << 32) - 1, 0xFFFF, False),
        (1 << 48, 0, 1 << 15, True),
        ((1 << 48) + 6, 3, 1 << 15, True),
    ],
)
@pytest.mark.parametrize("feature", [True, False])
def test_blocks_of_an_inode_are_counted_in_sectors(
    sectors: int, low: int, high: int, huge: bool, feature: bool, tmp_path: Path
) -> None:
    """From 2**48 sectors on in blocks, here of two sectors, with the flag that says so."""
    fs = opened(make(tmp_path, PLAIN if feature else f"{PLAIN} -O ^huge_file").image)
    draft = BlockOverlay(fs.blocks)
    subjects = InodeEditors(fs, draft, BlockAllocator(fs, draft, NONE), 1)
    subject = subjects.get(ROOT)
    subject.put(i_flags=subject.flags | HUGE_FILE, i_blocks_high=7)
    subjects._set_block_count(subject, sectors)
    assert subject.get("i_blocks_lo") == (low if feature else sectors & 0xFFFFFFFF)
    assert subject.get("i_blocks_high") == (high if feature else 7)
    assert bool(subject.flags & HUGE_FILE) is (huge if feature else True)


@pytest.mark.parametrize(("options", "high"), [("64bit", 5), ("^64bit", 0)])
def test_free_blocks_of_the_superblock_have_two_halves(
    options: str, high: int, tmp_path: Path
) -> None:
    fs = opened(make(tmp_path, f"{PLAIN} -O {options}").image)
    draft = BlockOverlay(fs.blocks)
    space = BlockAllocator(fs, draft, NONE)
    space._free_blocks[:] = 0
    space._free_blocks[0] = (5 << 32) + 7
    space._finish_superblock()
    row = draft.read(1)
    assert int.from_bytes(row[0x0C:0x10], "little") == 7  # s_free_blocks_count_lo
    assert int.from_bytes(row[0x158:0x15C], "little") == high  # s_free_blocks_count_hi
