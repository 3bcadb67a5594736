"""Images that are built to break a reader: none does, and what is wrong is told.

Each starts as an image that mke2fs and debugfs made; checksums fit what was changed, so that
no reader stops at them. Nothing here is ever mounted.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from tests.environment import everything
from tests.fuzz import images
from tests.fuzz.commands import called, failures
from tests.fuzz.forms import commands
from tests.hostile.victim import ACL, DTIME, FLAGS, MAP, Change, Victim

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
MOST32, MOST63, MOST64 = (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1
EIB_IN_KIB = 1 << 50
AT_ONCE = 4  # commands of each image in the default suite
HOLES, FILE, DEEP, CROWD = "/sub/holes", "/sub/file 6", "/sub/deep", "/crowd"


def survives(image: Path, folder: Path) -> None:
    """Commands end in time, in bounds, with a documented exit code: some, or all when slow."""
    chance = random.Random(os.environ["PYTEST_CURRENT_TEST"])
    words = commands(chance)
    if not everything():
        words = chance.sample(words, AT_ONCE)
    found = list(failures(image, words, folder))
    assert not found, found


SUPERBLOCKS: dict[str, dict[str, int]] = {
    "log block size 64": {"s_log_block_size": 64},
    "log block size 2**32-1": {"s_log_block_size": MOST32},
    "another block size": {"s_log_block_size": 2},
    "inode size 0": {"s_inode_size": 0},
    "inode size 65535": {"s_inode_size": 65535},
    "inode size of a block": {"s_inode_size": 1024},
    "no blocks": {"s_blocks_count_lo": 0},
    "2**64-1 blocks": {"s_blocks_count_lo": MOST32, "s_blocks_count_hi": MOST32},
    "one EiB": {"s_blocks_count_lo": 0, "s_blocks_count_hi": EIB_IN_KIB >> 32},
    "no blocks per group": {"s_blocks_per_group": 0},
    "one block per group": {"s_blocks_per_group": 1},
    "endless blocks per group": {"s_blocks_per_group": MOST32},
    "no clusters per group": {"s_clusters_per_group": 0},
    "few clusters per group": {"s_clusters_per_group": 8},
    "endless clusters per group": {"s_clusters_per_group": MOST32},
    "no inodes per group": {"s_inodes_per_group": 0},
    "most inodes per group": {"s_inodes_per_group": 8192},
    "endless inodes per group": {"s_inodes_per_group": MOST32},
    "no inodes": {"s_inodes_count": 0},
    "endless inodes": {"s_inodes_count": MOST32},
    "endless inodes in endless groups": {
        "s_inodes_count": MOST32, "s_inodes_per_group": 8192, "s_blocks_per_group": 1,
        "s_blocks_count_hi": 1 << 18,
    },
    "descriptor size 0": {"s_desc_size": 0},
    "descriptor size 1": {"s_desc_size": 1},
    "descriptor size 1024": {"s_desc_size": 1024},
    "descriptor size 65535": {"s_desc_size": 65535},
    "first meta group absurd": {"s_first_meta_bg": MOST32},
    "first data block absurd": {"s_first_data_block": MOST32},
    "first data block 7": {"s_first_data_block": 7},
    "cluster size 2**63": {"s_log_cluster_size": 53},
    "cluster size absurd": {"s_log_cluster_size": MOST32},
    "reserved descriptors": {"s_reserved_gdt_blocks": 65535},
    "first inode 0": {"s_first_ino": 0},
    "first inode absurd": {"s_first_ino": MOST32},
    "extra size absurd": {"s_want_extra_isize": 65535, "s_min_extra_isize": 65535},
    "no journal inode": {"s_journal_inum": 0},
    "journal is the root": {"s_journal_inum": 2},
    "journal inode absurd": {"s_journal_inum": MOST32},
    "orphan list absurd": {"s_last_orphan": MOST32},
    "flex groups of 2**255": {"s_log_groups_per_flex": 255},
    "hash version 255": {"s_def_hash_version": 255},
    "revision absurd": {"s_rev_level": MOST32},
    "quota inodes absurd": {"s_usr_quota_inum": MOST32, "s_grp_quota_inum": 1},
    "group of the copy absurd": {"s_block_group_nr": 65535},
    "checksum type absurd": {"s_checksum_type": 255},
    "times absurd": {"s_mtime": MOST32, "s_mtime_hi": 255, "s_mkfs_time_hi": 255,
                     "s_checkinterval": MOST32, "s_lastcheck_hi": 255},
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("name", SUPERBLOCKS)
def test_a_superblock_can_say_anything(name: str, tmp_path: Path) -> None:
    victim = Victim()
    victim.superblock(**SUPERBLOCKS[name])
    survives(victim.write(tmp_path / "image"), tmp_path)


FEATURES: dict[str, dict[str, int]] = {
    "bigalloc": {"ro_compat": 0x200},
    "meta_bg": {"incompat": 0x10},
    "mmp": {"incompat": 0x100},
    "sparse_super2": {"compat": 0x200},
    "orphan_file": {"compat": 0x1000},
    "fast_commit": {"compat": 0x400},
    "casefold": {"incompat": 0x20000},
    "inline_data": {"incompat": 0x8000},
    "journal_dev": {"incompat": 0x8},
    "every bit": {"compat": MOST32, "incompat": MOST32 ^ 0x8, "ro_compat": MOST32},
}
WITH_FEATURE = {
    "bigalloc": {"s_log_cluster_size": MOST32, "s_clusters_per_group": 1},
    "meta_bg": {"s_first_meta_bg": MOST32},
    "mmp": {"s_mmp_block": MOST64},
    "sparse_super2": {"s_backup_bgs": (MOST32 << 32) | MOST32},
    "orphan_file": {"s_orphan_file_inum": MOST32},
    "casefold": {"s_encoding": 65535, "s_encoding_flags": 65535},
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_can_be_claimed_that_is_not_there(name: str, tmp_path: Path) -> None:
    victim = Victim()
    victim.superblock(**WITH_FEATURE.get(name, {}))
    victim.with_features(**FEATURES[name])
    survives(victim.write(tmp_path / "image"), tmp_path)


# -- trees, lists and directories -------------------------------------------------------------


def extent_block_in_itself(victim: Victim) -> None:
    place = victim.of("extents", HOLES)[0]
    victim.node(place, 0, ((0, victim.block(place)),) * 84, 1, 84)
    victim.root(HOLES, (0, victim.block(place)), depth=2)


def extent_tree_deeper_than_any(victim: Victim) -> None:
    place = victim.of("extents", HOLES)[0]
    victim.node(place, 0, ((0, victim.block(place)),) * 84, 4, 84)
    victim.root(HOLES, *((at, victim.block(place)) for at in range(4)), depth=5)


def extent_node_beyond_its_block(victim: Victim) -> None:
    place = victim.of("extents", HOLES)[0]
    victim.put(place, 2, "<HH", 65535, 65535)


def extent_root_with_too_many(victim: Victim) -> None:
    victim.put(victim.inode(FILE), MAP + 2, "<HH", 5, 5)


def extents_of_the_same_blocks(victim: Victim) -> None:
    place = victim.of("extents", HOLES)[0]
    victim.node(place, 0, tuple((32768 * at, 32768, 1) for at in range(83)), 0, 84)
    victim.node(place, 0, tuple((4000 * at, 4000, 1) for at in range(83)), 0, 84)
    victim.size(HOLES, 83 * 4000 * 1024)


def every_file_shares_one_index(victim: Victim) -> None:
    leaf = victim.of("extents", HOLES)[0]
    index = victim.of("directory", CROWD)[-1]
    victim.node(leaf, 0, tuple((2 * at, 1, 500) for at in range(84)), 0, 84)
    victim.node(index, 0, tuple((168 * at, victim.block(leaf)) for at in range(84)), 1, 84)
    for place in victim.body.places["inode"][11:]:
        victim.put(place, FLAGS, "<I", 0x80000)
        victim.put(place, 0, "<H", 0o100644)
        victim.root(place.number, *((at, victim.block(index)) for at in range(4)), depth=2)
        victim.size(place.number, 1 << 40)


def extents_far_outside(victim: Victim) -> None:
    victim.root(FILE, (0, 32768, MOST32), (40000, 100, 0), (50000, 65535, 4000))
    victim.size(FILE, 1 << 40)


def htree_block_in_itself(victim: Victim) -> None:
    for place in victim.of("directory", CROWD)[:1]:
        for at in range(0x20, 0x80, 8):
            victim.put(place, at + 4, "<I", 0)


def htree_counts(victim: Victim) -> None:
    victim.put(victim.of("directory", CROWD)[0], 0x20, "<HH", 65535, 65535)


def htree_levels(victim: Victim) -> None:
    victim.put(victim.of("directory", CROWD)[0], 0x1C, "<BBB", 255, 255, 255)


def orphan_in_itself(victim: Victim) -> None:
    victim.superblock(s_last_orphan=12)
    victim.put(victim.inode(12), DTIME, "<I", 12)


def orphans_in_a_ring(victim: Victim) -> None:
    first, second = victim.inode(FILE).number, victim.inode(HOLES).number
    victim.superblock(s_last_orphan=first)
    victim.put(victim.inode(FILE), DTIME, "<I", second)
    victim.put(victim.inode(HOLES), DTIME, "<I", first)


def directory_in_itself(victim: Victim) -> None:
    place = victim.of("directory", DEEP)[0]
    length = victim.block_size - 12 - 24
    victim.put(place, 12, "<IHBB4s", 2, 12, 2, 2, b"..\0\0")
    victim.put(place, 24, "<IHBB4s", victim.inode("/sub").number, length, 1, 2, b"a\0\0\0")


def root_in_itself(victim: Victim) -> None:
    place = victim.of("directory", "/")[0]
    for at in (24,):
        victim.put(place, at, "<I", 2)
        victim.put(place, at + 7, "<B", 2)


def every_file_is_the_same_directory(victim: Victim) -> None:
    """Directories that all have the whole image as their entries."""
    for place in victim.body.places["inode"][11:]:
        victim.put(place, 0, "<H", 0o040755)
        victim.put(place, FLAGS, "<I", 0x80000)
        victim.root(place.number, *((4000 * at, 4000, 1) for at in range(4)))
        victim.size(place.number, 1 << 40)


def _entry(at: int, form: str, *values: int) -> Change:
    def change(victim: Victim) -> None:
        for path in ("/", "/sub", CROWD):
            victim.put(victim.of("directory", path)[-1], at, form, *values)

    return change


def _size(path: str | int, value: int) -> Change:
    return lambda victim: victim.size(path, value)


STRUCTURES: dict[str, Change] = {
    "an extent block in itself": extent_block_in_itself,
    "an extent tree deeper than any": extent_tree_deeper_than_any,
    "an extent node beyond its block": extent_node_beyond_its_block,
    "an extent root with too many": extent_root_with_too_many,
    "extents of the same blocks": extents_of_the_same_blocks,
    "one index for every file": every_file_shares_one_index,
    "extents far outside": extents_far_outside,
    "an htree block in itself": htree_block_in_itself,
    "htree counts": htree_counts,
    "htree levels": htree_levels,
    "an orphan in itself": orphan_in_itself,
    "orphans in a ring": orphans_in_a_ring,
    "a directory in itself": directory_in_itself,
    "the root in itself": root_in_itself,
    "one directory for every file": every_file_is_the_same_directory,
    "rec_len 0": _entry(4, "<H", 0),
    "rec_len 3": _entry(4, "<H", 3),
    "rec_len past the block": _entry(4, "<H", 65532),
    "a name of 0 bytes": _entry(6, "<B", 0),
    "a name of 255 bytes": _entry(6, "<B", 255),
    "an entry of inode 2**32-1": _entry(0, "<I", MOST32),
    "a file of 2**63-1 bytes": _size(HOLES, MOST63),
    "a file of 2**64-1 bytes": _size(HOLES, MOST64),
    "a directory of 2**63-1 bytes": _size("/sub", MOST63),
    "a directory of 2**64-1 bytes": _size("/", MOST64),
    "a link of 2**32 bytes": _size("/long link", 1 << 32),
    "a short link of 2**64-1 bytes": _size("/short link", MOST64),
    "a journal of 2**63-1 bytes": _size(8, MOST63),
    "a journal of 2**64-1 bytes": _size(8, MOST64),
    "an attribute block outside": lambda v: v.put(v.inode("/sub/file 5"), ACL, "<I", MOST32),
    "an extra size beyond the inode": lambda v: v.put(v.inode("/sub/file 5"), 0x80, "<H", 65535),
    "an attribute block of 2**32-1 blocks": lambda v: v.put(
        v.of("xattr", "/sub/file 5")[0], 8, "<I", MOST32
    ),
    "an attribute in itself": lambda v: v.put(
        v.of("xattr", "/sub/file 5")[0], 0x22, "<HII", 65535, v.inode("/sub/file 5").number, MOST32
    ),
    "an attribute without end": lambda v: v.put(
        v.of("xattr", "/sub/file 5")[0], 0x20, "<BBHI", 255, 255, 65535, 0
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_can_be_anything(name: str, tmp_path: Path) -> None:
    victim = Victim()
    STRUCTURES[name](victim)
    survives(victim.write(tmp_path / "image"), tmp_path)


def test_attribute_values_in_inodes_can_be_endless(tmp_path: Path) -> None:
    victim = Victim("ea_inode")
    for place in victim.body.places["inode"][11:]:
        if struct.unpack_from("<I", victim.image, place.offset + FLAGS)[0] & 0x200000:
            victim.size(place.number, 1 << 40)
    in_body = 128 + 32 + 4  # the first entry behind the header of the attributes in the body
    victim.put(victim.inode("/sub"), in_body + 8, "<I", 1 << 24)
    survives(victim.write(tmp_path / "image"), tmp_path)


def test_inline_directories_can_be_broken(tmp_path: Path) -> None:
    victim = Victim("inline_data")
    victim.put(victim.inode(DEEP), MAP + 8, "<H", 65532)
    for path in (DEEP, "/sub/file 2", "/sub/file 3"):
        victim.size(path, MOST63)
        victim.put(victim.inode(path), 0x80 + 32, "<I", MOST32)
    image = victim.write(tmp_path / "image")
    assert called(["ls", str(image), "-r", "-l"])[0] == 1
    survives(image, tmp_path)


# -- groups -----------------------------------------------------------------------------------


def _descriptors(form: str, at: int, *values: int) -> Change:
    def change(victim: Victim) -> None:
        for place in victim.body.places["descriptor"]:
            victim.put(place, at, form, *values)

    return change


GROUPS: dict[str, Change] = {
    "all tables in one": _descriptors("<I", 8, 20),
    "bitmaps in the table": _descriptors("<III", 0, 30, 31, 30),
    "tables beyond the end": _descriptors("<III", 0, 4095, 4095, 4095),
    "everything outside": _descriptors("<III", 0, MOST32, MOST32, MOST32),
    "everything uninitialised": _descriptors("<H", 0x12, 65535),
    "no inode ever used": _descriptors("<H", 0x1C, 65535),
    "counts": _descriptors("<HHH", 0x0C, 65535, 65535, 65535),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", GROUPS)
def test_group_descriptors_can_be_anything(name: str, tmp_path: Path) -> None:
    victim = Victim("small_groups")
    GROUPS[name](victim)
    survives(victim.write(tmp_path / "image"), tmp_path)


# -- the log ----------------------------------------------------------------------------------


def _journal(at: int, value: int) -> Change:
    return lambda victim: victim.put(victim.body.places["journal"][0], at, ">I", value)


def _headers(at: int, form: str, *values: int) -> Change:
    def change(victim: Victim) -> None:
        for place in victim.body.places["journal"][1:]:
            victim.put(place, at, form, *values)

    return change


LOGS: dict[str, Change] = {
    "maxlen 2**32-1": _journal(0x10, MOST32),
    "first 2**32-1": _journal(0x14, MOST32),
    "start 2**32-1": _journal(0x1C, MOST32),
    "sequence 2**32-1": _journal(0x18, MOST32),
    "all features": _journal(0x28, MOST32),
    "users 2**32-1": _journal(0x40, MOST32),
    "fast commit blocks 2**32-1": _journal(0x54, MOST32),
    "head 2**32-1": _journal(0x58, MOST32),
    "tags that lead outside": _headers(12, ">IIII", MOST32, 2, MOST32, 0),
    "revokes of 2**32-1 bytes": _headers(12, ">I", MOST32),
    "one sequence for all": _headers(8, ">I", 7),
    "commits alone": _headers(4, ">I", 2),
    "revokes alone": _headers(4, ">I", 5),
    "superblocks alone": _headers(4, ">I", 4),
    "types that nobody knows": _headers(4, ">I", MOST32),
}


@pytest.mark.heavy
@pytest.mark.parametrize("base", ["ext4_unreplayed", "fast_commit"])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_can_say_anything(name: str, base: str, tmp_path: Path) -> None:
    victim = Victim(base)
    LOGS[name](victim)
    survives(victim.write(tmp_path / "image"), tmp_path)


BAD_COPIES: dict[str, dict[str, int]] = {
    "inode size 0": {"s_inode_size": 0},
    "no groups": {"s_blocks_per_group": 0},
    "another block size": {"s_log_block_size": 2},
    "no magic": {"s_magic": 0},
    "one EiB": {"s_blocks_count_hi": EIB_IN_KIB >> 32},
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", BAD_COPIES)
def test_a_superblock_out_of_the_log_is_judged_too(name: str, tmp_path: Path) -> None:
    victim = Victim()
    image = victim.write(tmp_path / "image")
    victim.superblock(**BAD_COPIES[name])
    bad = victim.write(tmp_path / "bad")
    copy = tmp_path / "superblock"
    copy.write_bytes(bad.read_bytes()[1024:2048])
    images.debugfs(image, "jo -c", f"jw -b 1 {copy}", "jc")
    if name != "one EiB":
        code, said = called(["ls", str(image), "/"])
        assert code == 1
        assert "the log's copy is not used" in said
    survives(image, tmp_path)
