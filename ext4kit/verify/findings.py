"""Codes of all findings of verify, and a bounded collector with exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias, TypedDict

import numpy as np

from ext4kit import fields
from ext4kit.arrays.types import Bools, Keys, Rows
from ext4kit.problems import Severity

# One text for all rows, texts or numbers by row, or a function that gives the text of a row.
Words: TypeAlias = str | Sequence[str] | Keys | Callable[[int], str]

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
KEPT_EACH = 100  # findings of one code that are kept in full


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding.

    Attributes:
        severity: a note does not change the exit code, and is no error for e2fsck either.
        meaning: consequence for the evidence.
    """

    severity: Severity
    meaning: str


_CHANGED = "the bytes do not match the checksum: media damage or a change by other software"
_HALF_DONE = "an operation was interrupted, or other software changed one side"
_READ_ELSE = "the kernel and other readers may interpret it differently; the content is uncertain"

CODES: dict[str, Code] = {
    # -- checksums
    "superblock-checksum": Code(ERROR, _CHANGED + "; the kernel does not mount it"),
    "backup-superblock-checksum": Code(ERROR, _CHANGED + "; do not repair from this copy"),
    "descriptor-checksum": Code(
        ERROR, _CHANGED + "; the location of the group's bitmaps is uncertain"
    ),
    "block-bitmap-checksum": Code(ERROR, _CHANGED + "; which blocks are free is uncertain"),
    "inode-bitmap-checksum": Code(ERROR, _CHANGED + "; which inodes are free is uncertain"),
    "inode-checksum": Code(ERROR, _CHANGED + "; all fields of the inode are uncertain"),
    "extent-checksum": Code(ERROR, _CHANGED + "; the location of the file's content is uncertain"),
    "directory-checksum": Code(ERROR, _CHANGED + "; the names in this block are uncertain"),
    "directory-no-checksum": Code(ERROR, "the tail with the block's checksum is missing"),
    "htree-checksum": Code(ERROR, _CHANGED + "; an index lookup may miss names"),
    "xattr-checksum": Code(ERROR, _CHANGED + "; the attributes in this block are uncertain"),
    "mmp-checksum": Code(ERROR, _CHANGED + "; which host mounted it last is uncertain"),
    "orphan-file-checksum": Code(ERROR, _CHANGED + "; which inodes were orphans is uncertain"),
    "journal-superblock-checksum": Code(
        ERROR, _CHANGED + "; the kernel does not replay the journal"
    ),
    # -- superblock and groups
    "superblock-invalid": Code(ERROR, "the kernel does not accept these values"),
    "superblock-unusable": Code(ERROR, "the primary superblock is unusable; a backup was used"),
    "superblock-free-blocks": Code(
        NOTE, "the total was not updated: not unmounted cleanly, or changed by other software"
    ),
    "superblock-free-inodes": Code(
        NOTE, "the total was not updated: not unmounted cleanly, or changed by other software"
    ),
    "superblock-errors": Code(NOTE, "the kernel recorded errors in this file system"),
    "backup-superblock-missing": Code(NOTE, "the block of a backup holds no superblock"),
    "backup-superblock-differs": Code(NOTE, "the copy is from another state or was changed"),
    "backup-descriptors-differ": Code(NOTE, "the copy is from another state or was changed"),
    "descriptor-place": Code(
        ERROR, "the bitmaps or the inode table cannot be at the stored location"
    ),
    "descriptor-flags": Code(ERROR, "whether the group's bitmaps were ever written is uncertain"),
    "descriptor-flags-unused": Code(NOTE, "no enabled feature defines these flags"),
    "descriptor-unused-inodes": Code(
        ERROR, "the count of unused inodes exceeds the inodes of the group"
    ),
    "evidence-short": Code(ERROR, "structures beyond the end of the evidence cannot be checked"),
    "metadata-unreadable": Code(ERROR, "the content cannot be checked"),
    # -- usage
    "block-bitmap-marked": Code(
        WARNING, "no inode maps these blocks; they may hold data of deleted files"
    ),
    "block-bitmap-unmarked": Code(
        ERROR, "the next write may overwrite file content in these blocks"
    ),
    "inode-bitmap-marked": Code(WARNING, "only the bitmap marks the inode as used: " + _HALF_DONE),
    "inode-bitmap-unmarked": Code(ERROR, "the next new file may reuse this inode"),
    "bitmap-padding": Code(WARNING, "bits beyond the end of the group must be set"),
    "group-free-blocks": Code(WARNING, "the count of the group differs from the actual usage"),
    "group-free-inodes": Code(WARNING, "the count of the group differs from the actual usage"),
    "group-directories": Code(WARNING, "the count of the group differs from the actual usage"),
    "block-claimed-twice": Code(
        ERROR, "two owners map the block; it holds the content of one at most"
    ),
    "cluster-misaligned": Code(ERROR, "file blocks are at a wrong offset within their cluster"),
    # -- inodes
    "inode-type": Code(ERROR, "the kernel never writes this: " + _READ_ELSE),
    "inode-deleted-no-dtime": Code(
        WARNING, "freed, but not cleared as the kernel does on deletion"
    ),
    "inode-orphan-waiting": Code(WARNING, "unlinked while open; the next mount would free it"),
    "inode-dtime": Code(ERROR, "has links and a deletion time: " + _HALF_DONE),
    "inode-orphan": Code(
        WARNING, "`i_dtime` looks like an orphan list link, but the list does not reach it"
    ),
    "inode-size": Code(ERROR, "the length of the content is uncertain"),
    "inode-blocks": Code(ERROR, "the block count differs from the block map"),
    "inode-flags": Code(ERROR, _READ_ELSE),
    "inode-field": Code(ERROR, "must be zero; hidden data or damage"),
    "inode-extra-size": Code(ERROR, "the start of the attributes in the inode is uncertain"),
    "inode-device": Code(ERROR, "the inode of a special file holds more than a device number"),
    "inode-symlink": Code(ERROR, "the target of the link is uncertain"),
    "inode-map": Code(ERROR, "part of the content cannot be reached through the map"),
    "inode-inline": Code(ERROR, "the inline content is uncertain"),
    "reserved-inode": Code(ERROR, _READ_ELSE),
    "reserved-inode-left": Code(NOTE, "in use, although no enabled feature uses it"),
    "root-inode": Code(ERROR, "no path can be resolved without it"),
    # -- extents
    "extent-header": Code(ERROR, "part of the block map is lost"),
    "extent-order": Code(ERROR, "the position of blocks within the file is uncertain"),
    "extent-range": Code(ERROR, "the map points outside the file system"),
    "extent-length": Code(ERROR, "the kernel never writes an extent of length 0"),
    "extent-index": Code(ERROR, "index entry and child block disagree; content may be missed"),
    "extent-loop": Code(ERROR, "the tree has a loop or shares a block"),
    "extent-unwritten-directory": Code(
        ERROR, "the kernel reads unwritten blocks as zeros; their names are lost"
    ),
    # -- directories
    "directory-corrupted": Code(ERROR, "entries after this offset cannot be read"),
    "directory-hole": Code(ERROR, "a directory block is missing"),
    "directory-unreadable": Code(ERROR, "the names in this block cannot be checked"),
    "directory-dot": Code(ERROR, "the entry `.` or `..` is wrong"),
    "directory-parent": Code(
        ERROR, "`..` does not match the path: moved, or changed by other software"
    ),
    "directory-unconnected": Code(ERROR, "no path leads to this directory and its content"),
    "directory-linked-twice": Code(ERROR, "two paths lead to the same directory"),
    "directory-deep": Code(
        WARNING, "its path is longer than 16 KiB: other commands list nothing below it"
    ),
    "entry-inode": Code(ERROR, "the entry names an impossible inode number"),
    "entry-unused-inode": Code(
        ERROR, "the entry remained after its file was deleted, or the inode was wiped"
    ),
    "entry-file-type": Code(ERROR, "the file type of the entry differs from that of the inode"),
    "entry-no-file-type": Code(NOTE, "the entry stores no file type"),
    "entry-name": Code(ERROR, "the kernel can neither create nor look up this name"),
    "entry-duplicate": Code(ERROR, "one of the two files cannot be reached by name"),
    "entry-unencrypted": Code(
        ERROR, "the kernel creates no unencrypted file in an encrypted directory"
    ),
    "entry-value-inode": Code(ERROR, "the inode holds an attribute value and is not a file"),
    # -- htree
    "htree-root": Code(ERROR, "names are found only by a linear scan of the directory"),
    "htree-node": Code(ERROR, "an index lookup may miss names below this node"),
    "htree-order": Code(ERROR, "an index lookup may miss names in this block"),
    "htree-unreferenced": Code(ERROR, "an index lookup does not find names in this block"),
    # -- links
    "link-count": Code(ERROR, "the link count differs from the number of directory entries"),
    "inode-unattached": Code(ERROR, "in use without a name: an orphan, or its entry was wiped"),
    # -- extended attributes
    "xattr-block": Code(ERROR, "the attributes in this block are uncertain"),
    "xattr-entry": Code(ERROR, "the name or the value of an attribute is uncertain"),
    "xattr-hash": Code(ERROR, "the attribute was changed, but not its hash"),
    "xattr-references": Code(ERROR, "the reference count differs from the number of references"),
    "xattr-value-inode": Code(ERROR, "the value of the attribute is uncertain"),
    "encryption-context": Code(ERROR, "without it the content cannot be decrypted"),
    # -- others
    "mmp-block": Code(ERROR, "multiple mount protection does not work"),
    "mmp-in-use": Code(ERROR, "mounted or being checked when the image was acquired"),
    "journal-inode": Code(ERROR, "the journal cannot be found through its inode"),
    "journal-superblock": Code(ERROR, "the journal cannot be used"),
    "journal-unexpected": Code(
        NOTE, "the superblock names a journal, but `has_journal` is not set"
    ),
    "journal-device": Code(NOTE, "the journal is on another device and was not checked"),
    "orphan-list": Code(ERROR, "a mount would free the wrong inodes"),
    "orphan-file": Code(ERROR, "a mount would free the wrong inodes"),
    "resize-inode": Code(ERROR, "growing the file system would overwrite other blocks"),
    "quota-file": Code(ERROR, "the recorded usage cannot be read"),
    "quota-usage": Code(ERROR, "the recorded usage differs from that of the files"),
}


