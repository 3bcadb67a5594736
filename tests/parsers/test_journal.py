"""Journal structures: sizes, tags in every format, revoke records, the superblock."""

from __future__ import annotations

import itertools
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.parsers import journal
from ext4kit.parsers.journal import (
    BlockType,
    JournalCompat,
    JournalFeatures,
    JournalIncompat,
    JournalSuperblock,
    read_revokes,
    read_tags,
)
from tests.parsers.reference import needs_tools, run

V2, V3, WIDE = JournalIncompat.CSUM_V2, JournalIncompat.CSUM_V3, JournalIncompat.BIT64
NONE = JournalIncompat(0)
SAME, LAST, ESCAPED = 2, 8, 1
BLOCK_SIZE = 1024


def features(incompat: JournalIncompat) -> JournalFeatures:
    return JournalFeatures(incompat=incompat)


def test_structures_have_the_kernels_sizes_and_offsets() -> None:
    assert journal.SUPERBLOCK.size == 1024
    assert journal.SUPERBLOCK.offset_of("s_uuid") == 0x30
    assert journal.SUPERBLOCK.offset_of("s_checksum_type") == 0x50
    assert journal.SUPERBLOCK.offset_of("s_num_fc_blks") == 0x54
    assert journal.SUPERBLOCK.offset_of("s_checksum") == 0xFC
    assert journal.SUPERBLOCK.offset_of("s_users") == 0x100
    assert journal.COMMIT.offset_of("h_commit_sec") == 0x30
    assert journal.COMMIT.size == 60
    assert journal.REVOKE.size == 16


@pytest.mark.parametrize(
    ("incompat", "expected"),
    [(NONE, 8), (WIDE, 12), (V2, 10), (V2 | WIDE, 14), (V3, 16), (V3 | WIDE, 16)],
)
def test_tag_bytes_depend_on_checksums_and_width(incompat: JournalIncompat, expected: int) -> None:
    assert features(incompat).format.tag_bytes == expected


def pack_tag(incompat: JournalIncompat, block: int, flags: int, checksum: int) -> bytes:
    high = block >> 32 if incompat & WIDE else 0
    if incompat & V3:
        return struct.pack(">IIII", block & 0xFFFFFFFF, flags, high, checksum)
    tag = struct.pack(">IHH", block & 0xFFFFFFFF, checksum & 0xFFFF, flags)
    if incompat & WIDE:
        tag += struct.pack(">I", high)
    return tag + (b"\0\0" if incompat & V2 else b"")


def pack_descriptor(incompat: JournalIncompat, tags: list[tuple[int, int, int]]) -> bytes:
    body = struct.pack(">III", journal.MAGIC, 1, 7)
    for block, flags, checksum in tags:
        body += pack_tag(incompat, block, flags, checksum)
        body += b"" if flags & SAME else b"U" * 16
    return body.ljust(BLOCK_SIZE, b"\0")[:BLOCK_SIZE]


@pytest.mark.parametrize("incompat", [NONE, WIDE, V2, V2 | WIDE, V3, V3 | WIDE])
def test_tags_of_several_descriptors_come_back_as_they_were_packed(
    incompat: JournalIncompat,
) -> None:
    far = 1 << 33 if incompat & WIDE else 0
    written = [
        [(5, 0, 1), (6 + far, SAME, 2), (7, SAME | LAST | ESCAPED, 3)],
        [(9, LAST, 0xBEEF)],
        [(1, 0, 4), (2, 0, 5), (3, SAME, 6), (4, 0, 7), (5, SAME | LAST, 8)],
    ]
    blocks = [pack_descriptor(incompat, tags) for tags in written]
    rows = np.frombuffer(b"".join(blocks), np.uint8).reshape(len(blocks), BLOCK_SIZE)
    tags = read_tags(rows, features(incompat).format)
    expected = [
        (row, ordinal, block, flags, checksum)
        for row, group in enumerate(written)
        for ordinal, (block, flags, checksum) in enumerate(group)
    ]
    columns = (tags.descriptor, tags.ordinal, tags.block, tags.flags, tags.checksum)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


@pytest.mark.parametrize("incompat", [NONE, V2, V3])
def test_tags_without_a_last_flag_end_where_no_whole_tag_fits(incompat: JournalIncompat) -> None:
    row = pack_descriptor(incompat, [(8, SAME, 0)] * 200)
    tags = read_tags(np.frombuffer(row, np.uint8)[None, :], features(incompat).format)
    tail = 4 if incompat & (V2 | V3) else 0
    assert len(tags) == (BLOCK_SIZE - 12 - tail) // features(incompat).format.tag_bytes


def test_no_descriptors_give_no_tags() -> None:
    assert len(read_tags(np.zeros((0, BLOCK_SIZE), np.uint8), features(V3).format)) == 0


