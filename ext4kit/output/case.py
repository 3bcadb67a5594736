"""case.json: operator, action, evidence, time, tool and result of one command."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from ext4kit import __version__
from ext4kit.evidence import Evidence
from ext4kit.evidence.hashing import Hashes, hash_evidence, hash_files
from ext4kit.evidence.identity import Identity, identity, mismatches
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.recorded import (
    Comparison,
    ComparisonFacts,
    compare,
    find_recorded,
    is_plain,
    unproved_files,
)
from ext4kit.fields import Digests, Record, Sha256, VolumeFacts
from ext4kit.output.manifest import MANIFEST
from ext4kit.output.new_file import whole_file
from ext4kit.output.pouring import write_all
from ext4kit.output.renaming import sync_file_system
from ext4kit.problems import Problem, ProblemFacts
from ext4kit.units import Progress
from ext4kit.versions import library_versions

_MOST_RANGES = 1000
_COUNT = {
    "type": ["integer", "string", "object", "null"],
    "additionalProperties": {"type": "integer"},
}


class CheckedFile(TypedDict):
    """The hashes of one evidence file."""

    path: str
    before: Digests
    after: Digests | None
    unreadable_bytes: int


class CheckFacts(TypedDict):
    """The hashes of the evidence before and after the work."""

    files: list[CheckedFile]
    unchanged: Annotated[
        bool | None,
        "True if the hashes before and after are equal; null if the evidence was not hashed again.",
    ]
    disk: Digests | None
    as_stored: Annotated[
        bool | None,
        "True if the disk matches the stored hashes; null if the "
        "container stores no hash of the disk.",
    ]
    recorded: Annotated[list[ComparisonFacts], "Hashes in files beside the image."]


class EvidenceCheckRecord(CheckFacts):
    """The hashes of the evidence before and after the work (--verify-evidence)."""

    record: Literal["evidence check"]


class Tool(TypedDict):
    """Program that did the work."""

    name: str
    version: str


class System(TypedDict):
    """System on which it ran."""

    python: str
    platform: str


class CaseVolume(VolumeFacts):
    """A volume, and whether it was examined."""

    worked_on: bool


class NotRead(TypedDict):
    """Bytes of the disk that are known to be missing or unreadable."""

    bytes: int
    ranges: Annotated[list[tuple[int, int]], "[start, end) each, the first of them."]
    ranges_in_all: int


class CaseOutput(TypedDict):
    """A file in the same folder as the record."""

    path: str
    size: int
    sha256: Sha256


class CaseFacts(TypedDict):
    """Facts known before the outputs are examined."""

    record: Literal["case"]
    state: Literal["complete", "incomplete"]
    reason: Annotated[str | None, "Why the command did not finish; null if it finished."]
    tool: Tool
    libraries: dict[str, str]
    system: System
    command: list[str]
    directory: str
    operator: str | None
    case_number: str | None
    started: str
    ended: str
    evidence: Identity
    locator: Annotated[str, "The address of the file system and of its state, in one line."]
    evidence_check: CheckFacts | None
    volumes: list[CaseVolume]
    counts: Annotated[Record, ("additionalProperties", _COUNT)]
    not_read: NotRead
    errors: int
    problems: Annotated[list[ProblemFacts], "Problems found during the work."]


class CaseRecord(CaseFacts):
    """case.json of an output folder: operator, action, evidence, tool and result of a command."""

    outputs: list[CaseOutput]


@dataclass(slots=True)
class EvidenceCheck:
    """The hashes of the evidence files before and after the work.

    Attributes:
        before: by file.
        after: by file; empty until the second hashing.
        disk: hash of the disk in a container or a split image if a hash of it is stored or
            recorded, else None.
        recorded: hashes in files beside the image, compared.
        unproved: files for which none is recorded, where others match.
    """

    before: dict[Path, Hashes]
    after: dict[Path, Hashes] = field(default_factory=dict)
    disk: Hashes | None = None
    recorded: tuple[Comparison, ...] = ()
    unproved: tuple[Path, ...] = ()

    @property
    def changed(self) -> tuple[Path, ...]:
        """Files whose hashes differ; all files were hashed twice."""
        return tuple(path for path, hashes in self.after.items() if hashes != self.before[path])

    def record(self, stored: dict[str, str]) -> CheckFacts:
        """The check as plain JSON values; `unchanged` is None when it was not finished."""
        disk = self.disk
        return {
            "files": [
                {
                    "path": str(path),
                    "before": hashes.digests,
                    "after": self.after[path].digests if path in self.after else None,
                    "unreadable_bytes": sum(each.length for each in hashes.unreadable),
                }
                for path, hashes in self.before.items()
            ],
            "unchanged": not self.changed if self.after else None,
            "disk": disk.digests if disk else None,
            "as_stored": not mismatches(stored, disk.digests) if disk and stored else None,
            "recorded": [each.as_facts() for each in self.recorded],
        }

    def as_record(self, stored: dict[str, str]) -> EvidenceCheckRecord:
        """The check as a separate record."""
        return {"record": "evidence check", **self.record(stored)}


@dataclass(slots=True)
class Case:
    """The record of one run of a command.

    Attributes:
        command: the arguments; they never include passphrases, only the files that contain them.
        evidence: the evidence.
        files: files of the evidence, including an external journal's.
        volume: number of the examined volume, None for none.
        locator: address of the examined file system, "" for none.
        operator: name of the operator, None if not given.
        case_number: of the case, None if not given.
        counts: result counts, set by the command.
        check: the hashes of the evidence, if requested.
    """

    command: tuple[str, ...]
    evidence: Evidence
    files: tuple[Path, ...]
    volume: int | None = None
    locator: str = ""
    operator: str | None = None
    case_number: str | None = None
    counts: Record = field(default_factory=dict)
    check: EvidenceCheck | None = None
    started: str = field(default_factory=lambda: _now())

    def hash_before(self, progress: Progress | None = None) -> None:
        """Hash the evidence before the work, and compare with what the acquisition recorded.

        Raises:
            AccessError: a file cannot be opened.
        """
        evidence, check = self.evidence, EvidenceCheck(hash_files(self.files, progress))
        recorded = find_recorded(evidence).hashes
        of_disk = any(each.file is None for each in recorded) and not is_plain(evidence)
        if evidence.hashes or of_disk:
            check.disk, _ = hash_evidence(evidence, volumes=False, progress=progress)
        disk = check.disk or check.before[evidence.path]
        check.recorded = tuple(compare(evidence, recorded, disk, check.before))
        if not evidence.hashes or mismatches(evidence.hashes, disk.digests):
            check.unproved = tuple(unproved_files(evidence, check.recorded))
        self.check = check

    def hash_after(self, progress: Progress | None = None) -> None:
        """Hash the evidence again, if it was hashed before."""
        if self.check is not None:
            self.check.after = hash_files(self.files, progress)

    def complaints(self) -> Iterator[str]:
        """Warnings from the hashes of the evidence, one per line."""
        if self.check is None:
            return
        for path in self.check.changed:
            then = self.check.before[path].digests["sha256"]
            now = self.check.after[path].digests["sha256"]
            yield f"{path}: CHANGED during the work: its SHA-256 was {then}, now it is {now}"
        stored = self.evidence.hashes
        disk: Record = self.check.disk.digests if self.check.disk else {}
        for name in mismatches(stored, disk):
            yield f"the disk's {name} is {disk[name]}, the container says {stored[name]}"
        yield from (each.complaint for each in self.check.recorded if not each.matches)

    def record(self, problems: list[Problem], errors: int, reason: str = "") -> CaseFacts:
        """All facts as plain JSON values.

        Args:
            problems: the kept problems.
            errors: number of all errors.
            reason: why the command did not finish; "" if it did.
        """
        return {
            "record": "case",
            "state": "incomplete" if reason else "complete",
            "reason": reason or None,
            "tool": {"name": "ext4kit", "version": __version__},
            "libraries": library_versions(),
            "system": {"python": platform.python_version(), "platform": platform.platform()},
            "command": ["ext4kit", *self.command],
            "directory": str(Path.cwd()),
            "operator": self.operator,
            "case_number": self.case_number,
            "started": self.started,
            "ended": _now(),
            "evidence": identity(self.evidence, self.files),
            "locator": self.locator,
            "evidence_check": self.check.record(self.evidence.hashes) if self.check else None,
            "volumes": [
                {**each.as_facts(), "worked_on": each.index == self.volume}
                for each in self.evidence.volumes
            ],
            "counts": self.counts,
            "not_read": _not_read(self.evidence),
            "errors": errors,
            "problems": [problem.as_record() for problem in problems],
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _not_read(evidence: Evidence) -> NotRead:
    """Bytes of the disk that are missing, damaged or were never acquired."""
    table = unreadable_ranges(evidence.source)
    return {
        "bytes": int((table[:, 1] - table[:, 0]).sum()),
        "ranges": table[:_MOST_RANGES].tolist(),
        "ranges_in_all": len(table),
    }


def write_case(path: Path, record: CaseFacts) -> None:
    """Write a case record atomically: complete or not at all.

    The record names the manifest in the same folder with its SHA-256. Before a record says that the
    work is complete, all of the folder is on the disk.

    Raises:
        OSError: it cannot be written.
    """
    manifest = path.parent / MANIFEST
    whole: CaseRecord = {**record, "outputs": []}
    if manifest.is_file():
        with manifest.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = manifest.stat().st_size
        whole["outputs"].append({"path": manifest.name, "size": size, "sha256": digest})
    if record["state"] == "complete":
        sync_file_system(path.parent)
    with whole_file(path) as handle:
        write_all(handle, f"{json.dumps(whole, indent=2)}\n".encode())
