"""The bodyfile of The Sleuth Kit 3 and later, which `mactime` and other tools read.

MD5|name|inode|mode_as_string|UID|GID|size|atime|mtime|ctime|crtime

`mactime` splits a line at `|` and decodes percent-encoding in each field. `|` and `%` in a name are
therefore written as `%7C` and `%25`. Characters that could control a terminal are escaped.
Source: the bodyfile format of The Sleuth Kit's documentation; mactime's own parsing.
"""

from __future__ import annotations

from functools import cache

from ext4kit.export.format import TextFormat
from ext4kit.export.rows import Batch, FileRow, RowState
from ext4kit.export.texts import decimal_seconds, seconds
from ext4kit.report.listing import mode_text
from ext4kit.report.safe import printable

_LETTERS = {
    "file": "r", "directory": "d", "symlink": "l", "chardev": "c", "blockdev": "b", "fifo": "p",
    "socket": "s", "unknown": "-",
}  # fmt: skip
_MARKS = {RowState.LIVE: "", RowState.DELETED: " (deleted)", RowState.EARLIER: " (earlier state)"}


class Bodyfile(TextFormat):
    """One line per file."""

    def files(self, batch: Batch) -> None:
        """Write one line per file."""
        moment = decimal_seconds if self.subject.fractions else seconds
        lines = []
        for row, digests in zip(batch.rows, batch.complete_digests, strict=True):
            times = "|".join(map(moment, (row.atime, row.mtime, row.ctime, row.crtime)))
            lines.append(
                f"{digests.get('md5', 0)}|{_name(row)}|{row.number or 0}|"
                f"{_mode(row.kind, row.mode or 0)}|{row.uid or 0}|{row.gid or 0}|"
                f"{row.size or 0}|{times}\n"
            )
        self.stream.write("".join(lines))
        self.count += len(lines)


def _name(row: FileRow) -> str:
    text = row.path if row.target is None else f"{row.path} -> {printable(row.target)}"
    text += _MARKS[row.state]
    if "%" in text:
        text = text.replace("%", "%25")
    return text.replace("|", "%7C")


@cache
def _mode(kind: str, mode: int) -> str:
    """`r/rrw-r--r--`: the type by the name, the type by the inode, permissions."""
    letter = _LETTERS[kind]
    return f"{letter}/{letter}{mode_text(mode)[1:]}"