class FindingFacts(TypedDict):
    """A finding in records."""

    code: str
    severity: Annotated[Severity, "Severity of the finding."]
    structure: str
    inode: fields.Inode | None
    group: int | None
    block: int | None
    byte: int | None
    read: str
    expected: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the check, at one place.

    Attributes:
        code: key of `CODES`.
        structure: the structure with the error, in ext4 terms ("inode", "extent block").
        inode: the inode that the finding concerns, or None.
        group: the block group, or None.
        block: the block of the file system, or None.
        byte: the byte offset in the volume, or None.
        read: stored value.
        expected: correct value.
    """

    code: str
    structure: str
    inode: int | None = None
    group: int | None = None
    block: int | None = None
    byte: int | None = None
    read: str = ""
    expected: str = ""

    @property
    def severity(self) -> Severity:
        """Severity of the finding's code."""
        return CODES[self.code].severity

    @property
    def meaning(self) -> str:
        """Meaning of the finding's code."""
        return CODES[self.code].meaning

    def as_record(self) -> FindingFacts:
        """The finding as plain JSON values."""
        return {
            "code": self.code,
            "severity": self.severity,
            "structure": self.structure,
            "inode": self.inode,
            "group": self.group,
            "block": self.block,
            "byte": self.byte,
            "read": self.read,
            "expected": self.expected,
            "meaning": self.meaning,
        }