@pytest.mark.parametrize(("incompat", "width"), [(NONE, 4), (WIDE, 8), (V3, 4), (V3 | WIDE, 8)])
def test_revoke_records_end_at_the_count(incompat: JournalIncompat, width: int) -> None:
    numbers = [17, 1 << 31, 3]
    used = 16 + width * len(numbers)
    body = struct.pack(">IIII", journal.MAGIC, 5, 7, used + 1)  # a byte of a fourth record
    body += b"".join(number.to_bytes(width, "big") for number in [*numbers, 99])
    rows = np.frombuffer(body.ljust(BLOCK_SIZE, b"\0"), np.uint8)[None, :]
    records = read_revokes(rows, features(incompat).format)
    assert records.block.tolist() == numbers
    assert not records.overflow[0]


@pytest.mark.parametrize(("incompat", "limit"), [(NONE, 1024), (V2, 1020)])
def test_a_revoke_count_past_the_block_reads_nothing(incompat: JournalIncompat, limit: int) -> None:
    for count, overflows in ((limit, False), (limit + 1, True), (0xFFFFFFFF, True)):
        body = struct.pack(">IIII", journal.MAGIC, 5, 7, count).ljust(BLOCK_SIZE, b"\1")
        records = read_revokes(np.frombuffer(body, np.uint8)[None, :], features(incompat).format)
        assert records.overflow.tolist() == [overflows]
        assert len(records.block) == (0 if overflows else (limit - 16) // 4)


def test_feature_names_are_those_of_dumpe2fs() -> None:
    words = JournalFeatures(JournalCompat(1), V3 | WIDE | JournalIncompat(1 << 9))
    assert words.names == [
        "journal_checksum", "journal_64bit", "journal_checksum_v3", "FEATURE_I9",
    ]  # fmt: skip


def test_each_feature_bit_has_a_name_of_its_own() -> None:
    """Sources: kernel include/linux/jbd2.h, and e2fsprogs lib/e2p/feature.c for the names."""
    incompat = {
        0: "journal_incompat_revoke", 1: "journal_64bit", 2: "journal_async_commit",
        3: "journal_checksum_v2", 4: "journal_checksum_v3", 5: "fast_commit",
    }  # fmt: skip
    for bit in range(32):
        known = JournalFeatures(incompat=JournalIncompat(1 << bit))
        assert known.names == [incompat.get(bit, f"FEATURE_I{bit}")]
        assert known.unknown_incompat == (0 if bit in incompat else 1 << bit)
        compat = JournalFeatures(JournalCompat(1 << bit))
        assert compat.names == [f"FEATURE_C{bit}" if bit else "journal_checksum"]
        assert JournalFeatures(ro_compat=1 << bit).names == [f"FEATURE_R{bit}"]
    assert JournalFeatures().names == []


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools("mke2fs", "debugfs", "dumpe2fs")
    image = tmp_path_factory.mktemp("journal") / "fresh.img"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-J", "size=4", image)
    # A journal written by debugfs gets its checksum feature; a new one has none yet.
    script = "jo -c -v 3\njw -b 333 /dev/zero\njc\n"
    commands = image.with_suffix(".cmd")
    commands.write_text(script)
    run("debugfs", "-w", "-f", commands, image)
    return image


def superblock_bytes(image: Path) -> bytes:
    found = re.search(r"\d+", run("debugfs", "-R", "bmap <8> 0", image))
    assert found
    with image.open("rb") as file:
        file.seek(int(found[0]) * 4096)
        return file.read(4096)


def test_the_superblock_reads_as_dumpe2fs_reads_it(fresh: Path) -> None:
    superblock = JournalSuperblock.parse(superblock_bytes(fresh))
    shown = dict(re.findall(r"^(.*ournal [\w ]+):\s+(.*)$", run("dumpe2fs", "-h", fresh), re.M))
    assert superblock.features.names == shown["Journal features"].split()
    assert superblock.sequence == int(shown["Journal sequence"], 16)
    assert superblock.start == int(shown["Journal start"])
    assert superblock.length == int(shown["Total journal blocks"])
    assert superblock.checksum == int(shown["Journal checksum"], 16)
    assert superblock.checksum_ok is True


def test_a_superblock_of_version_1_ends_before_the_feature_words(fresh: Path) -> None:
    data = superblock_bytes(fresh)
    for kind, name, has_features in ((3, "SUPERBLOCK_V1", False), (4, "SUPERBLOCK_V2", True)):
        found = JournalSuperblock.parse(data[:4] + struct.pack(">I", kind) + data[8:])
        assert bool(found.features.names) is has_features
        assert BlockType(found.block_type).name == name


def test_any_changed_byte_breaks_the_superblocks_checksum(fresh: Path) -> None:
    data = superblock_bytes(fresh)
    for place in itertools.chain(range(0x18, 0x20), (0x30, 0x54, 0xFC, 0x3FF)):
        changed = bytearray(data)
        changed[place] ^= 1
        assert JournalSuperblock.parse(changed).checksum_ok is False


def test_a_cut_superblock_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="journal superblock"):
        JournalSuperblock.parse(bytes(1023))
