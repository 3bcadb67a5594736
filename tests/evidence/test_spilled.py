"""Rows in a temporary file are the rows that were added, whatever became of the file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from ext4kit.arrays.types import Bytes2D
from ext4kit.evidence import spilled, temporary
from ext4kit.evidence.spilled import RowStore

WIDTH = 8


@pytest.fixture(autouse=True)
def _spill_early(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spilled, "KEPT_BYTES", 4 * WIDTH)
    monkeypatch.setattr(spilled, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def pieces() -> list[Bytes2D]:
    """Pieces of 1 to 9 rows, no two rows alike."""
    drawn = np.random.default_rng(1)
    return [drawn.integers(0, 256, (count, WIDTH), np.uint8) for count in (1, 9, 3, 0, 2)]


def stored(some: list[Bytes2D]) -> spilled.StoredRows:
    """The rows of some pieces, added one after the other."""
    store = RowStore(WIDTH)
    for piece in some:
        store.add(piece)
    return store.rows()


def test_many_rows_are_in_a_file_and_are_the_same() -> None:
    rows = stored(pieces())
    assert rows.is_spilled
    assert rows.data.tobytes() == b"".join(piece.tobytes() for piece in pieces())
    rows.release()
    assert rows.data.tobytes() == b"".join(piece.tobytes() for piece in pieces())


def test_few_rows_are_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "temporary_file", None)
    rows = stored(pieces()[:1])
    assert not rows.is_spilled and rows.data.tobytes() == pieces()[0].tobytes()


def test_rows_of_any_order_are_taken_whole_or_in_part() -> None:
    every, rows = np.concatenate(pieces()), stored(pieces())
    order = np.random.default_rng(2).integers(0, len(every), 40)
    assert (rows.take(order).data == every[order]).all()
    found = np.concatenate(list(rows.pieces(order, slice(2, 5))))
    assert (found == every[order, 2:5]).all()


def test_where_no_file_may_be_written_rows_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(temporary, "_REFUSED", {str(tmp_path)})
    rows = stored(pieces())
    assert not rows.is_spilled and (rows.data == np.concatenate(pieces())).all()


@pytest.mark.parametrize("room", [0, 5, 8 * WIDTH, 13 * WIDTH + 1])
def test_when_the_disk_is_full_no_row_is_lost(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    class FullDisk:
        """A file with room for so many bytes."""

        def __init__(self, file: BinaryIO) -> None:
            self.file, self.left = file, room

        def write(self, data: memoryview) -> int:
            if not self.left:
                raise OSError(28, "No space left on device")
            count = self.file.write(data[: self.left])
            self.left -= count
            return count

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> BinaryIO:
            return self.file.__enter__()

        def __exit__(self, *ended: Any) -> None:
            self.file.__exit__(*ended)

    make = temporary.temporary_file
    monkeypatch.setattr(spilled, "temporary_file", lambda buffering: FullDisk(make(buffering)))
    rows = stored(pieces())
    assert not rows.is_spilled and (rows.data == np.concatenate(pieces())).all()


def test_no_file_has_a_name(tmp_path: Path) -> None:
    rows = stored(pieces())
    assert rows.is_spilled and not list(tmp_path.iterdir())
