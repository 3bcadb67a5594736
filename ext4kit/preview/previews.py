"""What a node holds, in the form that suits it: text, hexadecimal, a table, members ...

What is read and computed for one preview has limits, whatever the size of the file and whatever its
headers state. Errors in the evidence become a preview of kind "error".
"""

from __future__ import annotations

from dataclasses import replace

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.view import Node
from ext4kit.preview.model import Kind, Preview
from ext4kit.preview.nodes import (
    device_preview,
    directory_preview,
    empty_preview,
    error_preview,
    link_preview,
)
from ext4kit.preview.parts import NodeContent
from ext4kit.preview.pictures import picture_format, picture_preview
from ext4kit.preview.text import encoding_of, text_preview
from ext4kit.search.packed_streams import HEAD, packing_of

MOST_LINES = 10_000
_MOST_WIDTH = 10_000
_DEVICES = ("chardev", "blockdev", "fifo", "socket")


def kinds_for(node: Node) -> tuple[Kind, ...]:
    """The previews that make sense for a node, the best first.

    Reads the map of a file and its first bytes, no more.
    """
    try:
        return _kinds_for(node)
    except Ext4kitError:
        return ("error",)


def preview(
    node: Node,
    kind: str | None = None,
    offset: int = 0,
    most_lines: int = 200,
    width: int = 80,
    line: int | None = None,
) -> Preview:
    """A part of what a node holds.

    Args:
        node: of any view.
        kind: one of `kinds_for`; by default, the first one.
        offset: first byte, for text and hexadecimal: 0, or the `next_offset` of a preview.
        most_lines: number of lines.
        width: cells in a line, for text and tables.
        line: number of the line with the first byte, for text: the `next_line` of a preview; None
            if it is unknown.
    """
    most_lines = min(max(most_lines, 1), MOST_LINES)
    width = min(max(width, 1), _MOST_WIDTH)
    try:
        wanted = kind or _kinds_for(node)[0]
        if node.kind != "file" and wanted in ("directory", "link", "device"):
            return _of_node(node, most_lines)
        return _of_content(node, wanted, offset, most_lines, width, line)
    except (Ext4kitError, OSError) as error:
        return error_preview(error, node)


def _kinds_for(node: Node) -> tuple[Kind, ...]:
    if node.kind == "directory":
        has_bytes = node.inode is not None and node.readable() is not None
        return ("directory", "hex") if has_bytes else ("directory",)
    if node.kind == "symlink":
        return ("link", "hex")
    if node.kind in _DEVICES:
        return ("device",)
    held = NodeContent(node)
    if held.size == 0:
        return ("empty",)
    if node.inode is not None and node.inode.is_encrypted:
        return ("hex",)
    return _kinds_of_bytes(held.head())


def _kinds_of_bytes(head: bytes) -> tuple[Kind, ...]:
    packing = packing_of(head[:HEAD])
    if packing:
        return ("table" if packing == "sqlite" else "archive", "hex", "text")
    if picture_format(head):
        return ("picture", "hex", "text")
    return ("text", "hex") if encoding_of(head) is not None else ("hex", "text")


def _of_node(node: Node, most_lines: int) -> Preview:
    if node.kind == "directory":
        return directory_preview(node, most_lines)
    return link_preview(node) if node.kind == "symlink" else device_preview(node)


def _of_content(
    node: Node, kind: str, offset: int, most_lines: int, width: int, line: int | None
) -> Preview:
    held = NodeContent(node)
    if held.size == 0:
        return empty_preview()
    if kind == "hex":
        from ext4kit.preview.hexdump import hex_preview

        found = hex_preview(held, offset, most_lines)
        is_encrypted = node.inode is not None and node.inode.is_encrypted
        return replace(found, note="the content is encrypted") if is_encrypted else found
    if kind == "text":
        return text_preview(held, offset, most_lines, width, line)
    if kind == "picture":
        return picture_preview(held)
    if kind == "table":
        from ext4kit.preview.databases import database_preview

        return database_preview(held, most_lines, width)
    if kind == "archive":
        from ext4kit.preview.archives import archive_preview

        return archive_preview(held, most_lines, width)
    return error_preview(f"there is no preview of kind {kind!r} for this node")
