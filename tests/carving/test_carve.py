"""Files laid out in free space come back whole; what others have is not touched."""

from __future__ import annotations

import gzip
import io
import random
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

from ext4kit.arrays.intervals import Intervals
from ext4kit.carving import (
    BlockFeatures,
    CarvedFiles,
    EndEvidence,
    HeadlessBodies,
    carve,
    feature_scanner,
)
from ext4kit.carving.area import CarvingArea
from ext4kit.filesystem.block_maps import Runs
from ext4kit.scan import BlockBatch
from tests.carving.held import BLOCK, Held

CHANCE = random.Random(7)
TEXT = b"Nov 21 12:00:00 host sshd[1]: session opened\n"


def laid_out(*files: bytes) -> bytes:
    """Files one behind the other, each on blocks of its own."""
    return b"".join(content + bytes(-len(content) % BLOCK) for content in files)


def carved_from(
    disk: bytes, claimed: list[tuple[int, int]] | None = None, lists: HeadlessBodies | None = None
) -> tuple[CarvedFiles, list[bytes]]:
    """The files, and the content of each, of a disk that is wholly free but for the claimed."""
    held = Held(disk)
    data = np.frombuffer(held.data, np.uint8).reshape(-1, BLOCK)
    marks = feature_scanner(BlockBatch(np.arange(len(data)), data))
    table = np.array(claimed or [], np.int64).reshape(-1, 2)
    found = carve(
        held,
        BlockFeatures.concat([marks] if marks else []),
        Intervals(np.array([0]), np.array([held.blocks_count])),
        Intervals(table[:, 0], table[:, 1]),
        lists,
    )
    contents = []
    for row in range(len(found)):
        blocks = b"".join(bytes(held.read(*run)) for run in found.runs(row))
        contents.append(blocks[: int(found.size[row])])
    return found, contents


def listed(node: int, *runs: tuple[int, int]) -> HeadlessBodies:
    """One list of blocks at `node` that names runs of them, from the file's block 12 on."""
    first, count = np.array(runs, np.int64).T
    owner, leading = np.zeros(len(runs), np.int64), np.ones(1, bool)
    mapped = Runs(owner, 12 + np.cumsum(count) - count, count, first, np.zeros(len(runs), bool))
    return HeadlessBodies(mapped, (owner[:1], np.array([node])), leading)


def test_files_of_many_kinds_come_back_as_they_were() -> None:
    files = [
        TEXT * 500,
        gzip.compress(CHANCE.randbytes(30_000)),
        CHANCE.randbytes(20_001),
        TEXT,
        TEXT * 91,
        CHANCE.randbytes(5),
        gzip.compress(TEXT * 9000),
        "Grüße\n".encode("utf-16"),
    ]
    found, contents = carved_from(laid_out(*files))
    assert contents == files
    assert (np.diff(found.first) > 0).all()


def test_a_stated_length_wins_over_zeros_in_the_middle() -> None:
    archive = gzip.compress(CHANCE.randbytes(4000), mtime=0)
    holes = archive + bytes(9000) + TEXT * 300
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as members:
        members.writestr("holes", holes)
    found, contents = carved_from(laid_out(packed.getvalue(), TEXT))
    assert contents == [packed.getvalue(), TEXT]
    assert found.end.tolist() == [EndEvidence.FORMAT_END, EndEvidence.TEXT]


def test_a_few_zeros_by_chance_do_not_end_binary_data() -> None:
    content = bytearray(CHANCE.randbytes(6 * BLOCK - 900))
    content[3 * BLOCK - 3 : 3 * BLOCK] = bytes(3)
    _, contents = carved_from(laid_out(bytes(content), TEXT))
    assert contents == [bytes(content), TEXT]


