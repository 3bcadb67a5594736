"""What each source of the recovery is worth on random histories, source by source.

`history_judge` asks whether what is said for sure is so. Here everything with bytes or a name
counts, whatever its grade, under the source that its map or name rests on.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ext4kit.filesystem.inodes import ROOT
from ext4kit.recovery import DeletedFile
from sample_images.recipes.history_book import Book, Life, pieces_of, trimmed_digest

CONTENT = ("exact", "own", "mixed", "foreign", "empty")
NAMES = ("last", "right", "part", "wrong")
CARVED = ("exact", "inexact")
_UNKNOWN_TOP = re.compile(rb"inode-(\d+)(?:-(\d+))?/(.*)", re.DOTALL)


@dataclass(slots=True)
class Sources:
    """Counts of records by (source, what came of it).

    Attributes:
        content: of files with an inode. `exact` is a version of that very life, but for zeros
            at its end; `own` has bytes of that life alone, though not all or of several
            versions; `mixed` has others too; `foreign` has nothing of its own; `empty` no byte.
        names: `last` is a path that the life had at its end; `right` one that it had; `part` a
            name, with a part of the path, that it had; `wrong` one that it never had.
        carved: files without an inode: `exact` is a version of any life, but for zeros.
        findings: what is mixed, foreign or wrong, in words.
    """

    content: Counter[tuple[str, str]] = field(default_factory=Counter)
    names: Counter[tuple[str, str]] = field(default_factory=Counter)
    carved: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __add__(self, other: Sources) -> Sources:
        """The counts of both."""
        return Sources(
            self.content + other.content,
            self.names + other.names,
            self.carved + other.carved,
            self.findings + other.findings,
        )

    def judge(self, file: DeletedFile, book: Book) -> None:
        """Count one record in."""
        if file.number is None:
            self._judge_carved(file, book)
            return
        life = book.lives.get((file.number, file.generation or 0))
        if life is None:
            return
        if life.kind == file.kind == "file" and file.content() is not None:
            self._judge_content(file, life)
        if "name" in file.sources and file.kind == life.kind:
            self._judge_name(file, life, book)

    def _judge_content(self, file: DeletedFile, life: Life) -> None:
        source = _of(file, "map")
        data = content_bytes(file)
        verdict = _compared(data, life)
        self.content[source, verdict] += 1
        if verdict in ("mixed", "foreign"):
            self.findings.append(f"{verdict} <{file.number}> {file.generation}, {file.sources}")

    def _judge_name(self, file: DeletedFile, life: Life, book: Book) -> None:
        source = _of(file, "name")
        verdict = _named(file, life, book)
        self.names[source, verdict] += 1
        if verdict == "wrong":
            shown = file.path or file.partial_path or file.name
            self.findings.append(f"name <{file.number}> {shown!r} {file.sources}: {life.paths}")

    def _judge_carved(self, file: DeletedFile, book: Book) -> None:
        digest = trimmed_digest(content_bytes(file))
        known = any(digest in life.trimmed for life in book.lives.values())
        how = ", a fragment" if file.fragment else ", a guess" if file.problems else ""
        self.carved[file.sources["map"] + how, "exact" if known else "inexact"] += 1

    def table(self) -> str:
        """All counts, a line a source."""
        parts = (
            ("content by map", CONTENT, self.content),
            ("names", NAMES, self.names),
            ("without an inode", CARVED, self.carved),
        )
        return "\n".join(line for part in parts for line in _lines(*part))


def _lines(title: str, columns: tuple[str, ...], counts: Counter[tuple[str, str]]) -> list[str]:
    head = f"{title:<70}" + "".join(f"{column:>9}" for column in columns)
    return [head] + [
        f"  {source:<68}" + "".join(f"{counts[source, column]:>9}" for column in columns)
        for source in sorted({source for source, _ in counts})
    ]


def _of(file: DeletedFile, what: Literal["map", "name"]) -> str:
    """The source of a map or a name without the number of a transaction; a map's with its grade."""
    source = re.sub(r"journal transaction \d+", "journal", file.sources.get(what, "inode table"))
    if what == "name":
        return source
    return f"{source} ({file.grade}{', superseded' * file.superseded})"


def content_bytes(file: DeletedFile) -> bytes:
    """All bytes that a record gives, holes as zeros."""
    content = file.content()
    chunks = () if content is None else content.chunks()
    return b"".join(chunk.data or bytes(chunk.length) for chunk in chunks)


def _compared(data: bytes, life: Life) -> str:
    if trimmed_digest(data) in life.trimmed:
        return "exact"
    pieces = pieces_of(data)
    own = sum(piece in life.pieces for piece in pieces)
    if not pieces:
        return "empty"
    # The last piece of what is cut short need not be one of the file.
    if own >= len(pieces) - 1 and (own or len(pieces) > 1):
        return "own"
    return "mixed" if own else "foreign"


def _named(file: DeletedFile, life: Life, book: Book) -> str:
    if file.path is not None:
        path = file.path.lstrip(b"/")
        return "last" if path in life.last else "right" if path in life.paths else "wrong"
    if file.partial_path is None:
        return "part" if any(_ends(path, file.name or b"") for path in life.paths) else "wrong"
    return "part" if _is_below(file.partial_path, life, book) else "wrong"


def _ends(path: bytes, name: bytes) -> bool:
    return path.rpartition(b"/")[2] == name


def _is_below(below: bytes, life: Life, book: Book) -> bool:
    """Whether the directory that comes first ever had a path with which the rest was the life's."""
    told = _UNKNOWN_TOP.fullmatch(below)
    if told is None:
        return False
    number, generation, tail = int(told[1]), told[2], told[3]
    tops = [
        path
        for one in book.lives.values()
        if one.number == number and generation in (None, b"%d" % one.generation)
        for path in one.paths
    ]
    paths = [top + b"/" + tail for top in tops] if number != ROOT else [tail]
    return any(path in life.paths for path in paths)
