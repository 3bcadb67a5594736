"""Hits of a search as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import json_name
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable, printable_text, shown
from ext4kit.report.tables import human_size, table_lines
from ext4kit.search.hits import CONTEXT, Area, Hit, Span
from ext4kit.search.search import SearchResult

_HEADINGS = ("where", "at byte", "text")
_IN_PIECES = "  [the match goes beyond the end of this file's bytes]"


class HitRecord(TypedDict):
    """A match of a pattern (`search`)."""

    record: Literal["hit"]
    pattern: Annotated[str, "As it was given, or the name of the feature."]
    encoding: Annotated[str | None, "Of a text: UTF-8, UTF-16LE or Latin-1."]
    area: Annotated[Area, "Where it stands."]
    path: Annotated[str | None, "Of the file; in slack, of the file whose last block it is in."]
    path_bytes: NotRequired[fields.Exact]
    inode: Annotated[int | None, "Of the file."]
    generation: Annotated[int | None, "Of the inode."]
    grade: Annotated[str | None, "Of a deleted file, or of an earlier version."]
    offset: Annotated[int | None, "Byte in the file; in slack beyond its size."]
    byte: Annotated[int | None, "First byte in the volume; null where it is not in one piece."]
    block: Annotated[int | None, "The block of that byte."]
    length: Annotated[int, ("minimum", 1), "Bytes."]
    broken: Annotated[bool, "The match goes on in blocks of others: no file has it so."]
    before: Annotated[str, "The bytes before it, as text."]
    text: Annotated[str, "The matched bytes, as text."]
    after: Annotated[str, "The bytes after it, as text."]


class SearchSummary(TypedDict):
    """What a search read and found (`search`)."""

    record: Literal["summary"]
    hits: fields.Count
    listed: fields.Count
    files: Annotated[int, ("minimum", 0), "Files with hits."]
    bytes_read: fields.Count
    bytes_unreadable: fields.Count
    pieces_cut: Annotated[int, ("minimum", 0), "Pieces of the volume with too many matches."]
    patterns: Annotated[dict[str, int], "Pattern -> number of its hits."]


def hit_record(hit: Hit, context: int = CONTEXT) -> HitRecord:
    """A hit as a record."""
    node, span = hit.node, hit.around(context)
    before, text, after = _texts(hit, span)
    inode = None if node is None else node.inode
    return {
        "record": "hit",
        "pattern": hit.pattern.name,
        "encoding": hit.pattern.encoding or None,
        "area": hit.area,
        **json_name(None if node is None else node.path),
        "inode": None if node is None else node.number,
        "generation": None if inode is None else inode.generation,
        "grade": None if node is None else node.grade,
        "offset": hit.offset,
        "byte": hit.start,
        "block": hit.block,
        "length": hit.length,
        "broken": hit.is_broken,
        "before": before,
        "text": text,
        "after": after,
    }


def search_records(
    result: SearchResult, limit: int | None, context: int
) -> Iterator[HitRecord | SearchSummary]:
    """The hits, then the summary."""
    listed = 0
    for hit in islice(result.hits, limit):
        listed += 1
        yield hit_record(hit, context)
    yield {
        "record": "summary",
        "hits": len(result.hits),
        "listed": listed,
        "files": result.hits.file_count,
        "bytes_read": result.bytes_read,
        "bytes_unreadable": result.unreadable,
        "pieces_cut": result.cut,
        "patterns": _counts(result),
    }


def hit_lines(result: SearchResult, limit: int | None, context: int) -> Iterator[str]:
    """A table of the hits, then the totals."""
    rows = []
    for hit in islice(result.hits, limit):
        before, text, after = _texts(hit, hit.around(context))
        place = hit.offset if hit.offset is not None else hit.start
        line = f"{before}[{text}]{after}" + _IN_PIECES * hit.is_broken
        rows.append((_where(hit), f"{place:,}", line))
    yield from table_lines(_HEADINGS, rows, right={1}) if rows else ()
    yield from total_lines(result, len(rows))


def file_lines(result: SearchResult, limit: int | None) -> Iterator[str]:
    """The files with hits, with the number of these."""
    rows = [
        (f"{count:,}", area, shown(node.path))
        for area, node, count in islice(result.hits.by_file(), limit)
    ]
    yield from table_lines(("hits", "where", "path"), rows, right={0}) if rows else ()
    yield from total_lines(result, len(rows))


def count_lines(result: SearchResult) -> Iterator[str]:
    """The number of hits of each pattern."""
    rows = [(f"{count:,}", printable_text(name)) for name, count in _counts(result).items()]
    yield from table_lines(("hits", "pattern"), rows, right={0}) if rows else ()
    yield from total_lines(result, len(rows))


def total_lines(result: SearchResult, listed: int) -> Iterator[str]:
    """How much was found, in how much."""
    if listed:
        yield ""
    files = result.hits.file_count
    counts = f"{count_text(len(result.hits), 'hit')}, {count_text(files, 'file')} with hits"
    yield f"{counts}; {human_size(result.bytes_read)} were read"
    if result.cut:
        yield (
            f"{count_text(result.cut, 'piece')} of the volume had more matches than are listed:"
            " search for something rarer"
        )
    if result.unreadable:
        yield f"{result.unreadable:,} bytes could not be read"


def _counts(result: SearchResult) -> dict[str, int]:
    """Hits of each pattern, all encodings together; the most frequent first."""
    counts: dict[str, int] = {}
    for pattern, count in result.hits.by_pattern():
        counts[pattern.name] = counts.get(pattern.name, 0) + count
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))


def _where(hit: Hit) -> str:
    if hit.node is None:
        return f"{hit.area}, block {hit.block:,}"
    grade = f" ({hit.node.grade})" if hit.node.grade else ""
    of = " after the end of" if hit.area is Area.SLACK else ""
    return f"{hit.area}{grade}{of} {shown(hit.node.path)}"


def _texts(hit: Hit, span: Span) -> tuple[str, str, str]:
    """The bytes of a span as text for people."""
    if hit.pattern.encoding != "UTF-16LE":
        return printable(span.before), printable(span.own), printable(span.after)
    before = span.before[len(span.before) % 2 :]
    parts = (before, span.own, span.after[: len(span.after) // 2 * 2])
    found = (printable_text(part.decode("utf-16-le", "replace")) for part in parts)
    return next(found), next(found), next(found)
