"""Charts as inline SVG: shapes scaled to the page, with text beside them.

Only numbers and texts of this program are written into the markup. Text from the evidence goes
through the template, which escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ext4kit.report.tables import human_size
from ext4kit.report.times import time_text
from ext4kit.report.triage.case import MAP_WORDS
from ext4kit.triage import Bins, DiskMap, MapCategory
from ext4kit.units import NANOSECONDS

HEIGHT = 160
UNIT = 10  # width of a column in drawing units
MAP_COLUMNS = 48
LABELS = 5
FEWEST = 24  # minimum columns of the scale, so that a single column does not fill the chart
ALLOCATED = (MapCategory.METADATA, MapCategory.FILES)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing and the texts around it."""

    svg: Markup
    top: str  # value at the upper edge
    labels: tuple[str, ...]  # texts below the chart, from left to right
    legend: tuple[tuple[str, str, str], ...]  # (class of the colour, name, count)


def column_chart(bins: Bins, name: str, signs: Sequence[int] = ()) -> Chart:
    """Stacked columns over time; `signs` (number per bin) are drawn as marks.

    The last column is at the right edge, because the axis ends with the data.
    """
    top = _round_up(max(bins.totals))
    lead = max(FEWEST - len(bins), 0)
    width = UNIT * (len(bins) + lead)
    heights = (HEIGHT * part // 4 for part in range(1, 4))
    shapes = [f'<line class="grid" x1="0" x2="{width}" y1="{y}" y2="{y}"/>' for y in heights]
    shapes += _columns(bins, top, lead)
    for place, count in enumerate(signs):
        if count:
            shapes.append(
                f'<rect class="c-sign" x="{UNIT * (lead + place) + 1}" y="-9" width="{UNIT - 2}" '
                f'height="5"><title>{_time_label(bins, place)}: {count:,} signs</title></rect>'
            )
    totals = {sort: sum(counts) for sort, counts in bins.series.items()}
    legend = tuple((f"c-{sort}", sort, f"{total:,}") for sort, total in totals.items() if total)
    if any(signs):
        legend += (("c-sign", "signs", f"{sum(signs):,}"),)
    return Chart(_svg("chart", width, HEIGHT, name, shapes), f"{top:,}", _labels(bins), legend)


def _columns(bins: Bins, top: int, lead: int) -> Iterator[str]:
    for place, stack in enumerate(zip(*bins.series.values(), strict=True)):
        if not any(stack):
            continue
        counts = ", ".join(f"{n:,} {sort}" for sort, n in zip(bins.series, stack, strict=True) if n)
        yield f"<g><title>{_time_label(bins, place)}: {counts}</title>"
        below = 0.0
        for sort, count in zip(bins.series, stack, strict=True):
            height = HEIGHT * count / top
            if count:
                y = HEIGHT - below - height
                yield (
                    f'<rect class="c-{sort}" x="{UNIT * (lead + place) + 1}" y="{y:.1f}" '
                    f'width="{UNIT - 2}" height="{height:.1f}"/>'
                )
            below += height
        yield "</g>"


def _time_label(bins: Bins, place: int) -> str:
    return time_text(bins.start + bins.width * place)


def _labels(bins: Bins) -> tuple[str, ...]:
    """A few times to show below the columns, as precise as a column; the last is the latest."""
    day = 86_400 * NANOSECONDS
    start, end = (0, 10) if bins.width % day == 0 else (5, 16)
    count = max(len(bins), FEWEST)
    if bins.width * count < day:
        start, end = 11, 19
    places = [count * step // (LABELS - 1) - count + len(bins) for step in range(LABELS - 1)]
    texts = [*(_time_label(bins, place) for place in places), time_text(bins.end)]
    return tuple(text[start:end] for text in texts)


def _round_up(value: int) -> int:
    """The next round number, for the top of a scale."""
    step = int(10 ** (len(str(value)) - 1))
    return next(digit * step for digit in (1, 2, 3, 4, 5, 6, 8, 10) if digit * step >= value)


def _svg(kind: str, width: int, height: int, name: str, shapes: Sequence[str]) -> Markup:
    head = (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" preserveAspectRatio="none" '
        f'role="img" aria-label="{name}">'
    )
    return Markup(head + "".join(shapes) + "</svg>")  # noqa: S704 -- numbers and own words


def share_bar(counts: Sequence[tuple[str, int]], name: str) -> Markup:
    """(class, count) pairs as one bar, divided in proportion."""
    total = sum(count for _, count in counts)
    shapes, x = [], 0.0
    for sort, count in counts:
        width = 1000 * count / max(total, 1)
        if count:
            shapes.append(
                f'<rect class="c-{sort}" x="{x:.1f}" y="0" width="{width:.1f}" height="10">'
                f"<title>{sort}: {count:,}</title></rect>"
            )
        x += width
    return _svg("share", 1000, 10, name, shapes)


def block_map(disk: DiskMap, block_size: int, uses: Sequence[MapCategory], name: str) -> Chart:
    """The map of the blocks with one of `uses`; fuller cells have a stronger colour."""
    sizes = np.sum(list(disk.counts.values()), axis=0).tolist()
    shapes = [shape for place, size in enumerate(sizes) for shape in _cell(disk, uses, place, size)]
    rows, totals = -(-len(sizes) // MAP_COLUMNS), disk.totals
    legend = [(f"c-{use}", MAP_WORDS[use], human_size(totals[use] * block_size)) for use in uses]
    rest = sum(blocks for use, blocks in totals.items() if use not in uses)
    words = "free" if uses is ALLOCATED else "in use, or free without known content"
    legend.append(("c-free", words, human_size(rest * block_size)))
    labels = ("block 0", f"a cell is {human_size(disk.cell * block_size)}")
    svg = _svg("map", UNIT * MAP_COLUMNS, UNIT * rows, name, shapes)
    return Chart(svg, "", labels, tuple(legend))


def _cell(disk: DiskMap, uses: Sequence[MapCategory], place: int, size: int) -> Iterator[str]:
    """A cell in the colour of its dominant use, stronger the more of its blocks are in use."""
    row, column = divmod(place, MAP_COLUMNS)
    where = (
        f'x="{UNIT * column + 0.5}" y="{UNIT * row + 0.5}" width="{UNIT - 1}" height="{UNIT - 1}"'
    )
    yield f'<rect class="c-free" {where}/>'
    held = [(int(disk.counts[use][place]), use) for use in uses]
    total = sum(count for count, _ in held)
    if not total:
        return
    use = max(held, key=lambda pair: pair[0])[1]
    strength = 0.35 + 0.65 * min(total / size, 1)
    counts = ", ".join(f"{count:,} {MAP_WORDS[each]}" for count, each in held if count)
    title = f"<title>from block {place * disk.cell:,}: {counts}, of {size:,}</title>"
    yield f'<rect class="c-{use}" opacity="{strength:.2f}" {where}>{title}</rect>'
