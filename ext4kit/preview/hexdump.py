"""Previews of bytes in hexadecimal, with the blocks that hold them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ext4kit.journal.overlay import stored_at
from ext4kit.preview.model import LineList, Preview, Role, Span
from ext4kit.preview.parts import ContentPart, NodeContent, PartState
from ext4kit.preview.text import part_text

ROW = 16  # bytes in a line
_MARKS: dict[PartState, Role] = {
    PartState.HOLE: "hole",
    PartState.UNWRITTEN: "hole",
    PartState.LOST: "lost",
}
_ASCII = bytes(byte if 0x20 <= byte < 0x7F else ord(".") for byte in range(256))


def hex_preview(held: NodeContent, offset: int, most_lines: int) -> Preview:
    """The bytes from an offset on: 16 in a line, and a heading where a block or a part begins.

    Parts without bytes have a heading alone, so that a hole of any size is one line.

    Args:
        held: the content.
        offset: first byte.
        most_lines: number of lines; at least 2 are used, as each block has a heading.
    """
    offset = min(max(offset, 0), held.size)
    dump = _Dump(held, LineList(max(most_lines, 2)), offset)
    dump.fill()
    return Preview(
        "hex", "bytes in hexadecimal", tuple(dump.shown.lines), dump.at < held.size, "",
        offset, dump.at if dump.at < held.size else None,
    )  # fmt: skip


class _Dump:
    """Fills lines with the bytes from an offset on.

    Attributes:
        at: first byte that is not shown.
    """

    def __init__(self, held: NodeContent, shown: LineList, offset: int) -> None:
        self._held, self.shown, self.at = held, shown, offset
        self._digits = max(len(f"{held.size - 1:x}"), 8)

    def fill(self) -> None:
        """Add lines until all are full or the content ends."""
        while self.at < self._held.size and not self.shown.is_cut:
            rows = max(self.shown.most - len(self.shown.lines), 1)
            for part in self._held.parts(self.at, self.at - self.at % ROW + ROW * rows):
                self._add(part)
                if self.shown.is_cut:
                    return

    def _add(self, part: ContentPart) -> None:
        role = _MARKS.get(part.state)
        if role is not None:
            if self.shown.add(Span(self._unstored_text(part), role)):
                self.at = part.end
            return
        for piece in self._blocks_of(part):
            if not self.shown.add(Span(self._heading(piece), "heading")):
                return
            if not self._add_bytes(piece):
                self._drop_lone_heading()
                return

    def _add_bytes(self, part: ContentPart) -> bool:
        """The lines of a part within one block; False if not all have room."""
        data, at = bytes(part.data), part.offset
        while at < part.end:
            count = min(ROW - at % ROW, part.end - at)
            row = data[at - part.offset : at - part.offset + count]
            if not self.shown.add(*self._line(at, row)):
                return False
            at = self.at = at + count
        return True

    def _drop_lone_heading(self) -> None:
        """Leave a heading to the next lines if the bytes after it had no room."""
        if len(self.shown.lines) > 1 and self.shown.lines[-1].spans[0].role == "heading":
            self.shown.lines.pop()

    def _line(self, at: int, row: bytes) -> tuple[Span, ...]:
        """`00000010  61 62 ...  |ab..|`; bytes stand in the column of their offset."""
        skip = at % ROW
        cells = ["  "] * skip + [f"{byte:02x}" for byte in row]
        text = " ".join(cells[:8]) + "  " + " ".join(cells[8:])
        letters = " " * skip + row.translate(_ASCII).decode("ascii")
        return (
            Span(f"{at - skip:0{self._digits}x}  ", "dim"),
            Span(f"{text.ljust(3 * ROW)}  "),
            Span(letters.ljust(ROW), "dim"),
        )

    def _blocks_of(self, part: ContentPart) -> Iterator[ContentPart]:
        """A part cut at the ends of blocks."""
        size, done = self._held.block_size, 0
        while done < part.length:
            place = None if part.place is None else part.place + done
            count = part.length - done
            count = count if place is None else min(size - place % size, count)
            yield ContentPart(
                part.offset + done, count, part.state, part.data[done : done + count], place
            )
            done += count

    def _heading(self, part: ContentPart) -> str:
        size = self._held.block_size
        if part.place is None:
            return "inline: in the inode"
        block, skip = divmod(part.place, size)
        copy = int(stored_at(self._held.content.blocks, np.array([block]))[0])
        text = f"block {block:,}" + (f", from byte {skip:,} of it on" if skip else "")
        text += f", file block {part.offset // size:,}"
        if copy == block:
            return text
        where = "on another device" if copy < 0 else f"in block {copy:,}"
        return f"{text}, read from its copy in the journal {where}"

    def _unstored_text(self, part: ContentPart) -> str:
        """The heading of a part without bytes, with the blocks that it has on the disk."""
        size = self._held.block_size
        if part.place is None:
            return f"{part.state}: {part_text(part)}"
        first, last = part.place // size, (part.place + part.length - 1) // size
        blocks = f"block {first:,}" if first == last else f"blocks {first:,} to {last:,}"
        return f"{part.state}: {blocks}, {part_text(part)}"
