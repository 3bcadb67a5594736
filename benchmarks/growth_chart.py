"""A chart as SVG without a library: panels of curves, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, GAP, LEGEND_ROW = 760, 300, 64, 24, 40, 56, 22
COLUMNS = 2  # of the legend
COLOURS = (  # on white, on dark; told apart by dashes too
    ("#0060a8", "#6cb6ff"), ("#b34700", "#ff9d57"), ("#00735c", "#4fd1a5"), ("#8a2f8a", "#e08ae0"),
    ("#8a6d00", "#e3c04a"), ("#b3003c", "#ff7a9c"), ("#3f5a00", "#a8d05a"), ("#444444", "#cfcfcf"),
)  # fmt: skip
DASHES = ("none", "7 3", "2 3", "9 3 2 3")
STYLE = """
.back { fill: #ffffff } text { fill: #1f2328; font: 13px sans-serif }
.title { font-weight: bold } .grid { stroke: #d5d9de } .frame { stroke: #6b737c; fill: none }
.curve { fill: none; stroke-width: 2 } .linear { stroke: #6b737c; stroke-dasharray: 1 4 }
"""
DARK = """
.back { fill: #15191e } text { fill: #e6e9ed } .grid { stroke: #343b43 }
.frame, .linear { stroke: #8d96a0 }
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line through points with positive coordinates."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Panel:
    """The place and the ranges of one panel: `low` and `high` are decimal logarithms."""

    top: float
    low: Point
    high: Point

    def x(self, value: float) -> float:
        """Horizontal position of a value."""
        share = (math.log10(value) - self.low[0]) / (self.high[0] - self.low[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Vertical position of a value."""
        share = (math.log10(value) - self.low[1]) / (self.high[1] - self.low[1])
        return self.top + PANEL_HEIGHT * (1 - share)


def chart(title: str, x_title: str, panels: Sequence[tuple[str, Sequence[Curve]]]) -> str:
    """A picture of panels below each other with one legend.

    Args:
        title: says what it shows to those who do not see it.
        x_title: of the horizontal axes.
        panels: (title, curves) of each; curves of one name have one colour.
    """
    names = list(dict.fromkeys(curve.name for _, curves in panels for curve in curves))
    legend_top = TOP + len(panels) * (PANEL_HEIGHT + TOP + GAP) - TOP
    height = legend_top + LEGEND_ROW * (-(-len(names) // COLUMNS) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{_colours(0)}@media (prefers-color-scheme: dark) {{{DARK}{_colours(1)}}}",
        f'</style><rect class="back" width="{WIDTH}" height="{height}"/>',
    ]
    for number, (heading, curves) in enumerate(panels):
        top = TOP + number * (PANEL_HEIGHT + TOP + GAP)
        parts += _panel(heading, x_title, _fit(top, curves), curves, names)
    return "\n".join([*parts, *_legend(names, legend_top), "</svg>"]) + "\n"


def _colours(theme: int) -> str:
    return "".join(f".c{at} {{ stroke: {pair[theme]} }}\n" for at, pair in enumerate(COLOURS))


def _class(names: Sequence[str], name: str) -> str:
    """The attributes that tell a curve from the others."""
    at = names.index(name)
    dash = DASHES[at % len(DASHES)]
    return f'class="curve c{at % len(COLOURS)}" stroke-dasharray="{dash}"'


def _fit(top: float, curves: Sequence[Curve]) -> Panel:
    """A panel with room for all points: a margin at the sides, whole decades upwards."""
    points = [point for curve in curves for point in curve.points] or [(1.0, 1.0)]
    xs, ys = ([math.log10(point[axis]) for point in points] for axis in (0, 1))
    low = (min(xs) - 0.1, float(math.floor(min(ys))))
    return Panel(top, low, (max(xs) + 0.1, float(max(math.ceil(max(ys)), low[1] + 1))))


def _panel(
    heading: str, x_title: str, panel: Panel, curves: Sequence[Curve], names: Sequence[str]
) -> Iterator[str]:
    bottom, right = panel.top + PANEL_HEIGHT, WIDTH - RIGHT
    yield f'<text class="title" x="{LEFT}" y="{panel.top - 12}">{escape(heading)}</text>'
    for decade in range(int(panel.low[1]), int(panel.high[1]) + 1):
        y = panel.y(10.0**decade)
        yield _line("grid", (LEFT, y), (right, y))
        label = f"{10.0**decade:,g}" if decade < 0 else f"{10**decade:,}"
        yield _text(label, LEFT - 8, y + 4, "end")
    for size in sorted({point[0] for curve in curves for point in curve.points}):
        x = panel.x(size)
        yield _line("grid", (x, panel.top), (x, bottom))
        yield _text(_short(size), x, bottom + 18, "middle")
    yield _text(x_title, right, bottom + 36, "end")
    yield _linear(panel)
    for curve in curves:
        style = _class(names, curve.name)
        spots = [f"{panel.x(x):.1f},{panel.y(y):.1f}" for x, y in curve.points]
        yield f'<polyline {style} points="{" ".join(spots)}"/>'
        for x, y in curve.points:
            yield f'<circle {style} cx="{panel.x(x):.1f}" cy="{panel.y(y):.1f}" r="2"/>'
    yield (
        f'<rect class="frame" x="{LEFT}" y="{panel.top}" width="{right - LEFT}" '
        f'height="{PANEL_HEIGHT}"/>'
    )


def _linear(panel: Panel) -> str:
    """A line of slope 1 from the lower left corner to the upper or right edge."""
    span = min(panel.high[0] - panel.low[0], panel.high[1] - panel.low[1])
    ends = [
        (panel.x(10 ** (panel.low[0] + step)), panel.y(10 ** (panel.low[1] + step)))
        for step in (0.0, span)
    ]
    return _line("linear", *ends)


def _legend(names: Sequence[str], top: float) -> Iterator[str]:
    wide = (WIDTH - LEFT - RIGHT) // COLUMNS
    for at, name in enumerate([*names, "linear growth"]):
        x, y = LEFT + at % COLUMNS * wide, top + at // COLUMNS * LEGEND_ROW
        ends = (x, y - 4.0), (x + 36, y - 4.0)
        if at < len(names):
            (x1, y1), (x2, y2) = ends
            yield f'<line {_class(names, name)} x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'
        else:
            yield _line("linear", *ends)
        yield _text(name, x + 44, y, "start")


def _line(kind: str, start: Point, end: Point) -> str:
    return (
        f'<line class="{kind}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" '
        f'x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'
    )


def _text(text: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(size: float) -> str:
    """10k, 100k, 1M, 5M."""
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"
