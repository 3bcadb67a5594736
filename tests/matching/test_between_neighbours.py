"""Matching by order, on layouts of which the truth was drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from ext4kit.matching.between_neighbours import NO_ROW, Placement, match_by_neighbours

FILES = 40  # in each group


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return list(np.array(rows, np.int64).reshape(-1, width).T)


def _matched(
    files: Sequence[tuple[int, ...]], wanted: set[int], carved: list[int]
) -> dict[int, int]:
    """Inode number -> first block of the carved file; `files`: group, time, number, first, end."""
    known = [one for one in files if one[2] not in wanted]
    places = {one[3]: one[4] for one in files}
    group, time, number, first, end = _columns(known, 5)
    taken = np.array(sorted((one[3], one[4]) for one in known), np.int64).reshape(-1, 2).T
    asked = [one[:3] for one in files if one[2] in wanted]
    columns = _columns(asked, 3)
    found = match_by_neighbours(
        Placement(group, time, number, first, end, np.ones(len(known), bool)),
        (columns[0], columns[1], columns[2]),
        (np.array(carved, np.int64), np.array([places.get(one, one + 1) for one in carved])),
        (taken[0], taken[1]),
    )
    return {
        one[2]: carved[row] for one, row in zip(asked, found.tolist(), strict=True)
        if row != NO_ROW
    }  # fmt: skip


def _one_after_the_other(chance: random.Random, groups: int = 3) -> list[tuple[int, ...]]:
    files: list[tuple[int, ...]] = []
    block = 1000
    for group in range(groups):
        for number in range(FILES):
            size = chance.randrange(1, 9)
            files.append((group, 10_000 * group + number * 3, group * 100 + number, block,
                          block + size))  # fmt: skip
            block += size
        block += 500
    return files


@pytest.mark.parametrize("seed", range(20))
def test_every_match_is_right_and_gaps_with_all_files_are_matched(seed: int) -> None:
    chance = random.Random(seed)
    files = _one_after_the_other(chance)
    inner = [one[2] for one in files if one[2] % 100 not in (0, FILES - 1)]
    wanted = {number for number in inner if chance.random() < 0.5}
    truth = {one[2]: one[3] for one in files}
    carved = sorted(truth[number] for number in wanted)
    found = _matched(files, wanted, carved)
    assert found == {number: truth[number] for number in wanted}


@pytest.mark.parametrize("seed", range(20))
def test_a_gap_with_a_file_too_few_or_too_many_gives_nothing(seed: int) -> None:
    chance = random.Random(seed)
    files = _one_after_the_other(chance, groups=1)
    truth = {one[2]: one[3] for one in files}
    wanted = set(range(5, 12)) | set(range(20, 24))
    gone = chance.choice(sorted(set(range(5, 12))))
    carved = sorted(truth[number] for number in wanted - {gone})
    found = _matched(files, wanted, carved)
    assert found == {number: truth[number] for number in range(20, 24)}
    more = sorted([*(truth[number] for number in wanted), truth[5] - 0])
    assert set(_matched(files, wanted, more)) <= set(range(20, 24))


def test_no_neighbour_before_no_answer() -> None:
    files = [(0, 1, 11, 100, 101), (0, 2, 12, 101, 102), (1, 3, 111, 300, 301)]
    assert _matched(files, {11, 12}, [100, 101]) == {}


def test_others_between_the_neighbours_end_the_gap() -> None:
    files = [(0, 1, 11, 100, 101), (0, 2, 12, 101, 103), (0, 4, 13, 120, 121),
             (1, 9, 111, 110, 111)]  # fmt: skip
    assert _matched(files, {12}, [101]) == {}


def test_no_neighbour_behind_no_answer() -> None:
    files = [(0, 1, 11, 100, 101), (0, 2, 12, 101, 102), (1, 3, 111, 300, 301)]
    assert _matched(files, {12}, [101]) == {}


def test_a_gap_that_the_carved_files_leave_room_in_gives_nothing() -> None:
    files = [(0, 1, 11, 100, 101), (0, 2, 12, 103, 105), (0, 4, 13, 105, 121)]
    assert _matched(files, {12}, [103]) == {}
