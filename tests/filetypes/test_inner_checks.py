"""Checks by the checksums within a file: a whole one passes, a changed one does not, bombs end."""

from __future__ import annotations

import bz2
import io
import lzma
import random
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.filetypes.formats import CHECKS, LENGTHS, Budget
from tests.carving.held import ENOUGH, Held, window_of

NOISE = random.Random(23).randbytes(300_000)


def zipped(content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", content)
    return made.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "zip": zipped,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


def checked(kind: str, made: bytes, budget: int = ENOUGH) -> bool | None:
    return CHECKS[kind](window_of(Held(made), Budget(budget)), len(made))


@pytest.mark.parametrize("kind", PACKED)
def test_a_whole_file_passes_and_a_changed_one_does_not(kind: str) -> None:
    made = PACKED[kind](NOISE)
    assert checked(kind, made) is True
    changed = bytearray(made)
    changed[len(made) // 2] ^= 1
    assert checked(kind, bytes(changed)) is False


@pytest.mark.parametrize("kind", ["xz", "bzip2"])
@pytest.mark.parametrize("size", [0, 1, 65_536, 70_000])
def test_several_streams_are_one_file(kind: str, size: int) -> None:
    made = PACKED[kind](NOISE[:size]) + PACKED[kind](NOISE)
    assert checked(kind, made) is True
    assert checked(kind, made[:-3]) is False


@pytest.mark.parametrize("kind", PACKED)
def test_a_bomb_ends_with_the_budget(kind: str) -> None:
    bomb = PACKED[kind](bytes(200 << 20))
    assert checked(kind, bomb, 8 << 20) is None


def test_a_dictionary_that_is_too_large_is_not_allocated() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    made = lzma.compress(b"x", lzma.FORMAT_XZ, filters=filters)
    assert checked("xz", made) is None


def test_a_directory_that_is_too_large_is_not_read() -> None:
    made = bytearray(zipped(NOISE))
    at = made.rindex(b"PK\5\6")
    made[at + 12 : at + 16] = (1 << 30).to_bytes(4, "little")
    assert checked("zip", bytes(made)) is None
    made = bytearray(zipped(NOISE))
    made[at:at] = b"PK\6\7" + bytes(16)
    assert checked("zip", bytes(made)) is None


def test_methods_without_a_limit_of_memory_are_not_decompressed() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("member", NOISE)
    assert checked("zip", made.getvalue()) is None


class Largest(Held):
    """Blocks that remember the largest read."""

    largest = 0

    def read(self, block: int, count: int = 1) -> memoryview:
        self.largest = max(self.largest, count * self.block_size)
        return super().read(block, count)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("png", b"\x89PNG\r\n\x1a\n" + (32 << 20).to_bytes(4, "big") + b"IDAT"),
        ("psd", b"8BPS\0\1" + bytes(6) + b"\xff" * 14 + bytes(12) + b"\0\1"),
        ("flac", b"fLaC\x80\0\0\x22" + bytes(7) + b"\xff" * 3 + bytes(24)),
    ],
)
def test_lengths_that_a_file_states_are_not_read_at_once(kind: str, head: bytes) -> None:
    held = Largest(head + bytes(40 << 20))
    assert LENGTHS[kind](window_of(held, Budget(ENOUGH))) is None
    assert held.largest <= 1 << 20


def _film(place: Path) -> bytes:
    source = ("-f", "lavfi", "-i", "testsrc2=s=640x480:d=8,noise=alls=60:allf=t")
    subprocess.run(
        ["ffmpeg", "-v", "error", "-nostdin", *source, "-c:v", "wmv2", place], check=True
    )
    return place.read_bytes()


def _archive(place: Path) -> bytes:
    (place.parent / "noise").write_bytes(NOISE * 2)
    subprocess.run(["7z", "a", "-bso0", "-bsp0", place, place.parent / "noise"], check=True)
    return place.read_bytes()


@pytest.mark.parametrize(
    ("kind", "tool", "make", "name", "changed"),
    [("asf", "ffmpeg", _film, "a.wmv", 0.6), ("7z", "7z", _archive, "a.7z", 1.0)],
)
def test_a_stranger_in_a_file_of_another_program_is_noticed(
    tmp_path: Path, kind: str, tool: str, make: Callable[[Path], bytes], name: str, changed: float
) -> None:
    """It lies in the last of two pieces, of the right size."""
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    made = make(tmp_path / name)
    whole = LENGTHS[kind](window_of(Held(made), Budget(ENOUGH)))
    assert whole is not None and (whole.size, whole.proven) == (len(made), True)
    start = min(int(len(made) * changed), len(made) - 100) // 4096 * 4096
    wrong = made[:start] + NOISE[: min(len(NOISE), len(made) - start)]
    wrong += made[len(wrong) :]
    assert LENGTHS[kind](window_of(Held(wrong), Budget(ENOUGH))) is None
    first = LENGTHS[kind](window_of(Held(made[:start]), Budget(ENOUGH)))
    assert first is not None and first.size == len(made)  # it goes on elsewhere
