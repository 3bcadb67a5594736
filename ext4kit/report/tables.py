"""Tables as plain text, the same for a terminal, a pipe and a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> list[str]:
    """Lines of a table; a column is as wide as its widest cell on a terminal.

    Args:
        headings: one per column.
        rows: cells that are already safe to show.
        right: positions of right-aligned columns.
    """
    table = [headings, *rows]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            _padded(cell, width, place in right)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _padded(cell: str, width: int, is_right: bool) -> str:
    room = " " * (width - cell_len(cell))
    return room + cell if is_right else cell + room


def human_size(size: int) -> str:
    """A size in the largest unit that gives at most four digits."""
    value, units = float(size), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    for larger in units:
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
