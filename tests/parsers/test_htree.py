"""Hashed directories: against `dx_hash` and `htree_dump` of debugfs."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.errors import CorruptError, RequestError, UnsupportedError
from ext4kit.parsers import htree
from ext4kit.parsers.htree import IndexEntries
from ext4kit.parsers.name_hashes import dirhash
from tests.parsers.reference import Image, make_image, needs_tools, run

FILES = 1800  # with names of this length and blocks of 1 KiB: two levels of index


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("htree")
    directory = folder / "tree" / "many"
    directory.mkdir(parents=True)
    for number in range(FILES):
        (directory / f"{number:05}-file-with-a-name-that-fills-the-leaves-ÿé").touch()
    made = make_image(folder, 16, "-b", "1024", "-O", "metadata_csum")
    run("e2fsck", "-fyD", made.path, accept=(0, 1))
    return made


@dataclass
class Dumped:
    """One index block as `htree_dump` prints it."""

    count: int
    limit: int
    checksum: int
    pairs: list[tuple[int, int]]


def dumped_indexes(text: str) -> list[Dumped]:
    """The root and then the index nodes, in the order of the root's entries.

    A node's entries are printed twice over: a list of all, then one at a time before the
    block that it leads to. The lists follow a `Checksum:` line.
    """
    pattern = re.compile(
        r"Number of entries \(count\): (\d+)\nNumber of entries \(limit\): (\d+)\n"
        r"Checksum: 0x([0-9a-f]+)\n((?:Entry #\d+: Hash 0x[0-9a-f]+, block \d+\n)+)"
    )
    entry = re.compile(r"Hash 0x([0-9a-f]+), block (\d+)")
    return [
        Dumped(
            int(count),
            int(limit),
            int(checksum, 16),
            [(int(value, 16), int(block)) for value, block in entry.findall(entries)],
        )
        for count, limit, checksum, entries in pattern.findall(text)
    ]


def pairs_of(entries: IndexEntries) -> list[tuple[int, int]]:
    return list(zip(entries.hashes.tolist(), entries.blocks.tolist(), strict=True))


@pytest.fixture(scope="module")
def blocks(image: Image) -> list[bytes]:
    """The blocks of the directory, in order."""
    return [image.block(number) for number in image.data_blocks("/many")]


def indexes_of(blocks: list[bytes]) -> list[tuple[bytes, IndexEntries]]:
    """Root and nodes with their entries, as the code under test reads them."""
    root = htree.parse_root(blocks[0]).entries
    nodes = [blocks[number] for number in root.blocks]
    return [(blocks[0], root)] + [(block, htree.parse_node(block)) for block in nodes]


def test_root_and_nodes_read_as_debugfs_dumps_them(image: Image, blocks: list[bytes]) -> None:
    dumped = dumped_indexes(image.debugfs("htree_dump /many"))
    assert len(dumped) >= 3, "the image must have two levels of index"
    assert [
        Dumped(entries.count, entries.limit, htree.stored_checksum(block, entries) or 0, pairs)
        for block, entries in indexes_of(blocks)
        for pairs in [pairs_of(entries)]
    ] == dumped


def test_the_root_names_directory_parent_and_hash(image: Image, blocks: list[bytes]) -> None:
    root = htree.parse_root(blocks[0])
    assert root.directory == image.stat("/many", r"Inode: (\d+)")
    assert root.parent == 2
    assert htree.HASH_NAMES[root.hash_version] == image.header["Default directory hash"]
    assert root.indirect_levels == 1


def test_checksums_of_root_and_nodes_hold(image: Image, blocks: list[bytes]) -> None:
    seed = image.inode_seed("/many")
    for block, entries in indexes_of(blocks):
        assert htree.index_checksum(seed, block, entries) == htree.stored_checksum(block, entries)
        changed = bytearray(block)
        changed[entries.offset + 8] ^= 1  # in the first entry with a hash
        assert htree.index_checksum(seed, changed, entries) != htree.stored_checksum(block, entries)


def test_unused_entries_are_not_covered_by_the_checksum(image: Image, blocks: list[bytes]) -> None:
    entries = htree.parse_root(blocks[0]).entries
    assert entries.count < entries.limit
    changed = bytearray(blocks[0])
    changed[entries.offset + 8 * entries.count] ^= 1
    expected = htree.stored_checksum(blocks[0], entries)
    assert htree.index_checksum(image.inode_seed("/many"), changed, entries) == expected


def test_every_name_hashes_into_the_range_of_its_leaf(image: Image, blocks: list[bytes]) -> None:
    seed = bytes.fromhex(image.header["Directory Hash Seed"].replace("-", ""))
    root = htree.parse_root(blocks[0])
    version = root.hash_version
    if image.header["Filesystem flags"].startswith("unsigned"):
        version += htree.UNSIGNED_STEP
    leaves = list(leaves_of(blocks))
    ends = [low for _, low in leaves[1:]] + [1 << 32]
    seen = 0
    for (leaf, low), end in zip(leaves, ends, strict=True):
        for name in re.findall(rb"\d{5}-file-[a-z-]+\xc3\xbf\xc3\xa9", leaf):
            assert low <= dirhash(name, version, seed)[0] <= end
            seen += 1
    assert seen == FILES


def leaves_of(blocks: list[bytes]) -> Iterator[tuple[bytes, int]]:
    """Each leaf with the lowest hash that its index entry allows."""
    root = htree.parse_root(blocks[0]).entries
    for lowest, node in pairs_of(root):
        for value, leaf in pairs_of(htree.parse_node(blocks[node])):
            yield blocks[leaf], (value or lowest) & ~1


def oracle_hashes(image_path: Path, names: list[str], seed: bytes) -> list[tuple[int, int]]:
    """(major, minor) by debugfs for each of the six versions and each name."""
    text = seed.hex()
    dashed = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    printed = Image(image_path).debugfs(
        *(f"dx_hash -h {version} -s {dashed} {name}" for version in range(6) for name in names)
    )
    found = re.findall(r" is 0x([0-9a-f]+) \(minor 0x([0-9a-f]+)\)", printed)
    return [(int(major, 16), int(minor, 16)) for major, minor in found]


@pytest.mark.parametrize("seed", [bytes(16), bytes(range(0x77, 0x87)), b"\xff" * 16])
def test_names_hash_as_debugfs_hashes_them(image: Image, seed: bytes) -> None:
    needs_tools("debugfs")
    draw = random.Random(seed)
    letters = "abcXYZ019._-éÿß漢\u0080"
    names = ["".join(draw.choices(letters, k=length)) for length in (*range(1, 40), 63, 64, 80)]
    names = [name.replace("-", "_", 1) if name[0] == "-" else name for name in names]
    expected = oracle_hashes(image.path, names, seed)
    assert len(expected) == 6 * len(names)
    assert [
        dirhash(name.encode(), version, seed) for version in range(6) for name in names
    ] == expected


def test_siphash_and_unknown_versions_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="siphash"):
        dirhash(b"name", 6)
    with pytest.raises(UnsupportedError, match="version 77"):
        dirhash(b"name", 77)


def test_a_seed_of_another_length_is_refused() -> None:
    with pytest.raises(RequestError):
        dirhash(b"name", 1, bytes(4))


def changed_block(block: bytes, offset: int, data: bytes) -> bytes:
    return block[:offset] + data + block[offset + len(data) :]


@pytest.mark.parametrize(
    ("offset", "data"),
    [
        (32, b"\xff\xff"),  # limit above the block
        (32, b"\x02\x00"),  # limit far below it
        (34, b"\xff\xff"),  # count above the limit
        (34, b"\x00\x00"),  # not even entry 0
        (30, b"\x09"),  # levels of index
        (29, b"\x10"),  # info length
        (16, b"\x0c\x00"),  # `..` ends before the index
    ],
)
def test_a_root_that_contradicts_itself_is_corrupt(
    blocks: list[bytes], offset: int, data: bytes
) -> None:
    htree.parse_root(blocks[0])
    with pytest.raises(CorruptError):
        htree.parse_root(changed_block(blocks[0], offset, data))


def test_a_leaf_is_neither_root_nor_node(blocks: list[bytes]) -> None:
    leaf = blocks[1]
    assert not htree.is_index_root(leaf)
    assert not htree.is_index_node(leaf)
    with pytest.raises(CorruptError):
        htree.parse_node(leaf)


def test_a_node_has_room_for_its_entries() -> None:
    """Source: kernel fs/ext4/namei.c, `struct dx_node`: an unused entry, then limit and count."""
    for size in (0, 8, 12, 15, 16, 1024):
        block = struct.pack("<IHBB", 0, size, 0, 0).ljust(size, b"\0")[:size]
        assert htree.is_index_node(block) is (size >= 16)


@given(st.binary(max_size=128), st.sampled_from([8, 32]))
def test_any_bytes_give_bounded_entries_or_a_corrupt_structure(block: bytes, offset: int) -> None:
    try:
        entries = htree.parse_entries(block, offset)
    except CorruptError:
        return
    assert entries.count <= entries.limit
    assert entries.offset + 8 * entries.count <= len(block)
    assert entries.blocks.max(initial=0) < 1 << 28


def test_block_numbers_have_28_bits_and_the_upper_four_are_reserved(blocks: list[bytes]) -> None:
    changed = changed_block(blocks[0], 32 + 4, struct.pack("<I", 0xA9876543))
    assert htree.parse_root(changed).entries.blocks[0] == 0x09876543
