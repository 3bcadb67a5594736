"""Records of directories put in and taken out, byte by byte; blocks changed in memory.

Bytes by the kernel's documentation: inode, length of the record, length of the name, type, name.
"""

from __future__ import annotations

import struct

import crc32c
import numpy as np
import pytest

from ext4kit.errors import AccessError, CorruptError
from ext4kit.journal.fast_commits.dirents import (
    DirentArea,
    DirentRecord,
    NewDirent,
    dirent_size,
    entries_end,
    write_tail,
)
from ext4kit.journal.fast_commits.overlay import (
    BlockOverlay,
    ChangedBlocks,
    get_field,
    no_changes,
    set_fields,
)
from ext4kit.parsers.inode import INODE
from tests.journal.log_writer import MemoryBlocks

SIZE = 1024


def record(inode: int, length: int, name: bytes, kind: int = 1) -> bytes:
    return (struct.pack("<IHBB", inode, length, len(name), kind) + name).ljust(length, b"\0")


def block(*records: bytes) -> bytearray:
    data = bytearray(b"".join(records))
    assert len(data) == SIZE
    return data


def stretch(data: bytearray, *, end: int = SIZE, typed: bool = True) -> DirentArea:
    return DirentArea(data, 0, end, SIZE, typed)


@pytest.mark.parametrize(
    ("name", "size"), [(0, 8), (1, 12), (4, 12), (5, 16), (8, 16), (9, 20), (255, 264)]
)
def test_a_record_takes_its_name_up_to_four_bytes(name: int, size: int) -> None:
    assert dirent_size(name) == size


THREE = (record(12, 12, b"one"), record(13, 40, b"three", 2), record(14, SIZE - 52, b"six", 7))


def test_every_record_is_read() -> None:
    assert list(stretch(block(*THREE)).records()) == [
        DirentRecord(0, 12, 12, 1, b"one"),
        DirentRecord(12, 13, 40, 2, b"three"),
        DirentRecord(52, 14, SIZE - 52, 7, b"six"),
    ]
    assert [slot.file_type for slot in stretch(block(*THREE), typed=False).records()] == [0, 0, 0]
    unused = block(record(0, 12, b"old"), record(0, 20, b""), record(9, SIZE - 32, b"in use"))
    assert [slot.used for slot in stretch(unused).records()] == [0, 0, 16]
    assert [slot.name for slot in stretch(unused).entries()] == [b"in use"]
    nameless = block(record(9, 12, b""), record(9, SIZE - 12, b"x"))
    assert [slot.name for slot in stretch(nameless).entries()] == [b"x"]


def test_a_rest_too_short_for_a_record_is_none() -> None:
    data = block(record(12, SIZE - 4, b"one"), bytes(4))
    assert len(list(stretch(data, end=SIZE - 4).records())) == 1
    assert len(list(stretch(data).records())) == 1
    whole = block(record(12, SIZE - 8, b"one"), record(0, 8, b""))
    assert [slot.length for slot in stretch(whole).records()] == [SIZE - 8, 8]


@pytest.mark.parametrize("length", [0, 4, 7, 10, 14, SIZE + 4])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    data = block(record(12, SIZE, b""))
    struct.pack_into("<H", data, 4, length)
    with pytest.raises(CorruptError, match=f"record length {length}"):
        list(stretch(data).records())


@pytest.mark.parametrize(("name", "fits"), [(4, True), (5, False), (12, False)])
def test_a_name_longer_than_its_record_is_corrupt(name: int, fits: bool) -> None:
    data = block(record(12, 12, b""), record(13, SIZE - 12, b"next"))
    data[6] = name
    if fits:
        assert len(list(stretch(data).records())) == 2
        return
    with pytest.raises(CorruptError, match=f"name length {name}"):
        list(stretch(data).records())


def test_an_entry_goes_behind_one_that_has_room() -> None:
    data = block(*THREE)
    assert stretch(data).insert(NewDirent(b"between", 77, 3))
    between = record(13, 16, b"three", 2) + record(77, 24, b"between", 3)
    assert data == THREE[0] + between + THREE[2]


