"""Deleted files as a table and as records, and the result of a recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.bursts import BurstCause
from ext4kit.errors import quoted
from ext4kit.fields import json_name
from ext4kit.history.wiping import Wiping
from ext4kit.recovery import DeletedFile, DeletedFiles, Grade, RecoveryResult, is_written
from ext4kit.recovery.manifest import FileFacts, FileIdentity, file_facts, file_identity
from ext4kit.recovery.model import Unbound
from ext4kit.recovery.summary import DeletedOverview, FolderDeletions
from ext4kit.report.known_marks import known_text
from ext4kit.report.phrases import count_text, resumed_text
from ext4kit.report.safe import printable, shown
from ext4kit.report.tables import TableText, human_size, table_lines, wrapped
from ext4kit.report.times import time_text

_GRADES = tuple(Grade)
_HEADINGS = ("grade", "inode", "size", "deleted", "path")
GRADE_MEANINGS = {
    Grade.INTACT: "the last committed content; the evidence excludes a later write",
    Grade.CONSISTENT: "all records agree; a later write without a record is not excluded",
    Grade.PARTIAL: "some blocks were reused, or evidence contradicts a part",
    Grade.OVERWRITTEN: "no content is left that can be attributed",
    Grade.CARVED: "content found without an inode; its boundaries are estimates",
}
_NAME_HEADINGS = ("inode", "reason", "removed name")
SORT_KEYS: dict[str, Callable[[DeletedFile], int] | None] = {
    "path": None,
    "size": lambda file: -(file.size or 0),
    "deleted": lambda file: -(file.deletion_time or 0),
    "modified": lambda file: -(file.mtime or 0),
    "inode": lambda file: file.number or 0,
    "grade": lambda file: list(Grade).index(file.grade),
}


def deleted_lines(
    files: Iterable[DeletedFile], limit: int | None = None
) -> Iterator[tuple[Grade | None, str]]:
    """(grade, line) pairs: a heading without a grade, then each file; none if there are no files.

    Args:
        files: the deleted files; all of them are counted.
        limit: the number of files that get a line.
    """
    table, grades = TableText(_HEADINGS, right={1, 2}), bytearray()
    for file in files:
        if limit is not None and len(grades) >= limit:
            continue
        size = "?" if file.size is None else str(file.size)
        number = "-" if file.number is None else str(file.number)
        table.add((str(file.grade), number, size, deletion_text(file), _path_with_notes(file)))
        grades.append(_GRADES.index(file.grade))
    if grades:
        yield from zip((None, *(_GRADES[grade] for grade in grades)), table.lines(), strict=True)


def sorted_files(files: Sequence[DeletedFile], by: str) -> Sequence[DeletedFile]:
    """Deleted files in the order of one of `SORT_KEYS`; files that are equal keep their order."""
    key = SORT_KEYS[by]
    return files if key is None else sorted(files, key=key)


def deletion_text(file: DeletedFile) -> str:
    """The deletion time in the command's zone; `<=` marks a commit time, an upper bound."""
    if file.deletion_time is None:
        return "-"
    return ("<= " if file.dtime is None else "") + time_text(file.deletion_time)


def known_path(file: DeletedFile, unknown: str) -> str | None:
    """Path of a deleted file, below `unknown` if its directory is unknown; None without a name."""
    if file.path is not None:
        return printable(file.path)
    part = file.name if file.partial_path is None else file.partial_path
    return None if part is None else f"{unknown}/{printable(part)}"


def display_path(file: DeletedFile) -> str:
    """The known part of a deleted file's path; for a carved file, its first block."""
    nameless = f"(block {file.first_block:,})" if file.inode is None else "(path unknown)"
    path = known_path(file, "(directory unknown)")
    return nameless if path is None else quoted(path)


def _path_with_notes(file: DeletedFile) -> str:
    """The path, followed by notes about the file."""
    path = display_path(file)
    if file.inode is None:
        listed = "named by a live list, " if file.name is not None else ""
        listed = f"{known_text(file.known)}, {listed}" if file.known else listed
        return f"{path}  [{listed}{_file_type_text(file)}]"
    notes: list[str] = [] if file.kind == "file" else [file.kind]
    if file.known:
        notes.append(known_text(file.known))
    if file.link_target is not None:
        notes.append(f"to {shown(file.link_target)}")
    if file.blocks_reused:
        notes.append(f"{file.blocks_reused:,} of {file.blocks:,} blocks reused")
    if file.superseded:
        notes.append("earlier version")
    notes += _past_notes(file)
    if file.first_block is not None:
        notes.append(f"matched by position on disk, {_file_type_text(file)}")
    return f"{path}  [{', '.join(notes)}]" if notes else path


def _past_notes(file: DeletedFile) -> list[str]:
    """Notes about what happened to a file before its deletion."""
    notes: list[str] = []
    if file.wiping is not None and not file.superseded:
        notes.append(wiping_text(file.wiping))
    if file.former_paths:
        notes.append(f"formerly {', '.join(map(shown, file.former_paths))}")
    return notes


