"""Laying pieces over each other: of pieces that claim the same part of a file the best is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

_ROUNDS = 64


def lay(start: Any, end: Any, better: Any) -> tuple[Any, Any]:
    """Choose pieces that do not overlap, the best ones first.

    In each round the best of every group of touching pieces is kept, and what overlaps it goes;
    what is left after many rounds goes as well. Linear in the pieces, whatever they are.

    Args:
        start: int64 (n,).
        end: int64 (n,), behind the last.
        better: int64 (n,), all different; the lower one is kept.

    Returns:
        (bool (n,): kept, int64 (n,): for one that is not, a kept one that it overlaps, else -1).
    """
    kept, over = np.zeros(len(start), bool), np.full(len(start), -1)
    left = np.argsort(start, kind="stable")
    for _ in range(_ROUNDS):
        if not len(left):
            break
        reach = np.maximum.accumulate(end[left])
        new = np.append(True, start[left[1:]] >= reach[:-1])
        first = np.flatnonzero(new)
        lowest = np.minimum.reduceat(better[left], first)
        best = left[better[left] == lowest[np.cumsum(new) - 1]]
        kept[best] = True
        place = np.searchsorted(end[best], start[left], side="right")
        rival = best[np.minimum(place, len(best) - 1)]
        hit = (place < len(best)) & (start[rival] < end[left])
        over[left[hit]] = rival[hit]
        left = left[~hit]
    over[kept] = -1
    return kept, over
