"""Tables as plain text, the same for a terminal, a pipe and a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> list[str]:
    """Lines of a table of printable cells, with the positions of right-aligned columns.

    A column is as wide as its widest cell on a terminal.
    """
    from rich.cells import cell_len  # loads slowly

    columns = []
    for place, column in enumerate(zip(headings, *rows, strict=True)):
        sizes = [len(cell) if cell.isascii() else cell_len(cell) for cell in column]
        widest = max(sizes)
        rooms = [" " * (widest - size) for size in sizes]
        pairs = (
            zip(rooms, column, strict=True) if place in right else zip(column, rooms, strict=True)
        )
        columns.append(list(map("".join, pairs)))
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def human_size(size: int) -> str:
    """A size in the largest unit that gives at most four digits."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"
