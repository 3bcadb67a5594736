"""Files in several places are put together where their formats say so, and only there."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable

import pytest

from ext4kit.carving import EndEvidence
from tests.carving.held import BLOCK
from tests.carving.test_carve import carved_from, laid_out

CHANCE = random.Random(17)
BLOCKS = 40  # of each file, about


def noise(size: int) -> bytes:
    return CHANCE.randbytes(size)


def zip_of(size: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(4):
            archive.writestr(f"member-{number}", noise(size // 4))
    return made.getvalue()


def tar_of(size: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for number in range(3):  # no header begins a block
            member = tarfile.TarInfo(f"member-{number}")
            member.size = size // 3 // BLOCK * BLOCK
            archive.addfile(member, io.BytesIO(noise(member.size)))
    return made.getvalue()


def png_of(size: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        checked = name + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    parts = [chunk(b"IHDR", bytes(13))]
    parts += [chunk(b"IDAT", noise(8192)) for _ in range(size // 8192)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def wav_of(size: int) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(noise(size // 2 * 2 + 200))
    return made.getvalue()


def mp4_of(size: int) -> bytes:
    def box(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", 8 + len(data)) + name + data

    return box(b"ftyp", b"isom" * 4) + box(b"mdat", noise(size)) + box(b"moov", noise(900))


def packed(compress: Callable[[bytes], bytes]) -> Callable[[int], bytes]:
    return lambda size: compress(noise(size))


CHECKED: dict[str, Callable[[int], bytes]] = {
    "gzip": packed(gzip.compress),
    "xz": packed(lzma.compress),
    "bzip2": packed(bz2.compress),
    "zip": zip_of,
    "png": png_of,
}
FOLLOWED: dict[str, Callable[[int], bytes]] = {"tar": tar_of, "riff": wav_of, "mp4": mp4_of}


def in_pieces(made: bytes, *cuts: int) -> list[bytes]:
    """The file cut at multiples of a block."""
    edges = [0, *(cut * BLOCK for cut in cuts), len(made)]
    return [made[start:end] for start, end in zip(edges, edges[1:], strict=False)]


@pytest.mark.parametrize("kind", [*CHECKED, *FOLLOWED])
def test_a_rest_before_or_behind_the_head_is_found(kind: str) -> None:
    make = (CHECKED | FOLLOWED)[kind]
    made, between = make(BLOCKS * BLOCK), packed(gzip.compress)(5 * BLOCK)
    head, rest = in_pieces(made, BLOCKS // 2)
    for disk in (laid_out(rest, between, head, between), laid_out(head, between, rest, between)):
        found, contents = carved_from(disk)
        assert made in contents
        end = EndEvidence(int(found.end[contents.index(made)]))
        assert end == (
            EndEvidence.FORMAT_END if kind in CHECKED else EndEvidence.FORMAT_LENGTH_JOINED
        )


@pytest.mark.parametrize("kind", CHECKED)
def test_the_right_rest_is_told_from_another(kind: str) -> None:
    """All heads, then all rests in another order, of files of one size."""
    files = [CHECKED[kind](BLOCKS * BLOCK) for _ in range(3)]
    parts = [in_pieces(one, BLOCKS // 2) for one in files]
    others = [packed(gzip.compress)(3 * BLOCK) for _ in range(6)]
    order = [head for head, _ in parts] + [parts[at][1] for at in (2, 0, 1)]
    disk = laid_out(*(one for pair in zip(order, others, strict=True) for one in pair))
    _, contents = carved_from(disk)
    assert all(one in contents for one in files)


def test_three_pieces_are_put_together() -> None:
    made = mp4_of(60 * BLOCK)
    first, second, third = in_pieces(made, 20, 41)
    others = [packed(gzip.compress)(3 * BLOCK) for _ in range(3)]
    _, contents = carved_from(laid_out(third, others[0], first, others[1], second, others[2]))
    assert made in contents


def test_nothing_is_put_together_without_its_rest() -> None:
    """What is left of the head is never said to be whole."""
    for make in (CHECKED | FOLLOWED).values():
        head, _ = in_pieces(make(BLOCKS * BLOCK), BLOCKS // 2)
        stranger = noise(9 * BLOCK - 700)
        found, _ = carved_from(laid_out(head, packed(gzip.compress)(3 * BLOCK), stranger))
        row = int((found.first == 0).argmax())
        assert not found.end_proven[row]
        assert found.end[row] >= EndEvidence.FORMAT_LENGTH_JOINED


LOG = '10.0.{}.{} - - [28/Nov/2026:10:{:02d}:07 +0000] "GET /a/{} HTTP/1.1" 200 {}\n'
DUMP = "INSERT INTO t VALUES ({},'name {}',0.{});\n"


def lines(form: str, blocks: int) -> bytes:
    made = bytearray()
    while len(made) < blocks * BLOCK:
        numbers = [CHANCE.randrange(10, 60) for _ in range(form.count("{"))]
        made += form.format(*numbers).encode()
    return bytes(made)


def test_two_texts_that_meet_at_a_part_are_cut_there() -> None:
    """Parts of large files begin at multiples of 2,048 blocks."""
    dump, log = lines(DUMP, 2050), lines(LOG, 30)
    head, rest = in_pieces(dump, 2048)
    other = packed(gzip.compress)(3 * BLOCK)
    _, contents = carved_from(laid_out(head, log, other, rest, other))
    assert log in contents
    assert dump in contents
