"""Histograms of times, with bins of a round width."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.triage.facts import Bins
from ext4kit.units import NANOSECONDS

MINUTE, HOUR, DAY = 60, 3600, 86_400
_WIDTHS = (
    1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY,
    365 * DAY, 10 * 365 * DAY, 100 * 365 * DAY,
)  # fmt: skip
_OUTLIERS = 0.02  # share at each end; outliers would put all other times into one bin


def histogram_over_span(
    times: Any, sorts: Any, names: tuple[str, ...], most: int = 60
) -> Bins | None:
    """Counts by category over the relevant period, in at most `most` bins.

    Args:
        times: int64 (n,), ns; a value of 0 or less is unknown.
        sorts: (n,), index of each in `names`.
        names: of the series.
        most: maximum number of bins.
    """
    known = times > 0
    times, sorts = times[known] // NANOSECONDS, sorts[known]
    if not len(times):
        return None
    low, high = (int(edge) for edge in _span(times))
    width = next((each for each in _WIDTHS if high // each - low // each < most), _WIDTHS[-1])
    return _count(times, sorts, names, low // width * width, width, high // width - low // width)


def histogram_of_last(
    times: Any, sorts: Any, names: tuple[str, ...], width: int, most: int
) -> Bins | None:
    """Counts in the last `most` bins with a width in seconds, up to the newest time."""
    known = times > 0
    times, sorts = times[known] // NANOSECONDS, sorts[known]
    if not len(times):
        return None
    last, first = int(times.max()) // width, int(times.min()) // width
    count = min(last - first, most - 1)
    return _count(times, sorts, names, (last - count) * width, width, count)


def _span(times: Any) -> tuple[Any, Any]:
    """The earliest and the latest time, without a few outliers that would dominate the span."""
    low, high = times.min(), times.max()
    inner = np.quantile(times, [_OUTLIERS, 1 - _OUTLIERS], method="nearest")
    if high - low > 20 * max(inner[1] - inner[0], HOUR):
        return inner[0], inner[1]
    return low, high


def _count(
    times: Any, sorts: Any, names: tuple[str, ...], start: int, width: int, last: int
) -> Bins:
    place = (times - start) // width
    inside = (place >= 0) & (place <= last)
    key = sorts[inside] * (last + 1) + place[inside]
    counts = np.bincount(key, minlength=len(names) * (last + 1)).reshape(len(names), last + 1)
    series = {name: tuple(row) for name, row in zip(names, counts.tolist(), strict=True)}
    return Bins(start * NANOSECONDS, width * NANOSECONDS, series, int((place < 0).sum()))
