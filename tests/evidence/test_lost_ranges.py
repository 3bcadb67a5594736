"""What sources know to be lost, held against what they refuse to read."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence.containers.lvm import LogicalVolume, Run
from ext4kit.evidence.lost import UnreadableRanges, merge_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, Window, check_range

UNIT = 512


class Holed:
    """A source with ranges that it has lost."""

    name = "holed"

    def __init__(self, size: int, ranges: list[tuple[int, int]]) -> None:
        self.size, self.ranges = size, ranges

    def unreadable(self) -> Any:
        return merge_ranges(self.ranges)

    def read(self, offset: int, length: int) -> memoryview:
        check_range(self, offset, length)
        if any(start < offset + length and offset < end for start, end in self.ranges):
            raise AccessError("lost")
        return memoryview(bytes(length))

    def close(self) -> None:
        pass


def refused(source: Source) -> list[int]:
    """Units that cannot be read."""
    found = []
    for at in range(0, source.size, UNIT):
        try:
            source.read(at, min(UNIT, source.size - at))
        except AccessError:
            found.append(at // UNIT)
    return found


def claimed(source: Source) -> list[int]:
    """Units that the source says are lost."""
    return [unit for start, end in unreadable_ranges(source).tolist()
            for unit in range(start // UNIT, -(-end // UNIT))]  # fmt: skip


def _holed(noise: random.Random, units: int) -> Holed:
    pairs = []
    for _ in range(noise.randrange(4)):
        start = noise.randrange(units)
        pairs.append((start * UNIT, min(units, start + noise.randrange(1, 9)) * UNIT))
    return Holed(units * UNIT, pairs)


@pytest.mark.parametrize("seed", range(30))
def test_windows_and_logical_volumes_tell_what_is_below_them(seed: int) -> None:
    noise = random.Random(seed)
    disks = [_holed(noise, 200) for _ in range(3)]
    window = Window(disks[0], 17 * UNIT, noise.choice((100, 300)) * UNIT)
    assert claimed(window) == refused(window)
    runs, start = [], 0
    for width in noise.choices((1, 2, 3), k=3):
        stripe = noise.choice((1, 4)) * UNIT if width > 1 else 0
        length = noise.choice((7, 24, 48)) * UNIT * width
        places: tuple[tuple[str, Source | None, int], ...] = tuple(
            ("pv", None if noise.random() < 0.2 else disk, noise.randrange(100) * UNIT)
            for disk in disks[:width]
        )
        runs.append(Run(start, length, stripe or length, places))
        start += length
    volume = LogicalVolume("volume", tuple(runs))
    assert claimed(volume) == refused(volume)


def test_ranges_that_become_known_one_by_one() -> None:
    noise, known, units = random.Random(4), UnreadableRanges(), set[int]()
    for _ in range(500):
        start = noise.randrange(0, 3000, 3)
        known.add(start, start + 3)
        units |= set(range(start, start + 3))
        table = known.table()
        assert (table[1:, 0] > table[:-1, 1]).all()
    assert {unit for start, end in table.tolist() for unit in range(start, end)} == units
