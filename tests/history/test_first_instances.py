"""Which inode numbers were used before, against the definition taken number by number."""

from __future__ import annotations

from random import Random

import numpy as np

from ext4kit.history.first_instances import _oldest_behind

PER_GROUP = 8
NONE = np.iinfo(np.int64).max


def oldest_by_definition(known: list[tuple[int, int]], mine: int) -> int:
    """Lowest time of the higher numbers of the block group of `mine`."""
    group = (mine - 1) // PER_GROUP
    behind = [
        time for number, time in known if number > mine and (number - 1) // PER_GROUP == group
    ]
    return min((time for time in behind if time), default=NONE)


def test_the_oldest_behind_a_number_is_that_of_its_group_alone() -> None:
    draw = Random("first instances")
    for _ in range(200):
        count = draw.randrange(40)
        numbers = sorted(draw.randrange(1, 41) for _ in range(count))
        known = [(number, draw.choice([0, draw.randrange(1, 9)])) for number in numbers]
        mine = [draw.randrange(1, 42) for _ in range(10)]
        number, time = np.array(known, np.int64).reshape(-1, 2).T
        found = _oldest_behind(number, time, PER_GROUP, np.array(mine))
        assert found.tolist() == [oldest_by_definition(known, one) for one in mine]
