"""Directory blocks: where a chain of entries breaks off."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ext4kit.parsers.directory import parse_entries

BLOCK = 1024


def block_of(*lengths: int) -> bytes:
    """A block whose entries have these record lengths."""
    records = (struct.pack("<IHBB4s", 12, length, 1, 1, b"x") for length in lengths)
    padded = (record.ljust(length, b"\0") for record, length in zip(records, lengths, strict=True))
    return b"".join(padded).ljust(BLOCK, b"\0")


@pytest.mark.parametrize("left", [4, 8, 12])
def test_entries_that_end_before_their_block_does_break_off_there(left: int) -> None:
    whole, short = block_of(12, BLOCK - 12), block_of(12, BLOCK - 12 - left)
    entries, broken = parse_entries(np.frombuffer(whole + short, np.uint8).reshape(2, BLOCK), True)
    assert broken.tolist() == [-1, BLOCK - left]
    assert entries.block.tolist() == [0, 0, 1, 1]
