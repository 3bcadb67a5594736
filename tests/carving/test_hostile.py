"""Lengths that no disk can hold, loops and bombs: bounded answers, in bounded time."""

from __future__ import annotations

import gzip
import random
import struct
import time
import zlib

import pytest

from ext4kit.carving import CarvedFiles, EndEvidence
from ext4kit.filetypes.formats import LENGTHS, Budget
from ext4kit.filetypes.signatures import SIGNATURES
from tests.carving.held import BLOCK, Held, length, window_of
from tests.carving.test_carve import TEXT, carved_from, laid_out

SECONDS = 5.0
MAGICS = sorted({(name, start.magic) for start, name in SIGNATURES if name in LENGTHS})
FILLINGS = [b"\0", b"\xff", b"\x01", b"\x00\x00\x00\x08free", b"\x01\x00", b"\x00\x01", b"\x7f"]
HOSTILE_SIZE = 3 * BLOCK - 9
BEHIND = TEXT * 300
EMPTY_ARCHIVE = b"PK\x05\x06" + bytes(18)  # the one header whose rest is right when it is zeros


def carved(hostile: bytes) -> list[bytes]:
    """What is carved of hostile bytes with a text behind them; never more than there is."""
    disk = laid_out(hostile, BEHIND)
    found, contents = carved_from(disk)
    assert [len(content) for content in contents] == found.size.tolist()
    blocks = _blocks(found)
    assert sorted(set(blocks)) == sorted(blocks)
    assert set(blocks) <= set(range(len(disk) // BLOCK))
    proven = [
        content
        for content, end in zip(contents, found.end.tolist(), strict=True)
        if end == EndEvidence.FORMAT_END
    ]
    assert proven in ([], [EMPTY_ARCHIVE])
    return contents


def _blocks(found: CarvedFiles) -> list[int]:
    runs = [run for row in range(len(found)) for run in found.runs(row)]
    return [first + at for first, count in runs for at in range(count)]


def ends_in_the_text(kind: str, hostile: bytes) -> bool:
    """Whether the header says so: then nothing tells that the text is another file."""
    disk = laid_out(hostile, BEHIND)
    told = length(kind, disk)
    return told is not None and len(disk) - len(laid_out(BEHIND)) < told.size <= len(disk)


@pytest.mark.parametrize(("kind", "magic"), MAGICS)
def test_no_header_costs_the_file_behind_it_or_endless_time(kind: str, magic: bytes) -> None:
    started = time.process_time()
    for filling in FILLINGS:
        hostile = (magic + filling * HOSTILE_SIZE)[:HOSTILE_SIZE]
        assert carved(hostile)[-1] == BEHIND, filling
    assert time.process_time() - started < SECONDS


def test_a_header_of_zeros_is_proven_where_that_is_a_whole_archive_and_nowhere_else() -> None:
    said = {magic: length(kind, magic.ljust(HOSTILE_SIZE, b"\0")) for kind, magic in MAGICS}
    proven = {magic: told.size for magic, told in said.items() if told and told.proven}
    assert proven == {EMPTY_ARCHIVE[:4]: len(EMPTY_ARCHIVE)}


@pytest.mark.parametrize(("kind", "magic"), MAGICS)
def test_damaged_headers_cost_the_file_behind_only_where_they_name_its_end(
    kind: str, magic: bytes
) -> None:
    chance = random.Random(magic)
    kept = 0
    for _ in range(20):
        body = bytearray(chance.choice([b"\0", b"\xff", b"\x08"]) * 9000)
        for _ in range(40):
            at = chance.randrange(300)
            body[at : at + 4] = chance.choice([b"\xff" * 4, b"\0\0\0\x20", b"\x20\0\0\0", b"IEND"])
        hostile = magic + bytes(body)
        is_there = BEHIND in carved(hostile)
        assert is_there or ends_in_the_text(kind, hostile)
        kept += is_there
    assert kept > 15


@pytest.mark.heavy
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
    assert length("mp4", box) is None


def test_an_archive_whose_members_have_no_end_is_no_archive() -> None:
    size = 9_999_999_999
    member = b"endless/        0           0     0     644     %d`\n" % size
    archive = b"!<arch>\n" + member + bytes(9000)
    told = length("ar", archive)
    assert told is not None
    assert (told.size, told.proven) == (8 + len(member) + size + 1, False)  # as its number says
    assert not any(content.startswith(archive) for content in carved(archive))


def test_a_pack_that_unpacks_for_ever_stops_at_the_budget() -> None:
    unpacked = 50 << 20
    thing = bytes([0xB0 | 0x80, 0x7F]) + zlib.compress(bytes(unpacked))
    budget = Budget(1 << 24)
    started = time.process_time()
    made = b"PACK\0\0\0\x02" + struct.pack(">I", 1 << 20) + thing * 20 + bytes(4096)
    assert LENGTHS["git-pack"](window_of(Held(made), budget)) is None
    assert time.process_time() - started < SECONDS
    assert -unpacked < budget.left < 0
