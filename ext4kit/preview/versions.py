"""Versions of a file and how two of them differ, and who had the blocks of a file before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice, takewhile

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Int64s
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node
from ext4kit.owners.answers import BlockAnswer, EarlierUse, who
from ext4kit.preview.details import lost_rows, path_in_image
from ext4kit.preview.folding import spans_of
from ext4kit.preview.model import LineList, Preview, Role, Section, Span
from ext4kit.preview.nodes import error_preview
from ext4kit.preview.parts import NodeContent, read_error
from ext4kit.preview.text import encoding_of
from ext4kit.recovery.file_versions import FileVersion, find_versions
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.report.file_versions import committed_text, happened_text
from ext4kit.report.safe import printable_text
from ext4kit.report.who import owner_text, runs_of_same, transaction_text
from ext4kit.units import Progress
from ext4kit.views.records import own_node
from ext4kit.views.versions import VersionNode
from ext4kit.workspace import Workspace

MOST_BLOCKS = 4096  # of a file, whose earlier owners are told
_MOST_TOLD = 5  # earlier owners of a run
_MOST_TEXT = 4 << 20  # bytes of a version that is compared as text
_MOST_LINES = 1000  # that differ, of each version
_MOST_LINE = 1000  # characters of a line
_MOST_COMPARED = 64 << 20  # bytes of versions that are compared as bytes
_MOST_RANGES = 64  # ranges that differ
_PIECE = 1 << 20
_SHOWN = 8  # bytes of a range
Compared = Node | FileVersion


def versions_of(
    workspace: Workspace, node: Node, progress: Progress | None = None
) -> tuple[FileVersion, ...]:
    """The versions of a file that the journal and the inode tables show, the oldest first.

    Costs a search of the journal for one name: about what `deleted --sources journal` costs. Empty
    for a node that is no regular file, and where nothing is known.

    Args:
        workspace: of the file system as it is now.
        node: a file of any view.
        progress: called with (done, total).
    """
    path = path_in_image(node) if node.kind == "file" else None
    if isinstance(own := own_node(node), VersionNode):
        path = own.version.path
    if path is None or workspace.is_lost:
        return ()
    try:
        return tuple(find_versions(workspace, path, JOURNAL_ONLY, progress))
    except Ext4kitError:
        return ()


def versions_section(versions: Sequence[FileVersion], most: int = 10) -> Section:
    """The number of versions, and the last ones with their transactions and times."""
    rows = [("Versions", f"{len(versions):,}")]
    for one in versions[-most:]:
        state = "as it is" if one.is_live else str(one.grade)
        tid = "" if one.committed is None else f"transaction {one.committed.transaction}, "
        text = f"{tid}{committed_text(one)}, {one.inode.size:,} bytes, {state}"
        rows.append((str(one.number), f"{text}: {happened_text(one, one.path or b'')}"))
    return Section("Versions", tuple(rows))


# ------------------------------------------------------------------------------ differences


def difference(older: Compared, newer: Compared, most_lines: int = 1000) -> Preview:
    """How two versions of a file differ: the lines of a text, the ranges of other bytes.

    Reads both contents, up to 64 MiB of each; texts up to 4 MiB are compared by lines.

    Args:
        older: a version, or a node of any view.
        newer: another one.
        most_lines: number of lines.
    """
    try:
        before, after = _content_of(older), _content_of(newer)
        texts = [_text_of(one) for one in (before, after)]
        if texts[0] is not None and texts[1] is not None:
            return _of_texts(texts[0], texts[1], most_lines)
        return _of_bytes(before, after, most_lines)
    except (Ext4kitError, OSError) as error:
        return error_preview(error)


def _content_of(one: Compared) -> NodeContent | None:
    """The bytes of a version; None of one without bytes.

    Raises:
        Ext4kitError: nothing is left of it.
    """
    if isinstance(one, FileVersion):
        if one.content is None and one.inode.size == 0:
            return None
        one = node_of_version(one)
    return NodeContent(one)


def node_of_version(version: FileVersion) -> Node:
    """The node of a version of a file."""
    from ext4kit.filesystem.view import NodeId

    identity = NodeId("version", version.inode.number, version.inode.generation)
    path = b"version %d" % version.number
    return VersionNode(identity, path, version.inode, version=version)


def _text_of(held: NodeContent | None) -> list[str] | None:
    """The lines of a text; None if it is no text, is too long, or has lost parts."""
    if held is None or held.size == 0:
        return []
    if held.size > _MOST_TEXT or held.lost_bytes():
        return None
    encoding = encoding_of(held.head())
    if encoding is None:
        return None
    data = held.read(0, held.size)[encoding.mark :]
    text = data.decode(encoding.codec, encoding.errors)
    return None if "\0" in text else text.split("\n")


def _of_texts(before: list[str], after: list[str], most_lines: int) -> Preview:
    """The unified difference of two texts, without the lines that both begin and end with."""
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    )
    start = max(same - 3, 0)
    before, after = before[start:], after[start:]
    ends = zip(reversed(before), reversed(after), strict=False)
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    tail = max(min(tail, len(before), len(after)) - 3, 0)
    before, after = before[: len(before) - tail], after[: len(after) - tail]
    shown, note = LineList(most_lines), ""
    if max(len(before), len(after)) > _MOST_LINES:
        note = "too many lines to find which of them are the same; all are shown"
        lines: Iterator[str] = iter(
            [_hunk(start, len(before), len(after)), *(f"-{one}" for one in before),
             *(f"+{one}" for one in after)]
        )  # fmt: skip
    else:
        lines = (_moved(line, start) for line in
                 islice(unified_diff(before, after, lineterm=""), 2, None))  # fmt: skip
    for line in lines:
        if not shown.add(*_difference_line(line)):
            break
    note = note or ("" if shown.lines else "the texts are the same")
    return Preview("difference", "difference of texts", tuple(shown.lines), shown.is_cut, note)


def _hunk(start: int, old: int, new: int) -> str:
    return f"@@ -{start + 1},{old} +{start + 1},{new} @@"


def _moved(line: str, start: int) -> str:
    """A line of a difference; the numbers in the head of a hunk count from the whole text."""
    if not line.startswith("@@"):
        return line
    parts = line.split(" ")
    for place in (1, 2):
        sign, (first, *rest) = parts[place][0], parts[place][1:].split(",")
        parts[place] = ",".join([f"{sign}{int(first) + start}", *rest])
    return " ".join(parts)


def _difference_line(line: str) -> list[Span]:
    roles: dict[str, Role] = {"-": "removed", "+": "added", "@": "heading"}
    text = line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}..."
    return spans_of(text, roles.get(line[:1], "plain"))


def _of_bytes(before: NodeContent | None, after: NodeContent | None, most_lines: int) -> Preview:
    """The ranges in which two contents differ."""
    sizes = [0 if one is None else one.size for one in (before, after)]
    shown, count, compared = LineList(most_lines), 0, min(*sizes, _MOST_COMPARED)
    shown.add(Span("sizes", "key"), Span(f" {sizes[0]:,} and {sizes[1]:,} bytes"))
    if before is not None and after is not None:
        for start, end in islice(_ranges(before, after, compared), _MOST_RANGES):
            count += 1
            old, new = (
                one.read(start, min(end - start, _SHOWN)).hex(" ") for one in (before, after)
            )
            where = f"bytes {start:,} to {end - 1:,} differ: "
            more = " ..." * (end - start > _SHOWN)
            arrow = Span(f"{more} -> ", "dim")
            shown.add(Span(where), Span(old, "removed"), arrow, Span(new + more, "added"))
    shown.is_cut |= count == _MOST_RANGES
    if not count:
        shown.add(Span(f"the first {compared:,} bytes are the same"))
    rest = max(min(sizes) - compared, 0)
    note = f"the last {rest:,} bytes were not compared" if rest else ""
    lost = [one.lost_bytes() for one in (before, after) if one is not None]
    if any(lost):
        note = "; ".join(filter(None, [note, "lost parts were read as zeros"]))
    return Preview("difference", "difference of bytes", tuple(shown.lines), shown.is_cut, note)


def _ranges(before: NodeContent, after: NodeContent, end: int) -> Iterator[tuple[int, int]]:
    """(first byte, byte after the last one) of the ranges that differ, up to `end`."""
    open_start: int | None = None
    for at in range(0, end, _PIECE):
        count = min(_PIECE, end - at)
        one, other = (np.frombuffer(each.read(at, count), np.uint8) for each in (before, after))
        differs = np.concatenate([[open_start is not None], one != other])
        for place in np.flatnonzero(differs[1:] != differs[:-1]).tolist():
            if open_start is None:
                open_start = at + place
            else:
                yield open_start, at + place
                open_start = None
    if open_start is not None:
        yield open_start, end


# ------------------------------------------------------------------------------- owners


def earlier_owners(workspace: Workspace, node: Node, progress: Progress | None = None) -> Section:
    """Who had the blocks of a file before, and who has those of a deleted file now.

    Costs the reading of the maps of all inodes in use, and a search of the journal; of a file the
    first `MOST_BLOCKS` blocks are told.

    Args:
        workspace: of the file system as it is now.
        node: a file or directory of any view.
        progress: called with (done, total).
    """
    title = "Owners of its blocks"
    if workspace.is_lost:
        return Section(title, (("", "not known of a lost file system"),))
    try:
        blocks = _blocks_of(node.content())
        if not len(blocks):
            return Section(title, (("", "it has no blocks"),))
        answers = who(workspace, np.sort(blocks), JOURNAL_ONLY, progress)
    except (Ext4kitError, OSError) as error:
        return Section(title, (("cannot be read", printable_text(read_error(error))),))
    rows = [*lost_rows(node), *(row for run in runs_of_same(answers)
                                for row in _owner_rows(node, run))]  # fmt: skip
    if len(blocks) == MOST_BLOCKS:
        rows.append(("", f"only the first {MOST_BLOCKS:,} blocks of the file are told"))
    return Section(title, tuple(rows))


def _blocks_of(content: Content | None) -> Int64s:
    """The first blocks of a content."""
    if content is None or content.runs is None:
        return np.zeros(0, np.int64)
    runs = content.runs
    ends = np.cumsum(runs.length)
    some = runs.take(ends - runs.length < MOST_BLOCKS)
    length = np.minimum(some.length, MOST_BLOCKS - (np.cumsum(some.length) - some.length))
    row, position = expand(length)
    return some.physical[row] + position


def _owner_rows(node: Node, run: Sequence[BlockAnswer]) -> Iterator[tuple[str, str]]:
    first, last = run[0].block, run[-1].block
    label = f"Block {first:,}" if first == last else f"Blocks {first:,} to {last:,}"
    number, generation = node.id.inode, node.id.generation
    now = [f"now: {owner_text(use.paths, use.inode)}, inode {use.inode}"
           for use in run[0].present if use.inode and use.inode != number]  # fmt: skip
    before = [_use_text(use) for use in reversed(run[0].earlier)
              if (use.inode, use.generation) != (number, generation)]  # fmt: skip
    told = now + before[:_MOST_TOLD]
    if len(before) > _MOST_TOLD:
        told.append(f"{len(before) - _MOST_TOLD:,} earlier owners more")
    yield from ((label, text) for text in told or ["no other owner is known"])


def _use_text(use: EarlierUse) -> str:
    text = f"{owner_text(use.paths, use.inode)}, inode {use.inode}, generation {use.generation}"
    if use.last is not None:
        text += f", last shown by {transaction_text(use.last)}"
    return text
