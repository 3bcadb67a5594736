"""Codes of all findings of verify, and a bounded collector with exact counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from ext4kit import fields
from ext4kit.problems import Severity

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
KEPT_EACH = 100  # findings of one code that are kept in full


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding.

    Attributes:
        severity: a note is not an error for e2fsck either, and does not change the exit code.
        meaning: consequence for the evidence.
    """

    severity: Severity
    meaning: str


_CHANGED = "its bytes are not those that were written: a damaged medium, or a change from outside"
_HALF_DONE = "an operation stopped half way, or one side was changed from outside"
_READ_ELSE = "a kernel and other readers may take it differently; what it holds is in doubt"

CODES: dict[str, Code] = {
    # -- checksums
    "superblock-checksum": Code(ERROR, _CHANGED + "; no kernel would mount it"),
    "backup-superblock-checksum": Code(ERROR, _CHANGED + "; a repair must not go by this copy"),
    "descriptor-checksum": Code(ERROR, _CHANGED + "; where the group's bitmaps lie is in doubt"),
    "block-bitmap-checksum": Code(ERROR, _CHANGED + "; which blocks are free is in doubt"),
    "inode-bitmap-checksum": Code(ERROR, _CHANGED + "; which inodes are free is in doubt"),
    "inode-checksum": Code(ERROR, _CHANGED + "; everything the inode says is in doubt"),
    "extent-checksum": Code(ERROR, _CHANGED + "; where the file's content lies is in doubt"),
    "directory-checksum": Code(ERROR, _CHANGED + "; names in this block are in doubt"),
    "directory-no-checksum": Code(ERROR, "the tail that holds the block's checksum is gone"),
    "htree-checksum": Code(ERROR, _CHANGED + "; names may not be found by the index"),
    "xattr-checksum": Code(ERROR, _CHANGED + "; the attributes in this block are in doubt"),
    "mmp-checksum": Code(ERROR, _CHANGED + "; who had it mounted last is in doubt"),
    "orphan-file-checksum": Code(ERROR, _CHANGED + "; which inodes were orphans is in doubt"),
    "journal-superblock-checksum": Code(ERROR, _CHANGED + "; no kernel would replay the log"),
    # -- superblock and groups
    "superblock-invalid": Code(ERROR, "no kernel would take these numbers as they stand"),
    "superblock-unusable": Code(ERROR, "the primary superblock cannot be used; a backup was"),
    "superblock-free-blocks": Code(
        NOTE, "the total was not brought up to date: not unmounted cleanly, or changed"
    ),
    "superblock-free-inodes": Code(
        NOTE, "the total was not brought up to date: not unmounted cleanly, or changed"
    ),
    "superblock-errors": Code(NOTE, "the kernel saw errors in this file system"),
    "backup-superblock-missing": Code(NOTE, "there is no superblock where a backup should lie"),
    "backup-superblock-differs": Code(NOTE, "the copy is of another state, or was changed"),
    "backup-descriptors-differ": Code(NOTE, "the copy is of another state, or was changed"),
    "descriptor-place": Code(ERROR, "the group's bitmaps or inodes are looked for elsewhere"),
    "descriptor-flags": Code(ERROR, "whether the group's bitmaps were written is in doubt"),
    "descriptor-flags-unused": Code(NOTE, "no feature gives these flags a meaning"),
    "descriptor-unused-inodes": Code(ERROR, "more inodes are unused than the group has"),
    "evidence-short": Code(ERROR, "what lies behind the end of the evidence cannot be checked"),
    "metadata-unreadable": Code(ERROR, "what it holds cannot be checked"),
    # -- usage
    "block-bitmap-marked": Code(
        WARNING, "no inode maps these blocks; they may hold data of deleted files"
    ),
    "block-bitmap-unmarked": Code(ERROR, "the next write may overwrite what a file has there"),
    "inode-bitmap-marked": Code(WARNING, "the inode is in use to the bitmap alone: " + _HALF_DONE),
    "inode-bitmap-unmarked": Code(ERROR, "the next file may take this inode"),
    "bitmap-padding": Code(WARNING, "bits behind the group's end must be set"),
    "group-free-blocks": Code(WARNING, "the group's count does not fit what is in use"),
    "group-free-inodes": Code(WARNING, "the group's count does not fit what is in use"),
    "group-directories": Code(WARNING, "the group's count does not fit what is in use"),
    "block-claimed-twice": Code(ERROR, "one owner's content was overwritten by the other's"),
    "cluster-misaligned": Code(ERROR, "blocks of a file lie elsewhere in a cluster than they may"),
    # -- inodes
    "inode-type": Code(ERROR, "no kernel writes this: " + _READ_ELSE),
    "inode-deleted-no-dtime": Code(WARNING, "released, yet not wiped as a deletion would"),
    "inode-orphan-waiting": Code(WARNING, "unlinked while open; a mount would release it"),
    "inode-dtime": Code(ERROR, "deleted by its time, alive by its links: " + _HALF_DONE),
    "inode-orphan": Code(WARNING, "looks like a link of an orphan list that no list leads to"),
    "inode-size": Code(ERROR, "the length of the content is in doubt"),
    "inode-blocks": Code(ERROR, "the count of blocks does not fit the map"),
    "inode-flags": Code(ERROR, _READ_ELSE),
    "inode-field": Code(ERROR, "must be zero; hidden data, or damage"),
    "inode-extra-size": Code(ERROR, "where the inode's attributes begin is in doubt"),
    "inode-device": Code(ERROR, "a special file's inode holds more than a device number"),
    "inode-symlink": Code(ERROR, "where the link leads is in doubt"),
    "inode-map": Code(ERROR, "part of the content cannot be found by the map"),
    "inode-inline": Code(ERROR, "the content in the inode is in doubt"),
    "reserved-inode": Code(ERROR, _READ_ELSE),
    "reserved-inode-left": Code(NOTE, "in use, though no feature uses it"),
    "root-inode": Code(ERROR, "without it no path can be told"),
    # -- extents
    "extent-header": Code(ERROR, "a part of the file's map is gone"),
    "extent-order": Code(ERROR, "which block holds which part of the file is in doubt"),
    "extent-range": Code(ERROR, "content is looked for where the file system has no blocks"),
    "extent-length": Code(ERROR, "an extent of no blocks is never written"),
    "extent-index": Code(ERROR, "index and node below disagree: parts may not be found"),
    "extent-loop": Code(ERROR, "the tree runs in a circle or shares a node"),
    "extent-unwritten-directory": Code(ERROR, "names would read as nothing"),
    # -- directories
    "directory-corrupted": Code(ERROR, "names behind this place cannot be read"),
    "directory-hole": Code(ERROR, "a block of names is missing"),
    "directory-unreadable": Code(ERROR, "names in this block cannot be checked"),
    "directory-dot": Code(ERROR, "the directory's own entry or its parent's is wrong"),
    "directory-parent": Code(ERROR, "`..` leads elsewhere than the path: moved, or changed"),
    "directory-unconnected": Code(ERROR, "no path leads here: what is in it has no place"),
    "directory-linked-twice": Code(ERROR, "two paths lead to one directory"),
    "entry-inode": Code(ERROR, "the name leads to an inode that cannot be"),
    "entry-unused-inode": Code(ERROR, "the name outlived its file, or the inode was wiped"),
    "entry-file-type": Code(ERROR, "the name was given to another kind of file"),
    "entry-no-file-type": Code(NOTE, "the entry does not say what kind of file it names"),
    "entry-name": Code(ERROR, "no kernel can make or look up this name"),
    "entry-duplicate": Code(ERROR, "one of the two cannot be reached by name"),
    "entry-unencrypted": Code(ERROR, "a plain file in an encrypted directory: put there"),
    "entry-value-inode": Code(ERROR, "the inode holds an attribute's value and is no file"),
    # -- htree
    "htree-root": Code(ERROR, "names are found by reading the directory through alone"),
    "htree-node": Code(ERROR, "names below this node may not be found by the index"),
    "htree-order": Code(ERROR, "names in this block may not be found by the index"),
    "htree-unreferenced": Code(ERROR, "names in this block are not found by the index"),
    # -- links
    "link-count": Code(ERROR, "the count of names does not fit the names there are"),
    "inode-unattached": Code(ERROR, "in use and without a name: an orphan, or its name was wiped"),
    # -- extended attributes
    "xattr-block": Code(ERROR, "the attributes in this block are in doubt"),
    "xattr-entry": Code(ERROR, "an attribute's name or value is in doubt"),
    "xattr-hash": Code(ERROR, "the attribute was changed without its hash"),
    "xattr-references": Code(ERROR, "the count of inodes that share the block is wrong"),
    "xattr-value-inode": Code(ERROR, "the attribute's value is in doubt"),
    "encryption-context": Code(ERROR, "without it the content cannot be decrypted"),
    # -- others
    "mmp-block": Code(ERROR, "the protection against mounting twice does not work"),
    "mmp-in-use": Code(ERROR, "mounted, or being checked, when the image was made"),
    "journal-inode": Code(ERROR, "the log cannot be found by its inode"),
    "journal-superblock": Code(ERROR, "the log cannot be used as it stands"),
    "journal-unexpected": Code(NOTE, "there is a log that the feature bits do not mention"),
    "journal-device": Code(NOTE, "the log lies elsewhere and was not checked"),
    "orphan-list": Code(ERROR, "a kernel would release the wrong inodes at mount"),
    "orphan-file": Code(ERROR, "a kernel would release the wrong inodes at mount"),
    "resize-inode": Code(ERROR, "growing the file system would overwrite something"),
    "quota-file": Code(ERROR, "the recorded usage cannot be read"),
    "quota-usage": Code(ERROR, "the recorded usage does not fit the files"),
}