def wiping_text(wiping: Wiping) -> str:
    """How a wiping program changed a file: `wiped as by shred or wipe, renamed 15 times`."""
    text = f"{'wiped' if wiping.is_certain else 'possibly wiped'} as by {wiping.tools}"
    if wiping.names:
        text += f", renamed {count_text(len(wiping.names), 'time')}"
        text += ", name before unknown" * (wiping.true_name is None)
    return text if wiping.size is None else f"{text}, {wiping.size:,} bytes before"


def _file_type_text(file: DeletedFile) -> str:
    """File type by content; a note says if it is probably a fragment or has uncertain bounds."""
    found = file.file_type
    kind = found.mime if found else "type not recognised"
    if file.fragment:
        return f"{kind}, probably a fragment"
    return f"{kind}, boundaries uncertain" if file.problems else kind


def counts_line(every: Mapping[Grade, int], earlier: int = 0, contents: int = 0) -> str:
    """Counts such as `12 intact, 3 partial, ...`, without grades that do not occur.

    Args:
        every: number of files and contents by grade.
        earlier: number of earlier versions.
        contents: number of contents without an inode, all of them carved.
    """
    grades = {**every, Grade.CARVED: every[Grade.CARVED] - contents}
    total = sum(grades.values())
    parts = ", ".join(f"{count:,} {grade}" for grade, count in grades.items() if count)
    text = f"{total:,} deleted file{'s' * (total != 1)}" + f": {parts}" * bool(parts)
    if contents:
        theirs = " (they may be theirs)" if grades[Grade.OVERWRITTEN] else ""
        text += f"; {count_text(contents, 'content')} without a name{theirs}"
    return text + f"; {earlier:,} earlier version{'s' * (earlier != 1)}" * bool(earlier)


def name_lines(deleted: DeletedFiles) -> list[str]:
    """A table of the removed names and their count; empty for a lost file system."""
    names = deleted.removed_names()
    if names is None:
        return []
    rows = []
    for one in names:
        path = b"(directory unknown)/" + one.name if one.path is None else one.path
        number = "-" if one.inode is None else str(one.inode)
        rows.append((number, one.reason.value, shown(path)))
    lines = ["", *table_lines(_NAME_HEADINGS, rows, right={0})] if rows else []
    meanings = sorted({(one.reason.value, one.meaning) for one in names})
    lines += ["", *(f"{reason}: {meaning}" for reason, meaning in meanings)] if meanings else []
    return [*lines, f"{len(names):,} removed name{'s' * (len(names) != 1)}"]


RemovedNames = Annotated[
    int | None,
    "Deleted entries not reported as names of deleted files; null for a lost file system.",
]


class DeletedRecord(FileIdentity, FileFacts):
    """A deleted file, an earlier version, or content without an inode (`deleted`, `report`)."""

    record: Literal["deleted"]


class RemovedNameRecord(TypedDict):
    """A deleted entry that is not reported as the name of a deleted file (`deleted --names`)."""

    record: Literal["removed name"]
    path: Annotated[
        str | None,
        "The name below the present path of its directory, or below the last path of a deleted "
        "directory; as UTF-8, with backslash escapes for other bytes. Null if the path is "
        "unknown.",
    ]
    path_bytes: NotRequired[fields.Exact]
    name: str
    name_bytes: NotRequired[fields.Exact]
    directory: Annotated[int, "Inode number of the directory."]
    inode: Annotated[int | None, "Inode number in the entry; null if the deletion cleared it."]
    type: Annotated[fields.FileType, "File type in the entry."]
    reason: Annotated[
        Unbound, "Reason why the entry is not reported as the name of a deleted file."
    ]
    meaning: Annotated[str, "The reason as a sentence."]


class DeletedSummary(TypedDict):
    """Summary of `deleted`."""

    record: Literal["summary"]
    deleted: Annotated[int, "Deleted files, without earlier versions."]
    grades: Annotated[dict[Grade, int], "Deleted files by grade, without earlier versions."]
    earlier: Annotated[int, "Earlier versions of files; with --versions only."]
    listed: Annotated[
        int, "Number of files with a record; with --limit it may be less than all files."
    ]
    contents: Annotated[dict[str, int], "Number of carved files of each kind, without fragments."]
    fragments: Annotated[int, "Number of carved files that are probably only parts of files."]
    newest_ns: Annotated[int | None, "Latest known deletion, nanoseconds since 1970 UTC."]
    removed_names: RemovedNames


class FolderRecord(TypedDict):
    """Files of one folder that were deleted together (`deleted`)."""

    record: Literal["burst"]
    kind: Literal["deleted"]
    folder: Annotated[str | None, "The folder of these files; null if its path is unknown."]
    folder_bytes: NotRequired[fields.Exact]
    first_ns: Annotated[int | None, "First deletion, nanoseconds since 1970 UTC."]
    last_ns: Annotated[int | None, "Last deletion, nanoseconds since 1970 UTC."]
    files: fields.Count
    directories: fields.Count
    whole: Annotated[int, "Number of files of which nothing is missing."]
    bytes: Annotated[int, "Total bytes of these whole files."]
    owner: Annotated[int | None, "User id of most of the files."]
    cause: Annotated[BurstCause | None, "Usual cause of such a burst, judged by names alone."]


