"""Charts made of characters."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ext4kit.report.times import iso_short
from ext4kit.triage import Bins

HEIGHT = 6
WIDEST_COLUMN = 3
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LABEL = 7  # characters of the scale on the left


def map_strip(parts: Sequence[tuple[str, int]], width: int) -> Text:
    """(colour, count) pairs as one line; each count above zero has at least one character."""
    total = sum(count for _, count in parts)
    text, used, seen = Text(no_wrap=True), 0, 0
    for colour, count in parts:
        seen += count
        end = max(width * seen // max(total, 1), used + (count > 0))
        text.append("█" * (min(end, width) - used), colour)
        used = max(min(end, width), used)
    return text


def column_chart(
    bins: Bins, colours: dict[str, str], width: int, signs: Sequence[int] = ()
) -> Text:
    """Stacked columns over time, with a scale and the first and last time below.

    Sightings are marked above the columns, given their number in each bin.
    """
    wide = max(min((width - _LABEL) // max(len(bins), 1), WIDEST_COLUMN), 1)
    gap = 1 if wide > 1 else 0
    top = max(bins.totals)
    stacks = list(zip(*bins.series.values(), strict=True))
    text = Text(no_wrap=True)
    if any(signs):
        marks = (("▾" if count else " ") * (wide - gap) + " " * gap for count in signs)
        text.append(" " * _LABEL).append("".join(marks) + "\n", "bold red")
    for row in reversed(range(HEIGHT)):
        scale = f"{top:,}" if row == HEIGHT - 1 else "0" if row == 0 else ""
        text.append(f"{scale:>{_LABEL - 1}} ", "dim")
        for stack in stacks:
            character, colour = _cell(stack, list(colours.values()), top, row)
            text.append(character * (wide - gap) + " " * gap, colour)
        text.append("\n")
    return text.append_text(_axis(bins, len(bins) * wide))


def _cell(stack: Sequence[int], colours: Sequence[str], top: int, row: int) -> tuple[str, str]:
    """The character of one row of a column, and the colour of the topmost series in it."""
    unit = 8 * HEIGHT
    total = sum(stack)
    height = -(-total * unit // top) if total else 0
    eighths = min(max(height - 8 * row, 0), 8)
    level, seen, colour = min(8 * row + max(eighths // 2, 1), max(height, 1)), 0, "default"
    for count, name in zip(stack, colours, strict=True):
        seen += count
        if count and seen * unit >= level * top or (count and seen == total):
            colour = name
            break
    return _EIGHTHS[eighths], colour


def _axis(bins: Bins, width: int) -> Text:
    """The first and last time, below the columns."""
    first = iso_short(bins.start)
    last = iso_short(bins.start + bins.width * len(bins))
    cut = 11 if bins.width % 86_400_000_000_000 == 0 else 16
    first, last = first[:cut].strip(), last[:cut].strip()
    room = max(width - len(first) - len(last), 2)
    return Text(" " * _LABEL + first + " " * room + last, "dim", no_wrap=True)