@pytest.mark.parametrize(("name", "place"), [(b"n" * 16, 12 + 16), (b"n" * 17, 52 + 12)])
def test_room_that_is_just_enough_is_used(name: bytes, place: int) -> None:
    data = block(*THREE)  # the second record has 40 - 16 bytes to spare
    assert stretch(data).insert(NewDirent(name, 77, 1))
    assert struct.unpack_from("<I", data, place)[0] == 77
    assert [slot.name for slot in stretch(data).entries()].count(name) == 1


def test_an_unused_record_is_filled_whole() -> None:
    data = block(record(0, 32, b"old"), record(9, SIZE - 32, b"n" * 250))
    assert stretch(data).insert(NewDirent(b"new", 5, 2))
    assert data[:32] == struct.pack("<IHBB", 5, 32, 3, 2) + b"new" + bytes(21)


def test_a_full_stretch_takes_nothing() -> None:
    data = block(*(record(9, 256, b"n" * 240) for _ in range(4)))
    before = bytes(data)
    assert not stretch(data).insert(NewDirent(b"n", 5, 1))
    assert data == before


def test_without_types_none_is_written() -> None:
    data = block(record(0, SIZE, b""))
    assert stretch(data, typed=False).insert(NewDirent(b"name", 5, 2))
    assert data[:12] == struct.pack("<IHBB", 5, SIZE, 4, 0) + b"name"


def test_what_is_taken_out_is_zeros_in_the_record_before() -> None:
    data = block(*THREE)
    stretch(data).remove(12)
    assert data == record(12, 52, b"one") + THREE[2]
    stretch(data).remove(52)
    assert data == record(12, SIZE, b"one")


def test_the_first_record_stays_and_is_unused() -> None:
    data = block(*THREE)
    stretch(data).remove(0)
    assert data == record(0, 12, b"", 0) + THREE[1] + THREE[2]
    stretch(data).remove(4)  # no record begins there
    assert data == record(0, 12, b"", 0) + THREE[1] + THREE[2]


@pytest.mark.parametrize("end", [SIZE, SIZE - 12])
def test_filling_writes_these_entries_alone(end: int) -> None:
    data = bytearray(b"\xff" * SIZE)
    new = [NewDirent(b"a", 5, 1), NewDirent(b"bb bb", 6, 2), NewDirent(b"c", 7, 7)]
    stretch(data, end=end).rewrite(new)
    wanted = record(5, 12, b"a") + record(6, 16, b"bb bb", 2) + record(7, end - 28, b"c", 7)
    assert data == wanted + b"\xff" * (SIZE - end)
    stretch(data, end=end).rewrite([])
    assert data == struct.pack("<IH", 0, end).ljust(end, b"\0") + b"\xff" * (SIZE - end)


def test_a_stretch_in_the_middle_of_bytes_leaves_the_others() -> None:
    data = bytearray(b"\xff" * 200)
    part = DirentArea(data, 40, 100, SIZE)
    part.rewrite([NewDirent(b"x", 3, 1)])
    assert data == b"\xff" * 40 + record(3, 60, b"x") + b"\xff" * 100
    assert part.insert(NewDirent(b"y", 4, 1))
    assert [(slot.offset, slot.name) for slot in part.records()] == [(40, b"x"), (52, b"y")]


@pytest.mark.parametrize(
    ("length", "stored"), [(65536, 65535), (65532, 65532), (12, 12), (32768, 32768)]
)
def test_lengths_in_64_kib_blocks_are_stored_as_the_kernel_does(length: int, stored: int) -> None:
    """The lowest two bits of the field hold bits 16 and 17; all ones are the whole block."""
    part = DirentArea(bytearray(65536), 0, 65536, 65536)
    part._set_length(0, length)
    assert struct.unpack_from("<H", part.data, 4)[0] == stored


