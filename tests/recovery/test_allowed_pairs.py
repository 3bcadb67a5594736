"""Parts of a disk in which no pair could be taken are left out before they are solved."""

from __future__ import annotations

import random

import numpy as np

from ext4kit.recovery.joining import MIN_TYPE_RATIO, _PairEvidence


def _evidence(chance: random.Random) -> _PairEvidence:
    """A few files and contents; types and mentions that rarely allow a pair."""
    fits = np.array([[chance.choice((0.04, 0.04, 0.04, 3.0)) for _ in range(3)] for _ in range(4)])
    spoken = {
        content: (np.array([chance.randrange(4)]), np.array([chance.choice((0.5, 1.0, 30.0))]))
        for content in range(5)
        if chance.random() < 0.2
    }
    named = np.array([chance.random() < 0.5 for _ in range(4)])
    like = np.array([chance.randrange(3) for _ in range(5)])
    return _PairEvidence(named, fits, like, spoken)


def test_where_no_pair_is_allowed_each_one_contradicts() -> None:
    chance, asked, none = random.Random(1), np.array([True, True, True, False]), 0
    for _ in range(300):
        evidence = _evidence(chance)
        if not evidence.allows_any(asked):
            none += 1
            for file in np.flatnonzero(evidence.named & asked).tolist():
                assert all(evidence.contradicts(content, file, 1.0) for content in range(5))
    assert 50 < none < 250


def test_a_type_that_fits_or_a_name_in_a_content_allows_a_pair() -> None:
    named, like = np.array([True]), np.zeros(1, np.int64)
    strange, usual = np.full((1, 1), MIN_TYPE_RATIO / 2), np.ones((1, 1))
    says = {0: (np.zeros(1, np.int64), np.array([2.0]))}
    assert not _PairEvidence(named, strange, like, {}).allows_any(named)
    assert _PairEvidence(named, usual, like, {}).allows_any(named)
    assert _PairEvidence(named, strange, like, says).allows_any(named)
    assert not _PairEvidence(named, usual, like, {}).allows_any(~named)


def test_a_weak_mention_of_a_neighbour_contradicts_all_but_a_nearly_certain_pair() -> None:
    named, like = np.array([True, True]), np.zeros(1, np.int64)
    fits = np.full((2, 1), 2.0)
    weak = _PairEvidence(named, fits, like, {0: (np.array([1]), np.array([2.5]))})
    assert weak.contradicts(0, 0, 0.99)
    assert not weak.contradicts(0, 0, 0.9999)
    strong = _PairEvidence(named, fits, like, {0: (np.array([1]), np.array([8.0]))})
    assert strong.contradicts(0, 0, 0.9999)
    strange = _PairEvidence(named, fits / 2, like, {0: (np.array([1]), np.array([2.5]))})
    assert strange.contradicts(0, 0, 0.9999)
