"""Files as a table (CSV) and as JSON lines, the same columns in both."""

from __future__ import annotations

import csv
from typing import Any

from ext4kit.export.format import TextFormat
from ext4kit.export.rows import Batch, Row
from ext4kit.export.texts import iso_or_empty
from ext4kit.recovery import Moment
from ext4kit.recovery.salvage import ground_of
from ext4kit.report.records import as_line
from ext4kit.report.safe import json_name, shown

# What a spreadsheet takes for a formula, and the mark itself, so that it can be taken off again.
_GUARDED = frozenset("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")
COLUMNS = (
    "state", "grade", "path", "path_known", "path_ground", "type", "mode", "inode", "generation",
    "uid", "gid", "size", "links", "atime", "mtime", "ctime", "crtime", "dtime", "last_seen",
    "gone_by", "target", "blocks", "blocks_reused", "first_block", "mime", "md5", "sha1",
    "sha256", "problems",
)  # fmt: skip


def guarded(text: str) -> str:
    """Text for a cell that no spreadsheet takes for a formula: `'` in front where it could be."""
    return f"'{text}" if text[:1] in _GUARDED and text else text


class Table(TextFormat):
    """CSV with a line of headings; text in quotes, numbers bare."""

    def begin(self) -> None:
        """Write the headings."""
        self._writer = csv.writer(self.stream, quoting=csv.QUOTE_NONNUMERIC)
        self._writer.writerow(COLUMNS)

    def files(self, batch: Batch) -> None:
        """Write a row each."""
        self._writer.writerows(map(_cells, batch.rows, batch.digests))
        self.count += len(batch)


def _cells(row: Row, digests: dict[str, str]) -> tuple[Any, ...]:
    """The cells of a row; what comes from the evidence is guarded, a path by its slash."""
    gone = row.gone
    between = gone.deleted_between if gone else (None, None)
    return (
        row.state.value, gone and gone.grade.value, row.path,
        "no" if row.raw is None else "yes", ground_of(gone), row.kind,
        None if row.mode is None else f"{row.mode:06o}", *row[2:4], *row[5:9],
        *map(iso_or_empty, row[9:14]), *map(_moment, between),
        None if row.target is None else guarded(shown(row.target)), *_left(row),
        digests.get("md5"), digests.get("sha1"), digests.get("sha256"),
        guarded("; ".join(gone.problems)) if gone else None,
    )  # fmt: skip


def _moment(moment: Moment | None) -> str | None:
    if moment is None:
        return None
    return f"transaction {moment.transaction} {iso_or_empty(moment.time)}".rstrip()


def _left(row: Row) -> tuple[Any, ...]:
    """(blocks, reused ones, first block, MIME type) of what is gone."""
    gone = row.gone
    if gone is None:
        return (None,) * 4
    return gone.blocks, gone.blocks_reused, gone.first_block, row.format and row.format.mime


class JsonLines(TextFormat):
    """A record `file` each, times in integer nanoseconds, names exact."""

    def files(self, batch: Batch) -> None:
        """Write a line each."""
        pairs = zip(batch.rows, batch.digests, strict=True)
        self.stream.write("".join(f"{as_line(_record(*pair))}\n" for pair in pairs))
        self.count += len(batch)


def _record(row: Row, digests: dict[str, str]) -> dict[str, Any]:
    name = {"path": None} if row.raw is None else json_name(row.raw)
    record: dict[str, Any] = {"record": "file", "state": row.state.value, **name}
    record |= {"shown": row.path, "type": row.kind, "inode": row.number}
    record |= zip(("generation", "mode", "uid", "gid", "size", "links_count", "atime", "mtime",
                   "ctime", "crtime", "dtime"), row[3:14], strict=True)  # fmt: skip
    if row.target is not None:
        record |= json_name(row.target, "target")
    if row.gone is not None:
        record |= _gone(row)
    return record | digests


def _gone(row: Row) -> dict[str, Any]:
    gone = row.gone
    assert gone is not None
    return {
        "grade": gone.grade.value,
        "path_ground": ground_of(gone),
        "deleted_between": [
            moment and {"transaction": moment.transaction, "time": moment.time}
            for moment in gone.deleted_between
        ],
        "blocks": gone.blocks,
        "blocks_reused": gone.blocks_reused,
        "first_block": gone.first_block,
        "mime": row.format.mime if row.format else None,
        "problems": gone.problems,
    }