class FindingFacts(TypedDict):
    """A finding in records."""

    code: str
    severity: Annotated[Severity, "How bad it is."]
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
        inode: the inode that it belongs to, or None.
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
        """Severity of its code."""
        return CODES[self.code].severity

    @property
    def meaning(self) -> str:
        """Meaning of its code."""
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
    """The first findings of each code in full, and the number of all."""

    kept: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, structure: str, **where: Any) -> None:
        """Record a finding; `where` gives the other attributes of `Finding`."""
        self.counts[code] = self.counts.get(code, 0) + 1
        if self.counts[code] <= KEPT_EACH:
            self.kept.append(Finding(code, structure, **where))

    def room(self, code: str) -> int:
        """Number of findings of a code that can still be kept."""
        return max(KEPT_EACH - self.counts.get(code, 0), 0)

    def count(self, code: str, number: int) -> None:
        """Count findings that are not kept."""
        if number > 0:
            self.counts[code] = self.counts.get(code, 0) + number

    def add_rows(self, code: str, structure: str, rows: Any, **columns: Any) -> None:
        """Record a finding for each of the positions `rows`.

        Args:
            code: key of `CODES`.
            structure: the structure, in ext4 terms.
            rows: int64 positions.
            columns: array of an attribute, indexed by the positions; or one value for all.
        """
        shown = rows[: self.room(code)]
        for row in shown.tolist():
            self.add(code, structure, **{key: _at(value, row) for key, value in columns.items()})
        self.count(code, len(rows) - len(shown))

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
        """Number of findings that are more than notes."""
        return sum(
            number
            for code, number in self.counts.items()
            if CODES[code].severity is not Severity.NOTE
        )


def _at(value: Any, row: int) -> Any:
    if isinstance(value, str) or value is None or isinstance(value, int):
        return value
    if callable(value):
        return value(row)
    item = value[row]
    return item if isinstance(item, str) else int(item)
