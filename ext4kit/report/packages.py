"""Packages and what differs from them, as lines and as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

import numpy as np

from ext4kit import fields
from ext4kit.fields import json_name, of_root
from ext4kit.grades import Grade
from ext4kit.packages.checking import STATUSES, FileStatus, PackageCheck
from ext4kit.packages.database import PackageDatabase
from ext4kit.packages.findings import (
    NORMAL,
    PackageFinding,
    PackageFindingKind,
    PackageFindings,
)
from ext4kit.packages.foreign import ForeignFile
from ext4kit.packages.owned import PackageSystem
from ext4kit.recovery import DeletedFile
from ext4kit.report.phrases import command_text, count_text
from ext4kit.report.safe import printable_text, shown
from ext4kit.report.tables import human_size, table_lines, wrapped
from ext4kit.report.times import time_text

_HEADINGS = ("what", "changed", "transaction", "package", "path")
_LIST_HEADINGS = ("paths", "system", "version", "package")
_OWNER_HEADINGS = ("status", "package", "path")
_GENERATED_HEADINGS = ("reason", "path")


class PackageRecord(fields.OfRoot):
    """An installed package (`packages --list`)."""

    record: Literal["package"]
    system: PackageSystem
    name: str
    version: str
    architecture: str
    installed: Annotated[int | None, "Time of the installation, ns; null where it is not known."]
    paths: Annotated[int, ("minimum", 0), "Paths that it owns."]


class OriginalFacts(TypedDict):
    """Deleted content that is what the package installed."""

    inode: fields.Inode | None
    grade: Grade
    earlier: Annotated[bool, "Whether it is an earlier version of a file."]


class PackageDifferenceRecord(fields.OfRoot, fields.PathText):
    """A file that differs from what a package installed, or that none did (`packages`)."""

    record: Literal["package difference"]
    kind: Annotated[PackageFindingKind, "In what it differs."]
    package: Annotated[str, "Name and version of the owner; empty without one."]
    inode: fields.Inode | None
    ctime: Annotated[int | None, "Time of the last change of the inode, ns."]
    transaction: Annotated[int | None, "Last transaction that shows such a change."]
    time: Annotated[int | None, "Its commit time, ns."]
    exact: Annotated[
        bool, "Whether it happened in this transaction, not perhaps in an earlier one."
    ]
    expected: Annotated[str, "What the list says; empty where it says nothing."]
    found: Annotated[str, "What the disk has, or why a list is doubtful."]
    original: Annotated[OriginalFacts | None, "Deleted content that is the packaged one."]


class PackagedFileRecord(fields.OfRoot, fields.PathText):
    """A path and the packages that own it (`packages --owner`, `packages --all`)."""

    record: Literal["packaged file"]
    packages: Annotated[list[str], "Names and versions of its owners."]
    status: Annotated[FileStatus | None, "What became of it; null without an owner."]
    reason: Annotated[str, "Why it is normal that no package owns it; empty for none."]


class PackagesSummary(fields.OfRoot):
    """How the files of packages compare (`packages`)."""

    record: Literal["summary"]
    distribution: Annotated[str, "As the system names itself; empty where it does not."]
    systems: Annotated[list[PackageSystem], "What keeps the databases of packages."]
    packages: Annotated[int, ("minimum", 0), "Installed packages."]
    paths: Annotated[dict[str, int], "Paths that they own, by what became of them."]
    differences: Annotated[dict[str, int], "Differences by kind."]
    generated: Annotated[dict[str, int], "Files without an owner that are normal, by reason."]
    read: Annotated[int, ("minimum", 0), "Files that were hashed."]
    read_bytes: Annotated[int, ("minimum", 0), "Bytes of these."]


@dataclass(frozen=True, slots=True)
class OwnerAnswer:
    """A path and its owners.

    Attributes:
        packages: names and versions.
        status: None without an owner.
    """

    path: bytes
    packages: tuple[str, ...]
    status: FileStatus | None
    reason: str = ""


def owner_answers(check: PackageCheck, paths: Iterable[bytes]) -> list[OwnerAnswer]:
    """The owners of some paths."""
    foreign = {one.path: one.reason for one in check.foreign}
    return [_answer(check, path, foreign.get(check.tree.place(path), "")) for path in paths]


def _answer(check: PackageCheck, path: bytes, reason: str) -> OwnerAnswer:
    rows = check.rows_of(path)
    owners = (check.database.packages[int(check.database.paths.package[row])] for row in rows)
    return OwnerAnswer(
        path, tuple(dict.fromkeys(one.title for one in owners)), check.status_of(path), reason
    )


def package_records(database: PackageDatabase, root: str = "") -> Iterator[PackageRecord]:
    """The packages as records.

    Args:
        database: the packages.
        root: name of the Linux root that has them; "" for the image itself.
    """
    counts = np.bincount(database.paths.package, minlength=len(database.packages)).tolist()
    for one, count in zip(database.packages, counts, strict=False):
        yield {
            "record": "package",
            **of_root(root),
            "system": one.system,
            "name": one.name,
            "version": one.version,
            "architecture": one.architecture,
            "installed": one.installed,
            "paths": count,
        }


def package_list_lines(database: PackageDatabase) -> Iterator[str]:
    """A table of the packages."""
    counts = np.bincount(database.paths.package, minlength=len(database.packages)).tolist()
    rows = [
        (f"{count:,}", one.system, printable_text(one.version), printable_text(one.name))
        for one, count in zip(database.packages, counts, strict=False)
    ]
    yield from (*table_lines(_LIST_HEADINGS, rows, right={0}), "") if rows else ()
    yield _packages_text(database)


def owner_records(answers: Iterable[OwnerAnswer], root: str = "") -> Iterator[PackagedFileRecord]:
    """Paths with their owners as records.

    Args:
        answers: the paths.
        root: name of the Linux root that has them; "" for the image itself.
    """
    for one in answers:
        yield {
            "record": "packaged file",
            **of_root(root),
            **json_name(one.path),
            "packages": list(one.packages),
            "status": one.status,
            "reason": one.reason,
        }


def owner_lines(answers: Sequence[OwnerAnswer]) -> Iterator[str]:
    """Paths with their owners as a table."""
    rows = [
        (one.status or one.reason or "no owner", printable_text(", ".join(one.packages)),
         shown(one.path))
        for one in answers
    ]  # fmt: skip
    yield from table_lines(_OWNER_HEADINGS, rows)


def difference_records(
    found: PackageFindings, is_all: bool
) -> Iterator[PackageDifferenceRecord | PackagedFileRecord | PackagesSummary]:
    """The differences, with `is_all` also normal ones and all paths; then the summary."""
    root, check = found.system.name, found.check
    for one in _listed(found, is_all):
        yield _difference_record(one, root)
    if is_all:
        yield from owner_records(_every(check), root)
    statuses = Counter(STATUSES[code] for code in check.checked.status.tolist())
    yield {
        "record": "summary",
        **of_root(root),
        "distribution": found.database.distribution,
        "systems": list(check.database.systems),
        "packages": len(check.database.packages),
        "paths": {str(each): statuses[each] for each in STATUSES if statuses[each]},
        "differences": {str(kind): count for kind, count in _counts(found).items()},
        "generated": dict(Counter(one.reason for one in check.foreign if one.reason)),
        "read": check.hashed,
        "read_bytes": check.hashed_bytes,
    }


def _every(check: PackageCheck) -> Iterator[OwnerAnswer]:
    for path in check.rows_at:
        yield _answer(check, path, "")
    for one in _generated(check):
        yield OwnerAnswer(one.path, (), None, one.reason)


def _generated(check: PackageCheck) -> list[ForeignFile]:
    return [one for one in check.foreign if one.reason]


def _listed(found: PackageFindings, is_all: bool) -> list[PackageFinding]:
    return [one for one in found.each if is_all or one.kind not in NORMAL]


def _counts(found: PackageFindings) -> dict[PackageFindingKind, int]:
    counts = Counter(one.kind for one in found.each)
    return {kind: counts[kind] for kind in PackageFindingKind if counts[kind]}


def _difference_record(one: PackageFinding, root: str) -> PackageDifferenceRecord:
    return {
        "record": "package difference",
        **of_root(root),
        "kind": one.kind,
        **json_name(one.path),
        "package": one.package,
        "inode": one.inode,
        "ctime": one.ctime,
        "transaction": one.transaction,
        "time": one.time,
        "exact": one.is_exact,
        "expected": one.expected,
        "found": one.found,
        "original": None if one.original is None else _original_facts(one.original),
    }


def _original_facts(file: DeletedFile) -> OriginalFacts:
    return {"inode": file.number, "grade": file.grade, "earlier": file.superseded}


def difference_lines(found: PackageFindings, is_all: bool, image: object) -> Iterator[str]:
    """The differences as a table, where their originals are, and the numbers."""
    listed = _listed(found, is_all)
    rows = [
        (one.kind, "" if one.ctime is None else time_text(one.ctime),
         _transaction(one), printable_text(one.package),
         shown(one.path) + _details(one))
        for one in listed
    ]  # fmt: skip
    yield from (*table_lines(_HEADINGS, rows, right={2}), "") if rows else ()
    if is_all and (generated := _generated(found.check)):
        table = [(one.reason, shown(one.path)) for one in generated]
        yield from (*table_lines(_GENERATED_HEADINGS, table), "")
    originals = list(wrapped(_original_lines(listed, image)))
    yield from (*originals, "") if originals else ()
    yield from wrapped(_total_lines(found))


def _transaction(one: PackageFinding) -> str:
    if one.transaction is None:
        return ""
    return f"{'' if one.is_exact else '<='}{one.transaction}"


def _details(one: PackageFinding) -> str:
    kind = one.kind
    if kind in (PackageFindingKind.MODE, PackageFindingKind.OWNER):
        expected = f", not {one.expected}" if one.expected else ""
        return f"  [{one.found}{expected}]"
    if kind is PackageFindingKind.FOREIGN and one.found:
        return f" -> {printable_text(one.found)}"
    return f"  [{printable_text(one.found)}]" if kind is PackageFindingKind.LIST else ""


def _original_lines(listed: Iterable[PackageFinding], image: object) -> Iterator[str]:
    for one in listed:
        if (file := one.original) is None:
            continue
        what = "an earlier version" if file.superseded else "a deleted file"
        words = ["--inode", str(file.number), *(["--versions"] if file.superseded else [])]
        command = command_text("recover", image, *words, "-o", "OUT")
        yield (
            f"the original of {shown(one.path)} is {what}, {file.grade},"
            f" inode {file.number}: {command}"
        )


def _packages_text(database: PackageDatabase) -> str:
    systems = ", ".join(database.systems)
    name = printable_text(database.distribution) or "a system without a name"
    if not database.systems:
        return f"{name}: no database of packages"
    return f"{name}: {count_text(len(database.packages), 'package')} ({systems})"


def _total_lines(found: PackageFindings) -> Iterator[str]:
    check = found.check
    statuses = Counter(STATUSES[code] for code in check.checked.status.tolist())
    total = _packages_text(found.database)
    if not check.database.packages:
        yield total
        return
    paths = f"{len(check.checked):,} paths"
    read = f"{check.hashed:,} files with {human_size(check.hashed_bytes)} were read"
    yield f"{total}, {paths}; {read}"
    text = ", ".join(f"{statuses[status]:,} {status}" for status in STATUSES if statuses[status])
    yield f"paths: {text}"
    counts = _counts(found)
    parts = [f"{count:,} {kind}" for kind, count in counts.items()]
    yield f"differences: {', '.join(parts) or 'none'}"
    generated = Counter(one.reason for one in check.foreign if one.reason)
    if generated:
        parts = [f"{count:,} {reason}" for reason, count in generated.most_common()]
        yield f"files without an owner that are normal: {', '.join(parts)}"
