"""Checks by the checksums within a file: a whole one passes, a changed one does not, bombs end."""

from __future__ import annotations

import bz2
import io
import lzma
import random
import zipfile
from collections.abc import Callable

import pytest

from ext4kit.filetypes.lengths import CHECKS, Budget
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
