"""Lengths that no disk can hold, loops and bombs: bounded answers, in bounded time."""

from __future__ import annotations

import gzip
import random
import struct
import time
import zlib

import pytest

from ext4kit.recovery.sources.carving.lengths import LENGTHS, Budget
from ext4kit.recovery.sources.carving.signatures import SIGNATURES
from tests.recovery.carving.held import Held, length, window_of

SECONDS = 5.0
MAGICS = sorted({(one.kind, one.magic) for one in SIGNATURES if one.kind in LENGTHS})
FILLINGS = [b"\0", b"\xff", b"\x01", b"\x00\x00\x00\x08free", b"\x01\x00", b"\x00\x01", b"\x7f"]


@pytest.mark.parametrize(("kind", "magic"), MAGICS)
def test_no_header_makes_a_reader_run_away_or_fail(kind: str, magic: bytes) -> None:
    started = time.process_time()
    chance = random.Random(magic)
    for filling in (*FILLINGS, None):
        size = 1 << 16
        body = chance.randbytes(size) if filling is None else filling * (size // len(filling))
        told = length(kind, magic + body, 1 << 24)
        assert told is None or told.size >= 0
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(("kind", "magic"), MAGICS)
def test_damaged_headers_are_survived(kind: str, magic: bytes) -> None:
    chance = random.Random(magic)
    for _ in range(60):
        body = bytearray(chance.choice([b"\0", b"\xff", b"\x08"]) * 9000)
        for _ in range(40):
            at = chance.randrange(300)
            body[at : at + 4] = chance.choice([b"\xff" * 4, b"\0\0\0\x20", b"\x20\0\0\0", b"IEND"])
        told = length(kind, magic + bytes(body), 1 << 22)
        assert told is None or told.size >= 0


def test_a_bomb_is_not_unpacked_to_its_end() -> None:
    bomb = gzip.compress(bytes(200 << 20))
    budget = Budget(16 << 20)
    held = Held(bomb)
    started = time.process_time()
    assert LENGTHS["gzip"](window_of(held, budget)) is None
    assert time.process_time() - started < SECONDS
    assert budget.left < 0


def test_boxes_of_the_largest_size_are_not_followed() -> None:
    box = struct.pack(">I4sQ", 1, b"ftyp", (1 << 64) - 1) + bytes(4000)
    told = length("mp4", box)
    assert told is None or told.size > len(box)


def test_an_archive_whose_members_have_no_end_is_no_archive() -> None:
    member = b"endless/        0           0     0     644     9999999999`\n"
    told = length("ar", b"!<arch>\n" + member + bytes(9000))
    assert told is None or told.size > 9000


def test_a_pack_that_unpacks_for_ever_stops_at_the_budget() -> None:
    thing = bytes([0xB0 | 0x80, 0x7F]) + zlib.compress(bytes(50 << 20))
    started = time.process_time()
    made = b"PACK\0\0\0\x02" + struct.pack(">I", 1 << 20) + thing * 20 + bytes(4096)
    length("git-pack", made, 1 << 24)
    assert time.process_time() - started < SECONDS
