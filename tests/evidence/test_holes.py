"""Holes of sparse images, as the system tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.holes import data_ranges
from ext4kit.evidence.raw import open_raw
from ext4kit.evidence.source import Window

SIZE = 64 << 20
WRITTEN = ((5 << 20, b"a" * 70_000), (20 << 20, b"b"), (SIZE - 1, b"c"))


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """An image with three written places."""
    image = tmp_path / "sparse.img"
    with image.open("wb") as stream:
        stream.truncate(SIZE)
        for offset, data in WRITTEN:
            stream.seek(offset)
            stream.write(data)
    return image


def test_all_written_bytes_lie_in_the_ranges_and_most_of_the_holes_do_not(sparse: Path) -> None:
    source = open_raw(sparse)
    found = list(data_ranges(source))
    covered = {place for part in found for place in part}
    for offset, data in WRITTEN:
        assert covered.issuperset(range(offset, offset + len(data)))
    allocated = sparse.stat().st_blocks * 512
    assert sum(map(len, found)) <= max(allocated, 4096 * len(WRITTEN))
    source.close()


def test_a_window_tells_its_own_offsets(sparse: Path) -> None:
    source = open_raw(sparse)
    window = Window(source, 20 << 20, 8 << 20)
    first, *others = data_ranges(window)
    assert 0 in first
    assert not others
    assert list(data_ranges(window, 1 << 20, 2 << 20)) == []
    with pytest.raises(AccessError):
        list(data_ranges(window, 1 << 20, 8 << 20))
    source.close()


def test_split_parts_count_as_data(tmp_path: Path) -> None:
    for number in range(1, 4):
        (tmp_path / f"disk.{number:03}").write_bytes(bytes(1 << 20))
    with open_evidence(tmp_path / "disk.001") as evidence:
        assert list(data_ranges(evidence.source)) == [range(3 << 20)]
