"""Laying files over contents, on disks of which the truth was drawn by chance."""

from __future__ import annotations

import random
import sys
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from ext4kit.filetypes.signatures import SIGNATURE_NAMES
from ext4kit.matching.content_classes import (
    CLASS_INDEX,
    CONTENT_CLASSES,
    classify_content,
    likelihood_ratios,
    name_class_of,
)
from ext4kit.matching.hmm import FileStates, MatchingInput, Observations, posterior_pairs
from ext4kit.matching.observations import allocation_order, neighbours_of
from ext4kit.matching.self_names import HEAD
from ext4kit.matching.shifted_runs import shift_odds
from ext4kit.matching.transitions import NOTHING, Adjacency

ENDINGS = ["png", "py", "txt", "sh", "html", "json"]
KINDS = ["png", "python", "prose", "shell", "markup", "json"]
SURE, SURE_IN_DISORDER = 0.99, 0.999
UNSHIFTED = 0.01
MISSING = 0.05
SHIFTED = (61, 199, 263)  # of 300: the pairs are sure of two or three wrong ones


@dataclass
class _Disk:
    """Files as they were made: ending, first block, blocks; known ones keep their blocks."""

    files: list[tuple[int, int, int]] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)  # without a content
    strangers: list[tuple[int, int]] = field(default_factory=list)  # contents of nobody
    folder: list[int] = field(default_factory=list)
    spoken: dict[int, int] = field(default_factory=dict)  # first block -> file that it mentions

    def problem(self) -> tuple[MatchingInput, np.ndarray, np.ndarray]:
        """What is asked, with the rows of the files and the first blocks of the contents."""
        there = [
            (first, count, KINDS[kind])
            for at, (kind, first, count) in enumerate(self.files)
            if at not in self.known | self.gone
        ]
        there += [(first, count, "prose") for first, count in self.strangers]
        there.sort()
        first, count = (np.array([one[at] for one in there], np.int64) for at in (0, 1))
        asked = np.array([at for at in range(len(self.files)) if at not in self.known])
        folder = np.array(self.folder or [NOTHING] * len(self.files))
        likes = np.array([CLASS_INDEX[kind] for _, _, kind in there])
        link, front, behind = neighbours_of((first, first + count), self._known_runs(asked, folder))
        strange = np.full(len(first), max(0.005, 1 - len(asked) / len(first)))
        nobody = np.full(len(first), NOTHING)
        called = np.array([self.files[at][0] + 1 for at in asked])
        asked_for = MatchingInput(
            Observations(likes, link, strange, front, behind, nobody),
            FileStates(called, np.full(len(asked), MISSING), folder[asked]),
            self._mentions(first, asked),
            likelihood_ratios(ENDINGS, likes),
        )
        return asked_for, asked, first

    def matched(self) -> dict[int, int]:
        """File -> first block that is told."""
        problem, asked, first = self.problem()
        (aligned,) = posterior_pairs([problem])
        odd = np.convolve(aligned.expected_count > 1.1, np.ones(5), "same") > 0
        sure = (aligned.probability >= (SURE if aligned.backward_share < 0.05 else 0.999)) & (
            aligned.expected_count < 1.01
        )[aligned.state]
        sure &= (
            ~odd[aligned.state] & (shift_odds(problem, aligned) < UNSHIFTED)[aligned.observation]
        )
        pairs = zip(asked[aligned.state[sure]], first[aligned.observation[sure]], strict=True)
        return {int(file): int(block) for file, block in pairs}

    def _known_runs(
        self, asked: np.ndarray, folder: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        known = np.array(sorted(self.known), np.int64)
        first, count = (
            np.array([self.files[at][column] for at in known], np.int64) for column in (1, 2)
        )
        return first, first + count, np.searchsorted(asked, known), folder[known]

    def _mentions(
        self, first: np.ndarray, asked: np.ndarray
    ) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return {
            int(np.searchsorted(first, block)): (
                np.searchsorted(asked, [file]),
                np.array([100.0]),
            )
            for block, file in self.spoken.items()
        }


def _made(chance: random.Random, number: int, endings: int, large: float = 0.05) -> _Disk:
    """Small files one after the other, large ones in a place of their own, places that change."""
    disk = _Disk()
    small, big = 1000, 50_000
    for _ in range(number):
        if chance.random() < 0.01:
            small += 3000
        count = chance.randrange(17, 60) if chance.random() < large else chance.randrange(1, 12)
        kind = chance.randrange(endings)
        if count > 16:
            disk.files.append((kind, big, count))
            big += count
        else:
            disk.files.append((kind, small, count))
            small += count
    return disk


def _judged(disk: _Disk) -> tuple[int, int, int]:
    """(right, wrong, asked for)."""
    found = disk.matched()
    right = sum(1 for at, block in found.items() if disk.files[at][1] == block)
    return right, len(found) - right, len(disk.files) - len(disk.known)


@pytest.mark.parametrize("seed", range(2))
def test_names_that_fit_pin_a_whole_tree_without_a_neighbour(seed: int) -> None:
    right, wrong, asked = _judged(_made(random.Random(seed), 120, len(ENDINGS)))
    assert wrong == 0
    assert right >= 0.85 * asked


@pytest.mark.parametrize("seed", range(2))
def test_files_without_content_and_contents_of_strangers_shift_nothing(seed: int) -> None:
    chance = random.Random(seed)
    disk = _made(chance, 120, len(ENDINGS))
    disk.gone = set(chance.sample(range(120), 8))
    for at in chance.sample(range(120), 5):  # their own content is there, and nobody's
        kind, first, count = disk.files[at]
        disk.gone.add(at)
        disk.strangers.append((first, count))
    right, wrong, asked = _judged(disk)
    assert wrong == 0
    assert right >= 0.5 * asked


@pytest.mark.parametrize("seed", range(2))
def test_neighbours_that_are_known_hold_those_between_them_in_place(seed: int) -> None:
    chance = random.Random(seed)
    disk = _made(chance, 100, endings=1, large=0)  # all of a kind: names tell nothing
    disk.known = {at for at in range(100) if chance.random() < 0.4}
    right, wrong, asked = _judged(disk)
    assert wrong == 0
    assert right >= 0.5 * asked


def test_where_one_is_missing_among_the_like_none_is_told() -> None:
    disk = _made(random.Random(1), 60, endings=1, large=0)
    disk.gone = {30}
    assert disk.matched() == {}


@pytest.mark.parametrize("seed", range(2))
def test_of_two_writers_at_a_time_the_one_that_is_known_holds_the_other(seed: int) -> None:
    chance = random.Random(seed)
    made = [chance.randrange(2) for _ in range(160)]  # by whom
    lies = sorted(range(160), key=lambda at: at + (0.4 + made[at] * chance.choice((0, 0, 0, 1.2))))
    disk = _Disk(files=[(0, 0, 0)] * 160, folder=made)
    block = 1000
    for at in lies:
        count = chance.randrange(1, 9)
        disk.files[at] = (0, block, count)
        block += count
    disk.known = {at for at in range(160) if made[at] == 1}
    right, wrong, asked = _judged(disk)
    assert wrong == 0
    assert right >= 0.5 * asked


def test_small_and_large_contents_are_in_the_order_of_each_with_and_without_known_files() -> None:
    first, end = np.array([100, 140, 141, 170, 171]), np.array([140, 141, 170, 171, 200])
    order = allocation_order(first, end)
    assert order.tolist() == [1, 3, 0, 2, 4]
    observed = first[order], end[order]
    nothing = np.zeros(0, np.int64)
    link, front, behind = neighbours_of(observed, (nothing, nothing, nothing, nothing))
    assert set(front.rank.tolist()) == set(behind.rank.tolist()) == {NOTHING}
    assert link[2] == Adjacency.FAR
    known = (np.array([90]), np.array([100]), np.array([7]), np.array([3]))
    _, front, behind = neighbours_of(observed, known)
    assert front.rank.tolist() == [7] * 5
    assert front.contents_between.tolist() == [1, 3, 0, 2, 4]
    assert set(behind.rank.tolist()) == {NOTHING}


def test_what_says_its_name_holds_those_around_it() -> None:
    disk = _made(random.Random(1), 60, endings=1, large=0)
    disk.gone = {30}
    assert disk.matched() == {}
    disk.spoken = {disk.files[at][1]: at for at in range(0, 60, 4)}
    found = disk.matched()
    assert all(disk.files[at][1] == block for at, block in found.items())
    assert len(found) > 30


def _packages(chance: random.Random) -> _Disk:
    """Runs of files of one kind, with a large one here and there; some say their names."""
    disk = _Disk()
    small, big = 1000, 50_000
    while len(disk.files) < 120:
        kind = chance.randrange(len(ENDINGS))
        small += 3000 * (chance.random() < 0.4)
        for _ in range(chance.randrange(1, 12)):
            count = 40 if chance.random() < 0.1 else 3
            first = big if count > 16 else small
            if chance.random() < 0.3:
                disk.spoken[first] = len(disk.files)
            disk.files.append((kind, first, count))
            big, small = (first + count, small) if count > 16 else (big, first + count)
    return disk


@pytest.mark.parametrize("seed", SHIFTED)
def test_which_of_a_run_of_like_files_lies_apart_order_does_not_tell(seed: int) -> None:
    """The pairs alone are sure of wrong ones; the shift of a part of a run is as likely."""
    disk = _packages(random.Random(seed))
    problem, asked, first = disk.problem()
    (aligned,) = posterior_pairs([problem])
    sure = aligned.probability >= SURE
    pairs = zip(asked[aligned.state[sure]], first[aligned.observation[sure]], strict=True)
    assert [at for at, block in pairs if disk.files[at][1] != block]
    right, wrong, asked_for = _judged(disk)
    assert wrong == 0
    assert right >= 0.4 * asked_for


@pytest.mark.parametrize("seed", range(2))
def test_two_that_changed_places_are_not_told_when_they_are_alike(seed: int) -> None:
    chance = random.Random(seed)
    disk = _made(chance, 120, len(ENDINGS))
    for at in range(5, 115, 7):  # many, so that the disk tells of its habit
        (a, first, count), (b, *_), before = disk.files[at], disk.files[at + 1], disk.files[at - 1]
        other = disk.files[at + 1][2]
        if disk.files[at + 1][1] == first + count and max(count, other) <= 16 and before:
            disk.files[at] = (a, first + other, count)
            disk.files[at + 1] = (b, first, other)
    _, wrong, _ = _judged(disk)
    assert wrong <= 1


def test_problems_side_by_side_have_the_answers_that_they_have_alone() -> None:
    chance = random.Random(4)
    disks = [_made(chance, number, len(ENDINGS)) for number in (40, 130, 7, 90, 1)]
    for disk in disks[:2]:
        disk.known = {at for at in range(len(disk.files)) if chance.random() < 0.2}
    problems = [disk.problem()[0] for disk in disks]
    together = posterior_pairs(problems)
    for problem, one in zip(problems, together, strict=True):
        (alone,) = posterior_pairs([problem])
        assert np.array_equal(alone.observation, one.observation)
        assert np.array_equal(alone.state, one.state)
        assert np.allclose(alone.probability, one.probability, atol=1e-3)
        assert np.allclose(alone.expected_count, one.expected_count, atol=1e-3)


@pytest.mark.skipif(sys.platform != "linux", reason="needs ELF programs")
def test_programs_libraries_and_objects_are_told_apart() -> None:
    library = next(Path(np.__file__).parent.rglob("_multiarray_umath*.so")).read_bytes()
    files = {
        "program": Path(sys.executable).read_bytes(),
        "elf": library,
        "object": library[:16] + b"\x01\x00" + library[18:],  # e_type ET_REL
    }
    signature = SIGNATURE_NAMES.index("elf")
    for kind, data in files.items():
        assert CONTENT_CLASSES[classify_content(data[:HEAD], signature)] == kind


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        (b"a.sh", b"#!/bin/sh\nset -e\necho x\n", "shell"),
        (b"b.py", b"import os\n\n\ndef main():\n    return os.getcwd()\n\nclass A:\n", "python"),
        (b"c.csv", b"id,name,size\n1,a,2\n2,b,3\n3,c,4\n", "csv"),
        (b"d.ini", b"[main]\nkey = 1\nother = 2\n[next]\nthird = 3\n", "ini"),
        (b"e.log", b"2026-01-01T10:00:00Z a\n2026-01-01T10:00:01Z b\n" * 3, "log"),
        (b"f.txt", b"Call me Ishmael. Some years ago\nnever mind how long precisely\n", "prose"),
        (b"g.svg", b"<svg>\n<path/>\n<g>\n</g>\n</svg>\n", "svg"),
        (b"g.html", b"<!DOCTYPE html>\n<html>\n<p>a\n</p>\n<p>b\n", "html"),
        (b"g.xml", b"<?xml version='1.0'?>\n<a>\n<b/>\n</a>\n", "markup"),
        (b"h.o", b"\x00\x01\x02\x03", "binary"),
    ],
)
def test_contents_are_told_apart_and_fit_their_names(name: bytes, text: bytes, kind: str) -> None:
    assert CONTENT_CLASSES[classify_content(text, 0)] == kind
    table = likelihood_ratios([name_class_of(name)], np.arange(len(CONTENT_CLASSES)))
    if kind != "binary":
        assert table[1].argmax() == CLASS_INDEX[kind]


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd"])
def test_a_compressed_content_is_rare_under_a_name_that_does_not_say_so(kind: str) -> None:
    """Manual pages are: each speaks of the program whose name it has without its extensions."""
    names = (b"tool", b"convert-im6.q16", b"a.1.gz", None)
    endings = [name_class_of(name) for name in names]
    table = likelihood_ratios(endings, np.arange(len(CONTENT_CLASSES)))
    plain, other, packed, unnamed = table[1:, CLASS_INDEX[kind]]
    assert max(plain, other) < 0.1
    assert unnamed == 1
    assert kind != "gzip" or packed > 10


def test_evidence_that_leaves_no_answer_gives_no_pair() -> None:
    """The type of each content all but excludes each file, and it cannot be a stranger's."""
    disk = _Disk([(kind, 100 + 10 * kind, 2) for kind in range(4)])
    problem, _, _ = disk.problem()
    observations = replace(problem.observed, p_unassigned=np.zeros(4))
    impossible = replace(problem, observed=observations, fits=np.full_like(problem.fits, 1e-60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (aligned,) = posterior_pairs([impossible])
    assert len(aligned.probability) == 0