def test_the_tail_closes_a_leaf_with_its_checksum() -> None:
    assert entries_end(SIZE, tailed=True) == SIZE - 12
    assert entries_end(SIZE, tailed=False) == SIZE
    data = block(*THREE)
    before = bytes(data)
    write_tail(data, None)
    assert data == before
    write_tail(data, 0x1234)
    value = crc32c.crc32c(before[:-12], 0x1234 ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    assert data == before[:-12] + struct.pack("<IHBBI", 0, 12, 0, 0xDE, value)


def test_fields_are_little_endian_and_drop_what_does_not_fit() -> None:
    data = bytearray(b"\xaa" * 300)
    set_fields(INODE, data, 100, i_mode=0x1_8123, i_size_lo=0x1_0203_0405, i_generation=-1)
    assert data[100:102] == b"\x23\x81"
    assert data[104:108] == b"\x05\x04\x03\x02"
    assert data[200:204] == b"\xff" * 4
    assert (data[99], data[102], data[103], data[108], data[199], data[204]) == (0xAA,) * 6
    assert get_field(INODE, data, "i_mode", 100) == 0x8123
    assert get_field(INODE, data, "i_size_lo", 100) == 0x02030405
    assert get_field(INODE, data, "i_mode") == 0xAAAA


# --- blocks changed in memory ---------------------------------------------------------------


@pytest.fixture
def base() -> MemoryBlocks:
    rows = np.zeros((10, SIZE), np.uint8)
    rows[:, 0] = np.arange(10)
    return MemoryBlocks(rows)


def test_a_draft_reads_changes_in_front_of_what_is_there(base: MemoryBlocks) -> None:
    draft = BlockOverlay(base)
    assert (draft.block_size, draft.blocks_count) == (SIZE, 10)
    draft.writable(3)[1] = 33
    draft.writable(3)[2] = 44
    draft.zeroed(5)[7] = 55
    assert draft.read(3)[:3].tolist() == [3, 33, 44]
    assert draft.read(5)[:8].tolist() == [0] * 7 + [55]
    rows = draft.read_many(np.array([5, 4, 3, 3]))
    assert rows[:, 0].tolist() == [0, 4, 3, 3]
    assert rows[:, 1].tolist() == [0, 0, 33, 33]
    assert len(draft.read(2, 4)) == 4 * SIZE
    assert draft.read(2, 4)[SIZE + 1] == 33
    assert base.rows[3, 1] == base.rows[5, 7] == 0
    assert len(draft.read(9, 1)) == SIZE
    assert len(draft.read(10, 0)) == 0


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (10, 1), (9, 2), (3, -1)])
def test_a_draft_has_no_blocks_outside(base: MemoryBlocks, first: int, count: int) -> None:
    with pytest.raises(AccessError):
        BlockOverlay(base).read(first, count)


@pytest.mark.parametrize("number", [-1, 10])
def test_no_block_outside_is_made_anew(base: MemoryBlocks, number: int) -> None:
    with pytest.raises(AccessError):
        BlockOverlay(base).zeroed(number)
    assert not BlockOverlay(base).zeroed(0).any()
    assert not BlockOverlay(base).zeroed(9).any()


def test_only_what_differs_is_a_change(base: MemoryBlocks) -> None:
    draft = BlockOverlay(base)
    assert len(draft.changes()) == 0
    draft.writable(8)[0] = 99
    draft.writable(4)[0] = 4  # as it was
    draft.zeroed(0)  # zeros as before
    draft.zeroed(2)
    changed = draft.changes()
    assert changed.blocks.tolist() == [2, 8]
    assert changed.rows[:, 0].tolist() == [0, 99]
    assert not changed.rows.flags.writeable
    assert len(changed) == 2


def test_a_block_that_cannot_be_read_differs(base: MemoryBlocks) -> None:
    draft = BlockOverlay(base)
    base.broken = {6}
    draft.zeroed(6)
    assert draft.changes().blocks.tolist() == [6]


def test_rows_of_changed_blocks() -> None:
    changed = ChangedBlocks(np.array([3, 7, 9]), np.zeros((3, SIZE), np.uint8))
    asked = np.array([9, 8, 7, 3, 2, 10, 0])
    assert changed.rows_of(asked).tolist() == [2, -1, 1, 0, -1, -1, -1]
    assert no_changes(SIZE).rows_of(asked).tolist() == [-1] * 7
    assert no_changes(SIZE).rows.shape == (0, SIZE)