@dataclass(slots=True)
class Findings:
    """Collects the first findings of each code in full, and the number of all findings."""

    kept: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(
        self, code: str, structure: str, read: str = "", expected: str = "", /, **where: int
    ) -> None:
        """Record a finding; `where` gives the other attributes of `Finding`."""
        self.counts[code] = self.counts.get(code, 0) + 1
        if self.counts[code] <= KEPT_EACH:
            self.kept.append(Finding(code, structure, read=read, expected=expected, **where))

    def room(self, code: str) -> int:
        """Number of findings of a code that can still be kept."""
        return max(KEPT_EACH - self.counts.get(code, 0), 0)

    def count(self, code: str, number: int) -> None:
        """Count findings that are not kept."""
        if number > 0:
            self.counts[code] = self.counts.get(code, 0) + number

    def shown(self, code: str, rows: Rows | Bools) -> Iterator[int]:
        """The row numbers whose findings can be kept; the other rows are only counted.

        Args:
            code: key of `CODES`.
            rows: row numbers or a mask.
        """
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        room = self.room(code)
        yield from rows[:room].tolist()
        self.count(code, len(rows) - room)

    def take(self, others: Findings) -> None:
        """Append the findings of another collector."""
        room = {code: self.room(code) for code in others.counts}
        for finding in others.kept:
            if room[finding.code]:
                room[finding.code] -= 1
                self.kept.append(finding)
        for code, number in others.counts.items():
            self.count(code, number)

    @property
    def wrong(self) -> int:
        """Number of findings except notes."""
        return sum(
            number
            for code, number in self.counts.items()
            if CODES[code].severity is not Severity.NOTE
        )


def text_of(words: Words, row: int) -> str:
    """The text of a row."""
    if isinstance(words, str):
        return words
    value = words(row) if callable(words) else words[row]
    return value if isinstance(value, str) else f"{int(value):,}"
