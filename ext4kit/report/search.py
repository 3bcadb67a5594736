"""Hits of a search as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import HashName, json_name, valid_text
from ext4kit.filesystem.view import Node
from ext4kit.journal.block_types import BlockRole
from ext4kit.known.files import KnownMatch
from ext4kit.owners.answers import BlockAnswer
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable, printable_text, shown
from ext4kit.report.tables import human_size, table_lines
from ext4kit.report.who import (
    EarlierRecord,
    LogBlockRecord,
    UseRecord,
    earlier_record,
    log_record,
    owner_text,
    use_record,
)
from ext4kit.roots.layers import NO_ROOTS, LayerRoots
from ext4kit.search.file_scans import FileScans, NotUnpacked
from ext4kit.search.hits import CONTEXT, Area, Hit, HitBytes, area_of
from ext4kit.search.patterns import HashPattern, Pattern
from ext4kit.search.search import SearchResult
from ext4kit.search.yara_rules import YaraPattern

_HEADINGS = ("where", "at byte", "its block", "text")
_IN_PIECES = "  [the match goes beyond the end of this file's bytes]"


class RuleFacts(TypedDict):
    """A YARA rule."""

    rule: str
    namespace: Annotated[str, "File of the rule below the folder; default for a single file."]
    string: Annotated[str | None, "Identifier of the string; null where the rule needed none."]
    tags: list[str]
    meta: dict[str, str | int | bool]


class KnownFacts(TypedDict):
    """A hash of a file that is in a list."""

    list: Annotated[str, "File name of the list."]
    algorithm: HashName
    digest: Annotated[str, "In hexadecimal."]


class _OfRoots(TypedDict, total=False):
    """What the record of a file in a Linux root within the image has beside that of another one."""

    roots: Annotated[list[str], "The Linux roots within the image that have it in their layers."]


class SearchedFile(_OfRoots):
    """The file of a hit."""

    area: Annotated[Area, "Where the hit stands."]
    path: Annotated[str | None, "Of the file; in slack, of the file whose last block it is in."]
    path_bytes: NotRequired[fields.Exact]
    inode: Annotated[int | None, "Of the file."]
    generation: Annotated[int | None, "Of the inode."]


class HitRecord(SearchedFile):
    """A match of a pattern (`search`)."""

    record: Literal["hit"]
    pattern: Annotated[str, "As it was given, or the name of the feature."]
    encoding: Annotated[str | None, "Of a text: UTF-8, UTF-16LE or Latin-1."]
    grade: Annotated[str | None, "Of a deleted file, or of an earlier version."]
    inside: Annotated[
        str | None, "Where in a packed file: member, member of a member, or cell of a database."
    ]
    offset: Annotated[
        int | None, "Byte in the file, or in what `inside` names; in slack beyond its size."
    ]
    byte: Annotated[int | None, "First byte in the volume; null where it is not in one piece."]
    block: Annotated[int | None, "The block of that byte."]
    length: Annotated[int, ("minimum", 0), "Bytes; 0 where a rule matched without a string."]
    broken: Annotated[bool, "The match goes on in blocks of others: no file has it so."]
    before: Annotated[str, "The bytes before it, as text."]
    text: Annotated[str, "The matched bytes, as text."]
    after: Annotated[str, "The bytes after it, as text."]
    now: Annotated[
        list[UseRecord] | None,
        "What its block is now; in the journal, the block that it is a copy of. Null where there is"
        " no such block, or deleted files were not looked at.",
    ]
    earlier: Annotated[list[EarlierRecord] | None, "Who had that block before, the oldest first."]
    log: Annotated[LogBlockRecord | None, "What a block of the journal holds."]
    yara: Annotated[RuleFacts | None, "The YARA rule that matched."]
    known: Annotated[KnownFacts | None, "The list of hashes with the file: --hashes, --known."]


class FileHitsRecord(SearchedFile):
    """A file with hits in one area (`search -l`)."""

    record: Literal["file with hits"]
    grade: Annotated[str | None, "Of a deleted file, or of an earlier version."]
    hits: Annotated[int, ("minimum", 1), "Number of its hits in this area."]


class NotUnpackedRecord(SearchedFile):
    """A packed file or member that was not searched to its end (`search --inside`)."""

    record: Literal["not unpacked"]
    inside: Annotated[str | None, "The member; null for the file itself."]
    reason: str


class InsideFacts(TypedDict):
    """What was unpacked."""

    files: Annotated[int, ("minimum", 0), "Packed files."]
    members: Annotated[int, ("minimum", 0), "Members of these."]
    bytes: Annotated[int, ("minimum", 0), "Bytes of the members."]
    not_unpacked: Annotated[
        int, ("minimum", 0), "Files and members that were not unpacked, or not to their end."
    ]


class YaraFacts(TypedDict):
    """What YARA rules were applied to."""

    bytes: Annotated[int, ("minimum", 0), "Bytes of files and blocks, without those of members."]
    in_windows: Annotated[int, ("minimum", 0), "Large files and members, scanned window by window."]
    timeouts: Annotated[int, ("minimum", 0), "Windows whose scan took too long."]
    cut: Annotated[int, ("minimum", 0), "Strings with more matches in a window than are listed."]
    skipped: Annotated[int, ("minimum", 0), "Files that map more than the evidence holds."]


class SearchSummary(TypedDict):
    """What a search read and found (`search`)."""

    record: Literal["summary"]
    hits: fields.Count
    listed: fields.Count
    files: Annotated[int, ("minimum", 0), "Files with hits."]
    bytes_read: fields.Count
    bytes_unreadable: fields.Count
    pieces_cut: Annotated[int, ("minimum", 0), "Pieces of the volume with too many matches."]
    patterns: Annotated[dict[str, int], "Pattern or YARA rule -> number of its hits."]
    inside: Annotated[InsideFacts | None, "With `--inside`."]
    yara: Annotated[YaraFacts | None, "With `--yara`."]


def hit_record(
    hit: Hit,
    context: int = CONTEXT,
    answers: Sequence[BlockAnswer] = (),
    roots: LayerRoots = NO_ROOTS,
) -> HitRecord:
    """A hit as a record.

    Args:
        hit: the hit.
        context: bytes on each side.
        answers: for its block, as `HitOwners.of` gives them.
        roots: the Linux roots within the image.
    """
    node, span = hit.node, hit.around(context)
    log = answers[0].log if answers else None
    before, text, after = _texts(hit, span)
    return {
        "record": "hit",
        "pattern": hit.pattern.name,
        "encoding": hit.pattern.encoding or None,
        **_searched_file(hit.area, node, roots),
        "grade": None if node is None else node.grade,
        "inside": hit.inside,
        "offset": hit.offset,
        "byte": hit.start,
        "block": hit.block,
        "length": hit.length,
        "broken": hit.is_broken,
        "before": before,
        "text": text,
        "after": after,
        "now": list(map(use_record, answers[-1].present)) if answers else None,
        "earlier": list(map(earlier_record, answers[-1].earlier)) if answers else None,
        "log": None if log is None else log_record(log),
        "yara": _rule_facts(hit.pattern),
        "known": None if hit.known is None else _known_facts(hit.known),
    }


def _searched_file(area: Area, node: Node | None, roots: LayerRoots) -> SearchedFile:
    inode = None if node is None else node.inode
    names = [] if node is None else roots.names(node.path)
    of_roots: _OfRoots = {"roots": list(map(valid_text, names))} if names else {}
    return {
        "area": area,
        **json_name(None if node is None else node.path),
        **of_roots,
        "inode": None if node is None else node.number,
        "generation": None if inode is None else inode.generation,
    }


def _file_hits_record(area: Area, node: Node, count: int, roots: LayerRoots) -> FileHitsRecord:
    return {
        "record": "file with hits",
        **_searched_file(area, node, roots),
        "grade": node.grade,
        "hits": count,
    }


def _known_facts(match: KnownMatch) -> KnownFacts:
    return {"list": match.source, "algorithm": match.algorithm, "digest": match.digest}


def _rule_facts(pattern: Pattern) -> RuleFacts | None:
    if not isinstance(pattern, YaraPattern):
        return None
    return {
        "rule": pattern.rule,
        "namespace": pattern.namespace,
        "string": pattern.string or None,
        "tags": list(pattern.tags),
        "meta": dict(pattern.meta),
    }


def not_unpacked_record(one: NotUnpacked, roots: LayerRoots = NO_ROOTS) -> NotUnpackedRecord:
    """Something that was not unpacked, as a record."""
    return {
        "record": "not unpacked",
        **_searched_file(area_of(one.node), one.node, roots),
        "inside": one.inside or None,
        "reason": one.reason,
    }


def _inside_facts(scans: FileScans) -> InsideFacts | None:
    tally = scans.tally
    if not scans.is_inside:
        return None
    return {
        "files": tally.packed,
        "members": tally.members,
        "bytes": tally.unpacked,
        "not_unpacked": tally.refused,
    }


def _yara_facts(scans: FileScans) -> YaraFacts | None:
    rules, tally = scans.rules, scans.tally
    if rules is None:
        return None
    return {
        "bytes": tally.scanned,
        "in_windows": rules.windowed,
        "timeouts": rules.timeouts,
        "cut": rules.cut,
        "skipped": tally.skipped,
    }


def _answered(
    result: SearchResult, limit: int | None
) -> Iterator[tuple[Hit, Sequence[BlockAnswer]]]:
    """The hits with the answers for their blocks; none where deleted files were not looked at."""
    hits = islice(result.hits, limit)
    return ((hit, ()) for hit in hits) if result.owners is None else result.owners.of(hits)


def search_records(
    result: SearchResult, limit: int | None, context: int, by_file: bool = False
) -> Iterator[HitRecord | FileHitsRecord | NotUnpackedRecord | SearchSummary]:
    """The hits, or the files that have any; what was not unpacked; then the summary."""
    listed, roots = 0, result.roots
    each: Iterator[HitRecord | FileHitsRecord] = (
        (_file_hits_record(*one, roots) for one in islice(result.hits.by_file(), limit))
        if by_file
        else (hit_record(hit, context, answers, roots) for hit, answers in _answered(result, limit))
    )
    for record in each:
        listed += 1
        yield record
    yield from (not_unpacked_record(one, roots) for one in result.scans.not_unpacked)
    yield {
        "record": "summary",
        "hits": len(result.hits),
        "listed": listed,
        "files": result.hits.file_count,
        "bytes_read": result.bytes_read,
        "bytes_unreadable": result.unreadable,
        "pieces_cut": result.cut,
        "patterns": _counts(result),
        "inside": _inside_facts(result.scans),
        "yara": _yara_facts(result.scans),
    }


def hit_lines(result: SearchResult, limit: int | None, context: int) -> Iterator[str]:
    """A table of the hits, then the totals."""
    rows = []
    for hit, answers in _answered(result, limit):
        place = hit.offset if hit.offset is not None else hit.start
        block = _block_text(hit, answers)
        rows.append(
            (
                _where(hit) + _root_text(result, hit.node),
                f"{place:,}",
                block,
                _hit_text(hit, context),
            )
        )
    yield from _hit_table(rows) if rows else ()
    yield from total_lines(result, len(rows))


def _hit_text(hit: Hit, context: int) -> str:
    """The match with what is around it; for a hash, the list that has it."""
    known = hit.known
    listed = "" if known is None else printable_text(known.source)
    if isinstance(hit.pattern, HashPattern) and known is not None:
        return f"the whole file is in {listed}: {known.algorithm} {known.digest}"
    before, text, after = _texts(hit, hit.around(context))
    line = f"{_rule_name(hit.pattern)}{before}[{text}]{after}" + _IN_PIECES * hit.is_broken
    return f"{line}  [in {listed}]" if listed else line


def _hit_table(rows: list[tuple[str, str, str, str]]) -> list[str]:
    """The table, without the column of the blocks where nothing is known of any."""
    if any(row[2] != "-" for row in rows):
        return table_lines(_HEADINGS, rows, right={1})
    kept = [(where, place, text) for where, place, _, text in rows]
    return table_lines((*_HEADINGS[:2], _HEADINGS[3]), kept, right={1})


def file_lines(result: SearchResult, limit: int | None) -> Iterator[str]:
    """The files with hits, with the number of these."""
    rows = [
        (f"{count:,}", area, shown(node.path) + _root_text(result, node))
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
    yield from _inside_lines(result.scans)
    yield from _yara_lines(result.scans)
    if result.unreadable:
        yield f"{result.unreadable:,} bytes could not be read"


def _inside_lines(scans: FileScans) -> Iterator[str]:
    tally = scans.tally
    if not scans.is_inside:
        return
    where = f"{count_text(tally.members, 'member')} of {count_text(tally.packed, 'packed file')}"
    yield f"{human_size(tally.unpacked)} in {where} were unpacked"
    if tally.refused:
        what = f"{tally.refused:,} of the packed files and members"
        yield f"{what} could not be unpacked to the end; --json lists them with the reason"


def _yara_lines(scans: FileScans) -> Iterator[str]:
    rules = scans.rules
    if rules is None:
        return
    yield f"YARA rules were applied to {human_size(scans.tally.scanned)}"
    if rules.windowed:
        what = f"{rules.windowed:,} of the files and members are large and were scanned in windows"
        yield f"{what}: rules about a whole file can be wrong for these"
    if rules.timeouts:
        yield f"{count_text(rules.timeouts, 'scan')} by YARA rules took too long and were ended"
    if rules.cut:
        yield f"{count_text(rules.cut, 'string')} of a rule had more matches than are listed"


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
    if hit.inside is not None:
        return f"{hit.area}{grade} {shown(hit.node.path)} > {printable_text(hit.inside)}"
    of = " after the end of" if hit.area is Area.SLACK else ""
    return f"{hit.area}{grade}{of} {shown(hit.node.path)}"


def _root_text(result: SearchResult, node: Node | None) -> str:
    """The Linux roots within the image that have a file in their layers."""
    names = [] if node is None else result.roots.names(node.path)
    return f"  (in {printable_text(', '.join(names))})" if names else ""


def _block_text(hit: Hit, answers: Sequence[BlockAnswer]) -> str:
    """What has the block of a hit now, and what had it before, beside the file of the hit."""
    if not answers:
        return "-"
    log, answer, parts = answers[0].log, answers[-1], list[str]()
    if log is not None:
        of = "" if log.transaction is None else f", transaction {log.transaction.transaction}"
        parts.append(log.kind + of)
    use, inode = answer.present[0], None if hit.node is None else hit.node.inode
    own = None if inode is None else (inode.number, inode.generation)
    if use.inode and not (hit.area in (Area.LIVE, Area.SLACK) or use.role is BlockRole.JOURNAL):
        parts.append(f"now {owner_text(use.paths, use.inode)}")
    before = [one for one in answer.earlier if (one.inode, one.generation) != own]
    if before:
        last = before[-1]
        seen = last.last or last.first
        when = "" if seen is None else f" (transaction {seen.transaction})"
        more = f" and {len(before) - 1} more" if before[1:] else ""
        parts.append(f"before {owner_text(last.paths, last.inode)}{when}{more}")
    return ", ".join(parts) or "-"


def _rule_name(pattern: Pattern) -> str:
    if not isinstance(pattern, YaraPattern):
        return ""
    return f"{pattern.name} {pattern.string} ".replace("  ", " ")


def _texts(hit: Hit, span: HitBytes) -> tuple[str, str, str]:
    """The bytes of a span as text for people."""
    if hit.pattern.encoding != "UTF-16LE":
        return printable(span.before), printable(span.own), printable(span.after)
    before = span.before[len(span.before) % 2 :]
    parts = (before, span.own, span.after[: len(span.after) // 2 * 2])
    found = (printable_text(part.decode("utf-16-le", "replace")) for part in parts)
    return next(found), next(found), next(found)
