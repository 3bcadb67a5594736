"""A file's bytes rule others out, or they do not: how blocks begin and end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.recovery.grading import slack
from ext4kit.recovery.grading.slack import may_hold_foreign_data, may_hold_foreign_metadata

SIZE = 64  # bytes of a block
ZEROS = 4  # that are more than chance
FULL = b"\x01" * SIZE
ENDS = b"\x01" * 20 + bytes(SIZE - 20)  # a last block of 20 bytes
EMPTY = bytes(SIZE)
UNREADABLE = b""
SOUND = 2 * SIZE + 20  # size of a file of FULL, FULL, ENDS


def disk(*blocks: bytes) -> FileSystem:
    """A file system that has these blocks."""
    rows = np.frombuffer(b"".join(block or EMPTY for block in blocks), np.uint8)
    there = np.array([block != UNREADABLE for block in blocks])

    def fetch(numbers: Any) -> tuple[Any, Any]:
        return rows.reshape(-1, SIZE)[numbers], there[numbers]

    return cast(
        FileSystem, SimpleNamespace(superblock=SimpleNamespace(block_size=SIZE), fetch=fetch)
    )


def runs(*rows: tuple[int, int, int, int]) -> Runs:
    """(owner, file block, blocks, first block on disk) of each."""
    owner, logical, length, physical = np.array(rows, np.int64).reshape(-1, 4).T
    return Runs(owner, logical, length, physical, np.zeros(len(owner), bool))


def has_seams(size: int, *blocks: bytes) -> bool:
    """Whether a file in one run of these blocks may have been written into."""
    (found,) = may_hold_foreign_data(
        disk(*blocks), np.array([size]), runs((0, 0, len(blocks), 0)), np.array([True])
    )
    return bool(found)


def test_a_file_without_zeros_at_the_ends_of_its_blocks_is_its_own() -> None:
    assert not has_seams(SOUND, FULL, FULL, ENDS)
    assert not has_seams(20, ENDS)


@pytest.mark.parametrize("zeros", [ZEROS, 40, SIZE])
@pytest.mark.parametrize("place", [0, 1])
def test_a_block_within_that_ends_in_zeros_may_be_where_others_stopped(
    zeros: int, place: int
) -> None:
    blocks = [FULL, FULL, ENDS]
    blocks[place] = b"\x01" * (SIZE - zeros) + bytes(zeros)
    assert has_seams(SOUND, *blocks)


def test_as_few_zeros_as_come_by_chance_are_no_seam() -> None:
    few = b"\x01" * (SIZE - ZEROS + 1) + bytes(ZEROS - 1)
    assert not has_seams(SOUND, FULL, few, ENDS)


def test_a_file_that_fills_its_last_block_tells_nothing() -> None:
    assert has_seams(2 * SIZE, FULL, FULL)
    assert has_seams(SIZE, FULL)
    assert not has_seams(2 * SIZE - 1, FULL, FULL)


def test_blocks_that_cannot_be_read_say_nothing_against_it() -> None:
    assert not has_seams(SOUND, FULL, UNREADABLE, ENDS)


@pytest.mark.parametrize(
    ("inner", "suspect"),
    [
        (ENDS, False),  # what the file took first ended there: nobody ran over it
        (FULL, True),  # others may have ended with it
        (EMPTY, True),
    ],
)
def test_the_last_block_of_a_piece_within_a_file_has_to_show_its_end(
    inner: bytes, suspect: bool
) -> None:
    image = disk(FULL, inner, EMPTY, ENDS)
    pieces = runs((0, 0, 2, 0), (0, 2, 1, 3))
    assert may_hold_foreign_data(image, np.array([SOUND]), pieces, np.array([True])).tolist() == [
        suspect
    ]


def test_each_file_is_judged_by_its_own_blocks_and_only_where_asked() -> None:
    image = disk(FULL, EMPTY, FULL, ENDS, FULL, EMPTY, ENDS)
    pieces = runs((0, 0, 2, 0), (1, 0, 2, 2), (2, 0, 3, 4))
    size = np.array([SIZE + 20, SIZE + 20, SOUND, 5 * SIZE])
    wanted = np.array([True, True, True, True])
    assert may_hold_foreign_data(image, size, pieces, wanted).tolist() == [
        False,
        False,
        True,
        False,
    ]
    wanted[2] = False
    assert not may_hold_foreign_data(image, size, pieces, wanted).any()


def test_what_is_not_read_any_more_stays_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    image, size = disk(FULL, ENDS, FULL, ENDS), np.array([SIZE + 20, SIZE + 20])
    pieces, wanted = runs((0, 0, 2, 0), (1, 0, 2, 2)), np.array([True, True])
    for affordable, expected in ((4, [False, False]), (3, [False, True]), (1, [True, True])):
        with monkeypatch.context() as patch:
            patch.setattr(slack, "MAX_BYTES_READ", affordable * SIZE)
            assert may_hold_foreign_data(image, size, pieces, wanted).tolist() == expected
            assert may_hold_foreign_metadata(image, size, pieces).tolist() == expected


def test_more_blocks_than_are_read_at_once_are_all_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slack, "BLOCKS_AT_ONCE", 2)
    for place in range(5):
        blocks = [FULL] * 5 + [ENDS]
        blocks[place] = FULL[:-10] + bytes(10)
        assert has_seams(5 * SIZE + 20, *blocks)
        blocks[place] = directory_block()
        assert is_strange(5 * SIZE + 20, *blocks)


# --- the files of a lost file system ----------------------------------------------------------


def is_strange(size: int, *blocks: bytes) -> bool:
    """Whether others may have written into a file in one run of these blocks."""
    (found,) = may_hold_foreign_metadata(
        disk(*blocks), np.array([size]), runs((0, 0, len(blocks), 0))
    )
    return bool(found)


def directory_block() -> bytes:
    """A block that ends in the tail that metadata_csum puts behind directory entries."""
    return FULL[:-12] + bytes(4) + b"\x0c\0\0\xde" + b"\xaa" * 4


def extent_block(entries: int = 1, most: int = 4, magic: int = 0xF30A) -> bytes:
    """A block that begins as a node of an extent tree does."""
    words = (magic, entries, most, 0, 0, 0)
    return b"".join(word.to_bytes(2, "little") for word in words).ljust(SIZE, b"\x01")


def test_bytes_up_to_the_end_and_zeros_behind_are_its_own() -> None:
    assert not is_strange(SOUND, FULL, FULL, ENDS)
    assert not is_strange(2 * SIZE - 1, FULL, FULL[:-1] + b"\0")


@pytest.mark.parametrize("block", [directory_block(), extent_block(), extent_block(4, 4)])
def test_a_block_of_metadata_within_a_file_is_of_others(block: bytes) -> None:
    assert is_strange(SOUND, FULL, block, ENDS)
    assert is_strange(SOUND, block, FULL, ENDS)


@pytest.mark.parametrize(
    "block", [extent_block(0, 0), extent_block(magic=0xF30B), extent_block(5, 4)]
)
def test_what_is_no_node_of_a_tree_may_be_content(block: bytes) -> None:
    assert not is_strange(SOUND, FULL, block, ENDS)


@pytest.mark.parametrize(
    "last",
    [
        b"\x01" * 21 + bytes(SIZE - 21),  # goes on behind the end
        b"\x01" * 20 + bytes(SIZE - 21) + b"\x01",
        b"\x01" * (20 - ZEROS) + bytes(SIZE - 20 + ZEROS),  # stopped before it
        EMPTY,
    ],
)
def test_a_last_block_that_ends_elsewhere_is_of_others(last: bytes) -> None:
    assert is_strange(SOUND, FULL, FULL, last)


def test_a_last_block_may_end_in_as_few_zeros_as_come_by_chance() -> None:
    few = b"\x01" * (21 - ZEROS) + bytes(SIZE - 21 + ZEROS)
    assert not is_strange(SOUND, FULL, FULL, few)


def test_seams_of_lost_files_count_as_well() -> None:
    assert is_strange(SOUND, FULL, FULL[:-10] + bytes(10), ENDS)
    assert not is_strange(SOUND, FULL, UNREADABLE, ENDS)
    assert is_strange(2 * SIZE, FULL, FULL)
