"""Summary of a manifest of `recover`: counts by folder and reason, and rows for tables."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote

from ext4kit import reasons
from ext4kit.output.manifest import REPORT
from ext4kit.recovery import Grade
from ext4kit.recovery.manifest import RecoveredFile
from ext4kit.recovery.placing import PartialFiles

MOST_ROWS = 10_000
NOT_WRITTEN = ""  # stands for the folder of files that have a record only
_PLAIN = {  # plain wording for owners of lost files; other reasons keep their sentence
    reasons.NO_BLOCK_MAP.code: "Nothing on the disk shows any more where their content was.",
    reasons.READ_ERROR.code: "A part of them could not be read from the image.",
    reasons.UNREADABLE_MEDIA.code: "A part of them is missing from the image or unreadable.",
    reasons.WRITE_FAILED.code: "They could not be written to the output folder.",
    reasons.OUTPUT_LIMIT.code: "The limit of the output was reached.",
    reasons.WRITE_INTERRUPTED.code: "The work ended before they were written.",
    reasons.CONTENT_UNREADABLE.code: "Their content could not be read.",
}
_REUSED = "Other files were written over all of it.", "Other files were written over a part of it."
_NO_REASON = "The manifest gives no reason."
_SENTENCES = {one.code: re.sub(r"\{\w+\}", "N", one.text) for one in reasons.CATALOGUE}
_FAILURES = {
    each.code
    for each in (
        reasons.WRITE_FAILED,
        reasons.OUTPUT_LIMIT,
        reasons.WRITE_INTERRUPTED,
        reasons.CONTENT_UNREADABLE,
    )
}


class RecoveredRow(NamedTuple):
    """A file in a table.

    Attributes:
        number: number of the file's record in the manifest, from 1.
        output: path below the output folder; None if it was not written.
        path: path in the evidence; None if it is unknown.
        size: bytes, None if unknown.
        modified, deleted: ns since 1970, None if unknown.
        is_bound: whether `deleted` is an upper bound.
    """

    number: int
    output: str | None
    path: str | None
    size: int | None
    modified: int | None
    deleted: int | None
    is_bound: bool
    grade: str
    reasons: tuple[str, ...]

    @property
    def link(self) -> str:
        """The path of the output as a relative URL, percent-encoded."""
        return quote(os.fsencode(self.output or ""))


@dataclass(slots=True)
class FolderSummary:
    """The files of one folder of the output.

    Attributes:
        rows: the first files, at most `MOST_ROWS`.
    """

    files: int = 0
    bytes: int = 0
    rows: list[RecoveredRow] = field(default_factory=list)

    def add(self, record: RecoveredFile, number: int) -> None:
        """Count a file, and keep its row if there is room."""
        self.files += 1
        self.bytes += record["size"] or 0
        if len(self.rows) < MOST_ROWS:
            self.rows.append(_row(record, number))


@dataclass(slots=True)
class RecoverySummary:
    """Counts and rows of an output folder.

    Attributes:
        image: file name of the image; address: the value of `IMAGE` in commands.
        command: the command that wrote the folder.
        made: time of the recovery, ns since 1970; version: version of the program.
        partial: where damaged files were written.
        kept: files that an earlier run wrote.
        is_complete: whether each file that was to be written is whole in the folder.
        is_selection: whether files were selected.
        unreached: tells of files that the selection could not reach.
        has_explanations: whether `explain` explains the records.
        page: file name of the page with tables.
        folders: summaries by folder name; content without an inode is in `carved/KIND`.
        grades: number of written files by grade; a grade without written files has 0.
        damaged, lost, failed: number of files by main reason: written files of grade partial; files
            of which nothing was recovered; files that could not be written.
        links, directories: number of links and directories that were restored.
        others: number of directories, links and devices that have a record only.
        versions: number of earlier versions among all files.
    """

    image: str
    address: str
    command: str
    made: int
    version: str
    partial: PartialFiles = PartialFiles.APART
    kept: int = 0
    is_complete: bool = True
    is_selection: bool = False
    unreached: str = ""
    has_explanations: bool = True
    page: str = REPORT
    folders: dict[str, FolderSummary] = field(default_factory=dict)
    grades: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    links: int = 0
    directories: int = 0
    others: int = 0
    versions: int = 0

    def read(self, manifest: Path) -> None:
        """Count the records of a manifest.

        Raises:
            OSError: the manifest cannot be read.
        """
        with manifest.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                self._add(cast("RecoveredFile", json.loads(line)), number)

    def _add(self, record: RecoveredFile, number: int) -> None:
        written = record["output"] is not None
        if record["type"] != "file":
            self.links += written * (record["type"] == "symlink")
            self.directories += written * (record["type"] == "directory")
            self.others += not written
            return
        self.versions += record["superseded"]
        self.links += len(record["hard_links"])
        self.grades[record["grade"]] += written
        folder = _folder_of(record["output"])
        self.folders.setdefault(folder, FolderSummary()).add(record, number)
        if not written:
            is_failed = _FAILURES & {reason["code"] for reason in record["reasons"]}
            (self.failed if is_failed else self.lost)[_why(record)] += 1
        elif record["grade"] == Grade.PARTIAL:
            self.damaged[_why(record)] += 1

    @property
    def written(self) -> int:
        """Number of written files."""
        return self.grades.total()

    @property
    def whole(self) -> int:
        """Number of written files that are intact or consistent."""
        return self.grades[Grade.INTACT] + self.grades[Grade.CONSISTENT]

    def count(self, is_meant: Callable[[str], bool]) -> int:
        """Number of files in the folders whose kind fulfils `is_meant`."""
        return sum(each.files for name, each in self.folders.items() if is_meant(folder_kind(name)))

    def name_of(self, kind: str) -> str:
        """The topmost folder that has the files of a kind of folder, such as `partial`."""
        names = (name.split("/")[0] for name in self.folders)
        return next((each for each in names if folder_kind(each) == kind), kind)

    def tables(self) -> Iterator[tuple[str, FolderSummary]]:
        """The folders, with their rows limited so that all together have at most `MOST_ROWS`.

        Small folders keep all their rows; large ones share the remaining number.
        """
        left, few = MOST_ROWS, dict[str, int]()
        waiting = sorted(self.folders.items(), key=lambda each: each[1].files)
        for at, (name, each) in enumerate(waiting):
            few[name] = min(each.files, left // (len(waiting) - at))
            left -= few[name]
        for name, each in self.folders.items():
            yield name, FolderSummary(each.files, each.bytes, each.rows[: few[name]])


def _row(record: RecoveredFile, number: int) -> RecoveredRow:
    return RecoveredRow(
        number,
        record["output"],
        record["path"],
        record["size"],
        record["mtime"],
        record["deleted_at"],
        record["deleted_at_ground"] not in (None, "freed"),
        record["grade"],
        tuple(reason["text"] for reason in record["reasons"]),
    )


def _folder_of(output: str | None) -> str:
    """The topmost folder of an output path; below `carved`, the top two (`carved/KIND`)."""
    parts = (output or NOT_WRITTEN).split("/")
    return "/".join(parts[: 2 if parts[0] == "carved" else 1])


def folder_kind(name: str) -> str:
    """The name of a folder without what it got where its own was in use, as in `files~`."""
    return "/".join(part.rstrip("~") for part in name.split("/"))


def _why(record: RecoveredFile) -> str:
    """The main reason of a record, worded for several files."""
    codes = [reason["code"] for reason in record["reasons"]]
    if failed := [code for code in codes if code in _FAILURES]:
        return _PLAIN[failed[0]]
    if record["blocks_reused"]:
        return _REUSED[record["blocks_reused"] < record["blocks"]]
    code = codes[0] if codes else ""
    return _PLAIN.get(code) or _SENTENCES.get(code, _NO_REASON)
