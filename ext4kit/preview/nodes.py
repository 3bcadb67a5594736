"""Previews of nodes that are no regular files: directories, links, devices, and empty files."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.view import Node
from ext4kit.preview.folding import fact_line, spans_of
from ext4kit.preview.model import Line, LineList, Preview, Span
from ext4kit.report.safe import shown
from ext4kit.report.times import time_text
from ext4kit.views.records import own_node
from ext4kit.views.versions import VersionNode

MOST_CHILDREN = 20_000
_NAME_WIDTH = 32  # characters to which names are padded
_STATES = {"live": "existing", "deleted": "deleted", "earlier": "earlier version"}


def directory_preview(node: Node, most_lines: int) -> Preview:
    """The number of entries of a directory, existing and deleted ones, and the first of them.

    Costs what listing the directory costs; at most `MOST_CHILDREN` entries are read.
    """
    children = list(islice(node.children(), MOST_CHILDREN + 1))
    is_cut = len(children) > MOST_CHILDREN
    children = children[:MOST_CHILDREN]
    least = "more than " if is_cut else ""
    lines = LineList(most_lines, is_cut=is_cut)
    lines.add(*fact_line("entries", f"{least}{len(children):,}").spans)
    states, kinds = Counter(map(state_text, children)), Counter(one.kind for one in children)
    for counts in (states, kinds):
        for name, count in counts.items():
            lines.add(*fact_line(f"  {name}", f"{count:,}").spans)
    if children:
        lines.add()
    names = [_name(child) for child in children[:most_lines]]
    width = min(max(map(len, names), default=0), _NAME_WIDTH)
    for child in children:
        if not lines.add(*_entry(child, width)):
            break
    return Preview("directory", "directory", tuple(lines.lines), lines.is_cut)


def state_text(node: Node) -> str:
    """Whether a node exists or was deleted, in a word or two."""
    if isinstance(own := own_node(node), VersionNode):
        return f"version {own.version.number}"
    is_folder = node.kind == "directory" and node.inode is None and node.grade is None
    if is_folder and node.file_state == "deleted":
        return "folder of deleted files"
    return _STATES[node.file_state] if node.grade is None else _graded_text(node)


def _graded_text(node: Node) -> str:
    """The state of a node with a grade: one of an earlier time existed then."""
    return "existing then" if node.file_state == "live" else _STATES[node.file_state]


def _name(node: Node) -> str:
    return shown(node.name) + "/" * (node.kind == "directory")


def _entry(node: Node, width: int) -> list[Span]:
    """The name first, because the end of a line may be cut."""
    size = "-" if node.kind == "directory" else "?" if node.size is None else f"{node.size:,}"
    name = _name(node)
    text = f"  {node.grade or '-':<11}  {size:>15}  {time_text(node.mtime)}"
    return [*spans_of(name), Span(" " * (width - len(name)) + text, "dim")]


def link_preview(node: Node) -> Preview:
    """The target of a symlink.

    Raises:
        AccessError, CorruptError: it cannot be read.
    """
    target = node.link_target()
    if target is None:
        return error_preview("the target of the link is not known")
    return Preview("link", "symbolic link", (fact_line("target", shown(target)),))


def device_preview(node: Node) -> Preview:
    """The numbers of a device, or that a node has no content."""
    device = None if node.inode is None else node.inode.device
    lines = [fact_line("type", node.kind)]
    if device is not None:
        lines += [fact_line("major", f"{device[0]:,}"), fact_line("minor", f"{device[1]:,}")]
    return Preview("device", node.kind, tuple(lines))


def empty_preview() -> Preview:
    """A file of no bytes."""
    return Preview("empty", "empty file", (Line((Span("The file is empty.", "dim"),)),))


def error_preview(error: Exception | str, node: Node | None = None) -> Preview:
    """Why nothing can be shown; with what is known of the grade of the node."""
    text = " ".join(str(error).split()) or type(error).__name__
    lines = [Line(tuple(spans_of(text, "warning")))]
    if node is not None:
        lines += [Line(tuple(spans_of(one))) for one in _grade_texts(node)]
    return Preview("error", "cannot be shown", tuple(lines))


def _grade_texts(node: Node) -> list[str]:
    try:
        grade, reasons = node.grade, node.reasons
    except Ext4kitError:
        return []
    return [] if grade is None else [f"Grade {grade}.", *(reason.text for reason in reasons)]
