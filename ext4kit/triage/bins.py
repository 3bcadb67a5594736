"""Histograms of times, with bins of a round width."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.triage.facts import Bins
from ext4kit.units import NANOSECONDS

MINUTE, HOUR, DAY = 60, 3600, 86_400
_WIDTHS = (
    1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY,
    365 * DAY, 10 * 365 * DAY, 100 * 365 * DAY,
)  # fmt: skip
_OUTLIERS = 0.02  # share of times at each end that may be outliers, which are left out


def histogram(
    times: Int64s, sorts: Int64s, names: tuple[str, ...], most: int = 60, width: int | None = None
) -> Bins | None:
    """Counts by category in at most `most` bins; None if no time is known.

    Args:
        times: (n,), ns; a value of 0 or less is unknown.
        sorts: (n,), index in `names` of the category of each time.
        names: names of the categories, each of which becomes a series.
        most: maximum number of bins.
        width: width of a bin, s; only the last `most` bins up to the newest time are then counted.
            None for a width with which the bins cover all times.
    """
    known = times > 0
    times, sorts = times[known] // NANOSECONDS, sorts[known]
    if not len(times):
        return None
    low, high = int(times.min()), int(times.max())
    if width is None:
        inner = np.quantile(times, [_OUTLIERS, 1 - _OUTLIERS], method="nearest").tolist()
        if high - low > 20 * max(inner[1] - inner[0], HOUR):
            low, high = inner
        fitting = (each for each in _WIDTHS if high // each - low // each < most)
        width = next(fitting, _WIDTHS[-1])
    first = max(low // width, high // width - most + 1)
    count = high // width - first + 1
    place = times // width - first
    inside = (place >= 0) & (place < count)
    key = sorts[inside] * count + place[inside]
    counts = np.bincount(key, minlength=len(names) * count).reshape(len(names), count)
    series = {name: tuple(row) for name, row in zip(names, counts.tolist(), strict=True)}
    start = first * width * NANOSECONDS
    end = int(times[inside].max()) * NANOSECONDS
    before, after = int((place < 0).sum()), int((place >= count).sum())
    return Bins(start, width * NANOSECONDS, series, end, before, after)
