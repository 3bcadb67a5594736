"""How files and contents are divided into parts that are matched by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.matching.hmm import NeighbourFiles
from ext4kit.matching.transitions import NOTHING
from ext4kit.recovery import arranging
from ext4kit.recovery.arranging import DiskPart, MatchingProblem, split_problem

EVERY, KNOWN = 1000, 5  # files that are asked for; so many of them between two known files


class _Scene(MatchingProblem):
    """Contents in the order of their files, a known file before and after every few."""

    def __init__(self, named: set[int], enclosed: bool = True) -> None:
        self.places = self.rows = row = np.arange(EVERY)
        self.has_name = np.isin(row, list(named))
        first = row // KNOWN * KNOWN
        self.previous = self._side(first)
        self.next = self._side(first + KNOWN if enclosed else np.full(EVERY, NOTHING))

    @staticmethod
    def _side(rank: np.ndarray) -> NeighbourFiles:
        none = np.zeros(EVERY, np.int64)
        return NeighbourFiles(rank, none, none.astype(bool), none - 1)


def _solved(parts: list[DiskPart]) -> list[DiskPart]:
    return [part for part in parts if len(part.contents)]


def test_without_known_files_on_both_sides_a_small_problem_is_one_part() -> None:
    (part,) = split_problem(_Scene({500}, enclosed=False))
    assert part.files.tolist() == part.contents.tolist() == list(range(EVERY))
    assert part.own.all()


def test_enclosed_contents_are_matched_around_named_files_only() -> None:
    parts = list(split_problem(_Scene({3, 500, 507})))
    solved = _solved(parts)
    assert [part.files[[0, -1]].tolist() for part in solved] == [[0, 14], [490, 519]]
    for part in solved:
        assert part.contents.tolist() == part.files.tolist()  # known files bound both alike
        assert part.own.all()
    assert parts[-1].contents.size == 0
    own = np.concatenate([part.files[part.own] for part in parts])
    assert sorted(own.tolist()) == list(range(EVERY))


def test_a_long_row_of_named_files_is_cut_into_parts_that_overlap() -> None:
    solved = _solved(list(split_problem(_Scene(set(range(EVERY))))))
    assert len(solved) == -(-EVERY // arranging.ENCLOSED_FILES_PER_PART)
    own = np.concatenate([part.files[part.own] for part in solved])
    assert own.tolist() == list(range(EVERY))
    for part in solved[1:-1]:
        before, after = np.flatnonzero(part.own)[[0, -1]]
        assert min(before, len(part.own) - 1 - after) >= arranging.ENCLOSED_WINDOW
        assert part.files[0] % KNOWN == 0
        assert (part.files[-1] + 1) % KNOWN == 0
        assert part.contents.tolist() == part.files.tolist()


def test_a_content_that_is_not_enclosed_is_in_the_parts_of_both_its_known_files() -> None:
    matching = _Scene({3, 500})
    matching.next.rank[2] = 505
    early, late = _solved(list(split_problem(matching)))
    assert 2 in early.contents
    assert 2 in late.contents


@pytest.mark.parametrize("files", [0, 4])
def test_files_far_from_named_ones_are_decided_on_unless_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    if files:
        monkeypatch.setattr(arranging, "MAX_PAIRS", EVERY * EVERY - 1)
        monkeypatch.setattr(arranging, "CREATION_WINDOW", files)
    parts = list(split_problem(_Scene({500})))
    own = {file for part in parts for file in part.files[part.own].tolist()}
    assert len(own) == (20 if files else EVERY)