def test_what_is_claimed_is_a_border_and_never_given() -> None:
    disk = laid_out(TEXT * 300, TEXT * 200, TEXT * 100)
    count = -(-len(TEXT * 300) // BLOCK)
    found, contents = carved_from(disk, [(0, count)])
    assert contents == [TEXT * 200, TEXT * 100]
    assert int(found.first[0]) == count


def test_no_block_is_given_twice() -> None:
    files = [CHANCE.randbytes(CHANCE.randint(1, 60_000)) for _ in range(60)]
    files += [gzip.compress(one) for one in files[:20]] + [TEXT * CHANCE.randint(1, 900)] * 10
    CHANCE.shuffle(files)
    found, _ = carved_from(laid_out(*files))
    blocks = np.concatenate(
        [np.arange(first, first + count) for row in range(len(found)) for first, count in
         found.runs(row)]
    )  # fmt: skip
    assert len(np.unique(blocks)) == len(blocks)


def test_a_list_of_blocks_in_the_middle_is_left_out() -> None:
    content = CHANCE.randbytes(30 * BLOCK - 77)
    disk = bytes(BLOCK) + content[: 12 * BLOCK] + CHANCE.randbytes(BLOCK) + content[12 * BLOCK :]
    found, contents = carved_from(disk, lists=listed(13, (14, 18)))
    assert contents == [content]
    assert found.end.tolist() == [EndEvidence.BLOCK_LIST]
    assert found.runs(0) == [(1, 12), (14, 18)]


def test_a_list_elsewhere_ends_the_file_where_it_ends() -> None:
    content = CHANCE.randbytes(20 * BLOCK)  # no zeros at its end
    disk = bytes(BLOCK) + content + laid_out(TEXT) + CHANCE.randbytes(BLOCK)
    _, contents = carved_from(disk, lists=listed(22, (13, 8)))
    assert contents == [content, TEXT]


def test_a_listed_file_goes_on_elsewhere_and_ends_where_its_format_says() -> None:
    content = gzip.compress(CHANCE.randbytes(20 * BLOCK - 300))
    parts = content[: 16 * BLOCK], content[16 * BLOCK :]
    disk = laid_out(TEXT * 91, parts[0], TEXT, parts[1], CHANCE.randbytes(BLOCK))
    first = -(-len(TEXT * 91) // BLOCK)
    lists = listed(
        len(disk) // BLOCK - 1, (first + 12, 4), (first + 17, -(-len(parts[1]) // BLOCK))
    )
    _, contents = carved_from(disk, lists=lists)
    assert contents == [TEXT * 91, content, TEXT]


def test_a_list_that_names_blocks_of_others_is_not_followed() -> None:
    content = CHANCE.randbytes(30 * BLOCK - 77)
    _, contents = carved_from(laid_out(content), [(25, 1)], listed(29, (12, 16)))
    assert b"".join(contents) == content[: 25 * BLOCK] + content[26 * BLOCK :]


def test_nothing_usable_gives_nothing() -> None:
    assert len(carved_from(laid_out(TEXT, TEXT), [(0, 2)])[0]) == 0
    assert len(carved_from(bytes(9 * BLOCK))[0]) == 0


def test_a_disk_looked_at_in_slices_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [CHANCE.randbytes(CHANCE.randint(1, 30_000)) for _ in range(80)]
    files += [gzip.compress(one) for one in files[:30]]
    disk = laid_out(*files)
    claimed = [(at, 1) for at in range(7, len(disk) // BLOCK, 23)]
    whole, contents = carved_from(disk, claimed)
    monkeypatch.setattr(sys.modules[carve.__module__], "_EVENTS_AT_ONCE", 5)
    sliced, again = carved_from(disk, claimed)
    assert again == contents
    assert sliced.first.tolist() == whole.first.tolist()


def blocks_of(start: Any, length: Any) -> set[int]:
    """The blocks of runs."""
    return {
        at for first, count in zip(start, length, strict=True) for at in range(first, first + count)
    }


def test_positions_and_blocks_are_each_others_inverse() -> None:
    ground = CarvingArea(np.array([10, 40]), np.array([20, 5]), np.array([15, 16, 42]))
    places = np.arange(ground.size)
    blocks = ground.blocks(places)
    assert set(blocks.tolist()) == blocks_of([10, 17, 40, 43], [5, 13, 2, 2])
    assert (ground.positions(blocks) == places).all()
    assert ground.positions(np.array([9, 15, 30, 42, 45])).tolist() == [-1] * 5
    assert ground.contiguous_end(np.array([0, 17, 18])).tolist() == [18, 18, 22]
