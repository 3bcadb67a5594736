"""Tables as plain text: the same lines to a terminal, a pipe and a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> list[str]:
    """Columns as wide as their widest cell on a terminal.

    Args:
        headings: one a column.
        rows: cells that are already safe to show.
        right: positions of the columns that end flush.
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
    """Bytes in the largest unit that keeps a number of up to four digits."""
    value, units = float(size), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    for larger in units:
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
