"""A changed bit of a fast commit is found, whatever the bytes around it look like."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ext4kit.audit import fast_commits
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.fast_commit import CHECKED_IN_TAIL, TagKind

SIZE, TID = 4096, 7
TAIL_AT = 300  # in the second block
LOOKS_LIKE_A_TAIL = struct.pack("<HI", 0, 0x6B030C40)  # the middle of an inode: a time
AT = SIZE - 4 - 0x0C40  # where a tail would have that length


def fast_commit(middle: bytes) -> bytearray:
    """Two blocks, filled with one tag each; `middle` lies in the first one."""
    data = bytearray(2 * SIZE)
    struct.pack_into("<HH", data, 0, TagKind.INODE, SIZE - 4)
    data[AT : AT + len(middle)] = middle
    struct.pack_into("<HH", data, SIZE, TagKind.INODE, TAIL_AT - 4)
    tail = SIZE + TAIL_AT
    struct.pack_into("<HHI", data, tail, TagKind.TAIL, SIZE - 4 - TAIL_AT, TID)
    end = tail + CHECKED_IN_TAIL
    struct.pack_into("<I", data, end, crc32c(0, bytes(data[:end])))
    return data


@pytest.mark.parametrize("middle", [b"", LOOKS_LIKE_A_TAIL], ids=["plain", "like a tail"])
@pytest.mark.parametrize("byte", [10, 2000, SIZE + 100, SIZE + TAIL_AT + 5])
def test_one_changed_bit_is_found_where_it_is(byte: int, middle: bytes) -> None:
    data = fast_commit(middle)
    data[byte] ^= 0x40
    rows = np.frombuffer(bytes(data), np.uint8).reshape(2, SIZE)
    found = fast_commits._explained(rows, 0, SIZE)
    assert found == fast_commits._Damaged(0, 1, TID, byte, 0x40)
