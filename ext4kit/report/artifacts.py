"""Counts and files of artifact definitions as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from ext4kit import fields
from ext4kit.artifacts.definitions import Definition
from ext4kit.artifacts.finding import ArtifactCount, ArtifactCounts, ArtifactFile
from ext4kit.fields import json_name, of_root
from ext4kit.filesystem.view import FileState
from ext4kit.report.phrases import command_text, count_text
from ext4kit.report.safe import printable_text, shown
from ext4kit.report.tables import TableText, table_lines

_HEADINGS = ("live", "deleted", "earlier", "artifact", "files")
_FILE_HEADINGS = ("state", "grade", "artifact", "path")


class ArtifactRecord(fields.OfRoot):
    """An artifact definition and how many files it names (`artifacts`)."""

    record: Literal["artifact"]
    name: Annotated[str, "Name of the definition."]
    doc: Annotated[str, "What its files are."]
    aliases: Annotated[list[str], "Its other names."]
    members: Annotated[list[str], "Definitions that it groups."]
    live: Annotated[int, ("minimum", 0), "Files that exist."]
    deleted: Annotated[int, ("minimum", 0), "Deleted files."]
    earlier: Annotated[int, ("minimum", 0), "Earlier versions of files."]
    left_out: Annotated[
        int, ("minimum", 0), "Sources that name no files, such as the output of a command."
    ]


class ArtifactFileRecord(fields.OfRoot, fields.PathText):
    """A file that artifact definitions name (`artifacts --files`)."""

    record: Literal["artifact file"]
    artifacts: Annotated[list[str], "The definitions, of those that are listed."]
    state: FileState
    grade: Annotated[str | None, "Grade of the content; null for a live file."]
    type: fields.FileType
    inode: Annotated[int | None, "Inode number."]
    size: fields.Size | None


class ArtifactsSummary(fields.OfRoot):
    """How many definitions name files (`artifacts`)."""

    record: Literal["summary"]
    definitions: Annotated[int, ("minimum", 0), "Definitions that were counted."]
    with_files: Annotated[int, ("minimum", 0), "Those that name files."]
    live: Annotated[int, ("minimum", 0), "Files that exist; a file of several counts once."]
    deleted: Annotated[int, ("minimum", 0), "Deleted files."]
    earlier: Annotated[int, ("minimum", 0), "Earlier versions of files."]


def artifact_record(count: ArtifactCount, root: str) -> ArtifactRecord:
    """A count as a record."""
    one = count.definition
    return {
        "record": "artifact",
        **of_root(root),
        "name": one.name,
        "doc": one.doc,
        "aliases": list(one.aliases),
        "members": list(one.members),
        "live": count.live,
        "deleted": count.deleted,
        "earlier": count.earlier,
        "left_out": one.left_out,
    }


def file_record(file: ArtifactFile, definitions: Sequence[Definition]) -> ArtifactFileRecord:
    """A file as a record."""
    node = file.node
    return {
        "record": "artifact file",
        **of_root(file.root),
        "artifacts": [definitions[row].name for row in file.definitions],
        **json_name(file.path),
        "state": file.node.file_state,
        "grade": node.grade,
        "type": node.kind,
        "inode": node.number,
        "size": node.size,
    }


def artifact_records(
    counts: ArtifactCounts, files: Sequence[ArtifactFile], is_all: bool, root: str = ""
) -> Iterator[ArtifactRecord | ArtifactFileRecord | ArtifactsSummary]:
    """The definitions, the files to list, then the summary.

    Args:
        counts: the counts.
        files: the files to list.
        is_all: include definitions without files.
        root: name of the Linux root that has them; "" for the image itself.
    """
    definitions = [count.definition for count in counts.each]
    for count in counts.each if is_all else counts.with_files:
        yield artifact_record(count, root)
    for file in files:
        yield file_record(file, definitions)
    yield {
        "record": "summary",
        **of_root(root),
        "definitions": len(counts.each),
        "with_files": len(counts.with_files),
        "live": counts.live,
        "deleted": counts.deleted,
        "earlier": counts.earlier,
    }


def count_lines(
    counts: ArtifactCounts, is_all: bool, image: object, root: str = ""
) -> Iterator[str]:
    """A table of the counts, the totals, and what to type next."""
    rows = [
        (f"{one.live:,}", f"{one.deleted:,}", f"{one.earlier:,}", one.definition.name,
         printable_text(one.definition.doc))
        for one in (counts.each if is_all else counts.with_files)
    ]  # fmt: skip
    yield from (*table_lines(_HEADINGS, rows, right={0, 1, 2}), "") if rows else ()
    yield from _total_lines(counts, image, root)


def file_lines(
    counts: ArtifactCounts, files: Sequence[ArtifactFile], image: object, root: str = ""
) -> Iterator[str]:
    """A table of the files, the totals, and what to type next."""
    table = TableText(_FILE_HEADINGS)
    for file in files:
        names = ", ".join(counts.each[row].definition.name for row in file.definitions)
        table.add((file.node.file_state, file.node.grade or "", names, shown(file.path)))
    yield from (*table.lines(), "") if files else ()
    yield from _total_lines(counts, image, root)


def _total_lines(counts: ArtifactCounts, image: object, root: str) -> Iterator[str]:
    found, of = counts.with_files, count_text(len(counts.each), "definition")
    have = "has" if len(found) == 1 else "have"
    yield (
        f"{len(found):,} of {of} {have} files: {counts.live:,} live, {counts.deleted:,} deleted,"
        f" {count_text(counts.earlier, 'earlier version')}"
    )
    if not found:
        yield f"{command_text('artifacts', image, '--all')} lists all of them"
        return
    best = max(found, key=lambda one: (one.deleted, one.earlier, one.live))
    if root:
        words = ["artifacts", str(image), best.definition.name, "--root", root]
        yield f"{command_text(*words, '-o', 'OUT')} writes those of {best.definition.name}"
        return
    words = ["recover" if best.deleted or best.earlier else "extract", str(image)]
    words += ["--artifact", best.definition.name]
    words += ["--versions"] if best.earlier else []
    yield f"{command_text(*words, '-o', 'OUT')} writes those of {best.definition.name}"