class RecoveryCounts(TypedDict):
    """Numbers of files by result."""

    written: fields.Count
    kept: Annotated[
        int, "Number of written files that an earlier run had already written (--resume)."
    ]
    links: Annotated[
        int, "Number of links created: symbolic links, and hard links for further names of a file."
    ]
    folders: Annotated[int, "Deleted directories restored."]
    recorded: fields.Count
    incomplete: fields.Count
    bytes: int
    grades: dict[Grade, int]


class RecoveryRecord(RecoveryCounts):
    """Result of `recover`."""

    record: Literal["recovery"]
    output: Annotated[str, "The output directory."]


def folder_record(found: FolderDeletions) -> FolderRecord:
    """A burst of deletions as a record."""
    burst = found.burst
    return {
        "record": "burst",
        "kind": "deleted",
        **json_name(burst.folder, "folder"),
        "first_ns": burst.first or None,
        "last_ns": burst.last or None,
        "files": found.files,
        "directories": found.directories,
        "whole": found.whole,
        "bytes": found.bytes,
        "owner": burst.owner,
        "cause": burst.cause,
    }


def deleted_record(file: DeletedFile) -> DeletedRecord:
    """The manifest record without the fields that only a recovery sets."""
    return {"record": "deleted", **file_identity(file), **file_facts(file, None)}


def deleted_records(
    deleted: DeletedFiles, names: bool = False, limit: int | None = None
) -> Iterator[DeletedRecord | RemovedNameRecord | FolderRecord | DeletedSummary]:
    """Records of the files, of the removed names if requested, of the bursts, and a summary.

    Args:
        deleted: the files.
        names: include the removed names.
        limit: the number of files with a record; the summary counts all files.
    """
    overview, listed = DeletedOverview(), 0
    for file in overview.counting(deleted):
        if limit is None or listed < limit:
            listed += 1
            yield deleted_record(file)
    grades = overview.grades
    left = deleted.removed_names()
    for one in left if names and left else ():
        yield {
            "record": "removed name",
            **json_name(one.path),
            **json_name(one.name, "name"),
            "directory": one.directory,
            "inode": one.inode,
            "type": one.kind,
            "reason": one.reason,
            "meaning": one.meaning,
        }
    yield from map(folder_record, overview.by_folder())
    yield {
        "record": "summary",
        "deleted": sum(grades.values()),
        "grades": grades,
        "earlier": overview.earlier,
        "listed": listed,
        "contents": dict(overview.contents),
        "fragments": overview.fragments,
        "newest_ns": overview.newest,
        "removed_names": None if left is None else len(left),
    }


def dry_run_lines(deleted: DeletedFiles) -> Iterator[str]:
    """The files that a recovery would write, and their number and size."""
    sizes = []

    def written() -> Iterator[DeletedFile]:
        for file in deleted:
            if is_written(file):
                sizes.append(file.size or 0)
                yield file

    yield from (line for _, line in deleted_lines(written()))
    done = f"{len(sizes):,} of {len(deleted):,} files would be written ({human_size(sum(sizes))})"
    yield f"{done}; nothing was written"


def recovery_lines(salvage: RecoveryResult, out: str, others: str = "") -> list[str]:
    """Result of a recovery, as a table of grades and sentences.

    Args:
        salvage: the counts.
        out: the output folder.
        others: tells of files that the selection could not reach.
    """
    rows = [(str(grade), f"{salvage.grades[grade]:,}") for grade in Grade if salvage.grades[grade]]
    lines = table_lines(("grade", "files"), rows, right={1}) + [""] if rows else []
    kept = f" and {salvage.kept:,} kept in" if salvage.kept else " to"
    new = f"{salvage.written - salvage.kept:,} written"
    lines.append(f"{new}{kept} {out} ({human_size(salvage.bytes)})")
    if salvage.kept:
        lines.append(resumed_text(salvage.written, salvage.kept, not salvage.incomplete))
    made = [(salvage.links, "link"), (salvage.folders, "folder")]
    if words := [f"{count:,} {what}{'s' * (count != 1)}" for count, what in made if count]:
        lines.append(" and ".join(words) + " restored")
    if salvage.recorded:
        lines.append(f"{salvage.recorded:,} recorded in the manifest only")
    if salvage.incomplete:
        lines.append(f"{salvage.incomplete:,} incomplete; the manifest gives the reasons")
    return [*lines, *wrapped([others])] if others else lines


def recovery_record(salvage: RecoveryResult, out: str) -> RecoveryRecord:
    """Result of a recovery, as a record."""
    return {"record": "recovery", "output": out, **salvage_counts(salvage)}


def salvage_counts(salvage: RecoveryResult) -> RecoveryCounts:
    """The counts of a recovery."""
    return {
        "written": salvage.written,
        "kept": salvage.kept,
        "links": salvage.links,
        "folders": salvage.folders,
        "recorded": salvage.recorded,
        "incomplete": salvage.incomplete,
        "bytes": salvage.bytes,
        "grades": {grade: salvage.grades[grade] for grade in Grade},
    }
