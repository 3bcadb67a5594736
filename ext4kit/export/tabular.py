"""Files as a table (CSV) and as JSON lines, the same columns in both."""

from __future__ import annotations

import csv
from operator import itemgetter
from typing import Annotated, ClassVar, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.export.format import TextFormat
from ext4kit.export.rows import Batch, FileRow, RowState
from ext4kit.export.texts import iso_or_empty
from ext4kit.fields import Nothing, SomeDigests, TargetText, json_name
from ext4kit.history.places import Ground
from ext4kit.recovery import TransactionTime
from ext4kit.recovery.manifest import (
    Between,
    DeletedAt,
    DeletedGround,
    Freed,
    Mime,
    Trust,
    ground_of,
    moment_record,
)
from ext4kit.report.records import json_line
from ext4kit.report.safe import printable

# First characters of a formula in spreadsheets, and the quote itself, so that it can be removed.
_GUARDED = frozenset("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")


class CsvRow(TypedDict):
    """The columns of the table, in their order."""

    state: str
    grade: str | None
    path: str
    path_known: str
    path_ground: str | None
    type: str
    mode: str | None
    inode: int | None
    generation: int | None
    uid: int | None
    gid: int | None
    size: int | None
    links: int | None
    atime: str | None
    mtime: str | None
    ctime: str | None
    crtime: str | None
    dtime: str | None
    last_seen: str | None
    gone_by: str | None
    target: str | None
    blocks: int | None
    blocks_reused: int | None
    first_block: int | None
    mime: str | None
    md5: str | None
    sha1: str | None
    sha256: str | None
    problems: str | None
    deleted_at: str | None
    deleted_at_ground: str | None


COLUMNS = tuple(CsvRow.__annotations__)
_IN_ORDER = itemgetter(*COLUMNS)


def guarded(text: str) -> str:
    """Text for a cell that no spreadsheet reads as a formula: `'` is put in front where needed."""
    return f"'{text}" if text[:1] in _GUARDED and text else text


class CsvTable(TextFormat):
    """CSV with a heading; text in quotes, numbers without."""

    takes_types: ClassVar[bool] = True

    def begin(self) -> None:
        """Write the headings."""
        self._writer = csv.writer(self.stream, quoting=csv.QUOTE_NONNUMERIC)
        self._writer.writerow(COLUMNS)

    def files(self, batch: Batch) -> None:
        """Write one row per file."""
        self._writer.writerows(map(_IN_ORDER, map(_cells, batch.rows, batch.digests)))
        self.count += len(batch)


def _cells(row: FileRow, digests: SomeDigests) -> CsvRow:
    """The cells of a row; text from the evidence is guarded, a path by its slash."""
    deleted = row.gone
    last_seen, gone_by = deleted.deleted_between if deleted else (None, None)
    deletion = deleted.deletion if deleted else None
    return {
        "state": row.state.value,
        "grade": deleted.grade.value if deleted else None,
        "path": row.path,
        "path_known": "no" if row.raw is None else "yes",
        "path_ground": ground_of(deleted),
        "type": row.kind,
        "mode": None if row.mode is None else f"{row.mode:06o}",
        "inode": row.number,
        "generation": row.generation,
        "uid": row.uid,
        "gid": row.gid,
        "size": row.size,
        "links": row.links,
        "atime": iso_or_empty(row.atime),
        "mtime": iso_or_empty(row.mtime),
        "ctime": iso_or_empty(row.ctime),
        "crtime": iso_or_empty(row.crtime),
        "dtime": iso_or_empty(row.dtime),
        "last_seen": _moment(last_seen),
        "gone_by": _moment(gone_by),
        "target": None if row.target is None else guarded(printable(row.target)),
        **row.remains,
        "md5": digests.get("md5"),
        "sha1": digests.get("sha1"),
        "sha256": digests.get("sha256"),
        "problems": guarded("; ".join(deleted.problems)) if deleted else None,
        "deleted_at": iso_or_empty(deletion[0]) if deletion else None,
        "deleted_at_ground": deletion[1].value if deletion else None,
    }


def _moment(moment: TransactionTime | None) -> str | None:
    if moment is None:
        return None
    return f"transaction {moment.transaction} {iso_or_empty(moment.time)}".rstrip()


class JsonLines(TextFormat):
    """One record `file` per file, times in integer nanoseconds, names exact."""

    takes_types: ClassVar[bool] = True

    def files(self, batch: Batch) -> None:
        """Write one line per file."""
        pairs = zip(batch.rows, batch.digests, strict=True)
        self.stream.write("".join(f"{json_line(_record(*pair))}\n" for pair in pairs))
        self.count += len(batch)


class GoneFacts(TypedDict, total=False):
    """Facts about a deleted file."""

    grade: Trust
    path_ground: Annotated[Ground | None, "What the path of a deleted file rests on."]
    deleted_at: DeletedAt | None
    deleted_at_ground: DeletedGround | None
    deleted_between: Between
    blocks: int
    blocks_reused: int
    first_block: int | None
    mime: Mime | None
    problems: Annotated[tuple[str, ...], "Reasons for less than everything."]


class FileRecord(fields.PathOrNone, fields.InodeFacts, GoneFacts, SomeDigests):
    """A live or deleted file (`export --jsonl`)."""

    record: Literal["file"]
    state: RowState
    shown: Annotated[str, "The path as it is shown; below `/$Unnamed` and `/$Carved` made up."]
    type: fields.FileType
    inode: fields.Inode | None
    generation: fields.Generation | None
    size: Annotated[int | None, "Bytes."]
    links_count: int | None
    dtime: Freed | None
    target: NotRequired[fields.Target]
    target_bytes: NotRequired[fields.Exact]


def _record(row: FileRow, digests: SomeDigests) -> FileRecord:
    link: TargetText | Nothing = {} if row.target is None else json_name(row.target, "target")
    return {
        "record": "file",
        "state": row.state,
        **json_name(row.raw),
        "shown": row.path,
        "type": row.kind,
        "inode": row.number,
        "generation": row.generation,
        "mode": row.mode,
        "uid": row.uid,
        "gid": row.gid,
        "size": row.size,
        "links_count": row.links,
        "atime": row.atime,
        "mtime": row.mtime,
        "ctime": row.ctime,
        "crtime": row.crtime,
        "dtime": row.dtime,
        **link,
        **_gone(row),
        **digests,
    }


def _gone(row: FileRow) -> GoneFacts:
    deleted = row.gone
    if deleted is None:
        return {}
    before, after = deleted.deleted_between
    deleted_at, ground = deleted.deletion or (None, None)
    return {
        "grade": deleted.grade,
        "path_ground": deleted.path_ground,
        "deleted_at": deleted_at,
        "deleted_at_ground": ground,
        "deleted_between": (moment_record(before), moment_record(after)),
        "blocks": deleted.blocks,
        "blocks_reused": deleted.blocks_reused,
        "first_block": deleted.first_block,
        "mime": row.format.mime if row.format else None,
        "problems": deleted.problems,
    }
