"""Versions of a file as records, as a table and as differences of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Annotated, Literal, TypedDict

from ext4kit import fields
from ext4kit.errors import RequestError
from ext4kit.fields import json_name
from ext4kit.filesystem.content import ContentStream
from ext4kit.output import Written
from ext4kit.reasons import Reason, texts
from ext4kit.recovery import Grade
from ext4kit.recovery.file_versions import Change, FileVersion
from ext4kit.recovery.manifest import FileMoment, moment_record
from ext4kit.report.safe import printable, shown
from ext4kit.report.tables import table_lines
from ext4kit.report.times import time_text

_HEADINGS = ("#", "committed", "modified", "size", "inode", "grade", "what happened")
_MOST_COMPARED = 64 << 20  # largest text, in bytes


class VersionEnd(TypedDict):
    """How a file ended after its last version."""

    change: Annotated[Change, "deleted, or replaced by another file at its path."]
    committed: FileMoment | None
    replaced_by: Annotated[int | None, "Inode number of the file that then had the path."]


class FileVersionRecord(fields.PathOrNone):
    """A version of a file (`versions`); with -o also a record of the manifest."""

    record: Literal["file version"]
    number: Annotated[int, "Number of the version; 1 is the oldest."]
    inode: fields.Inode
    generation: fields.Generation
    size: Annotated[int, "Bytes."]
    mode: int
    uid: int
    gid: int
    mtime: int
    ctime: int
    crtime: int | None
    committed: Annotated[
        FileMoment | None,
        "The first transaction that shows this version; null if no transaction "
        "in the journal does.",
    ]
    changes: Annotated[list[Change], "Changes that led to this version."]
    renamed_from: Annotated[str | None, "The previous path, if the file was renamed."]
    ended: Annotated[
        VersionEnd | None, "How the file ended after this version; null if it did not end."
    ]
    live: Annotated[bool, "True for the present version of the file."]
    grade: Annotated[Grade | None, "Grade of the content; null for the present version."]
    problems: fields.Reasons
    output: fields.Output | None
    sha256: fields.Sha256 | None


def version_record(
    version: FileVersion, written: Written | None = None, found: Sequence[Reason] = ()
) -> FileVersionRecord:
    """The record of a version.

    Args:
        version: the version.
        written: the output file with its content.
        found: why it was not written as it should be.
    """
    inode, ended = version.inode, version.ended
    return {
        "record": "file version",
        "number": version.number,
        **json_name(version.path),
        "inode": inode.number,
        "generation": inode.generation,
        "size": inode.size,
        "mode": inode.mode,
        "uid": inode.uid,
        "gid": inode.gid,
        "mtime": inode.mtime,
        "ctime": inode.ctime,
        "crtime": inode.crtime,
        "committed": moment_record(version.committed),
        "changes": list(version.changes),
        "renamed_from": None if version.renamed_from is None else printable(version.renamed_from),
        "ended": None if ended is None else {
            "change": ended[0],
            "committed": moment_record(ended[1]),
            "replaced_by": version.replaced_by,
        },
        "live": version.is_live,
        "grade": version.grade,
        "problems": [*(version.file.problems if version.file else ()), *texts(found)],
        "output": written.path if written else None,
        "sha256": written.sha256 if written else None,
    }  # fmt: skip


def version_lines(versions: Sequence[FileVersion], path: bytes) -> list[str]:
    """A table of the versions and their count."""
    rows = [
        (
            str(one.number),
            committed_text(one),
            time_text(one.inode.mtime),
            str(one.inode.size),
            str(one.inode.number),
            "live" if one.grade is None else str(one.grade),
            happened_text(one, path),
        )
        for one in versions
    ]
    count = len(versions)
    return [
        *table_lines(_HEADINGS, rows, right={0, 3, 4}),
        f"{count:,} version{'s' * (count != 1)} of {shown(path)}",
    ]


def committed_text(version: FileVersion) -> str:
    """When the first transaction that shows a version was committed; "-" if none does."""
    moment = version.committed
    return "-" if moment is None else time_text(moment.time)


def happened_text(version: FileVersion, path: bytes) -> str:
    """The change that created a version, and how the file ended after it, in words."""
    words = []
    for change in version.changes:
        if change is Change.RENAMED and version.renamed_from is not None:
            words.append(f"renamed from {shown(version.renamed_from)}")
        else:
            words.append(str(change))
    if version.path != path:
        place = "an unknown path" if version.path is None else shown(version.path)
        words[-1] += f", at {place}"
    if version.ended is not None:
        by = f" by inode {version.replaced_by}" if version.replaced_by else ""
        words.append(f"then {version.ended[0]}{by}")
    return "; ".join(words)


def difference_lines(old: FileVersion, new: FileVersion, path: bytes) -> Iterator[str]:
    """The unified difference of two versions of a text.

    Raises:
        RequestError: a version is too large to be compared.
    """
    names = [f"{printable(path)} version {one.number}" for one in (old, new)]
    texts = [_text(one) for one in (old, new)]
    if texts[0] is None or texts[1] is None:
        yield f"{names[0]} and version {new.number}: not both are text"
        return
    times = [time_text(one.inode.mtime) for one in (old, new)]
    before, after = (
        [printable(line) for line in text.splitlines()] for text in texts if text is not None
    )
    yield from unified_diff(before, after, names[0], names[1], times[0], times[1], lineterm="")


def _text(version: FileVersion) -> bytes | None:
    """The content of a version if it is text; None if it is not."""
    if version.content is None:
        return b"" if version.inode.size == 0 else None
    if version.content.size > _MOST_COMPARED:
        raise RequestError(
            f"version {version.number} has {version.content.size:,} bytes: too large to compare; "
            "write the versions with -o"
        )
    data = ContentStream(version.content).readall()
    return None if b"\0" in data else data
