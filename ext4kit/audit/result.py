"""The result of an audit of a log: findings, verdict counts by part, gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import numpy as np

from ext4kit import fields
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s
from ext4kit.journal.log import Log
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.problems import Severity
from ext4kit.units import TransactionId


class Part(StrEnum):
    """A part of the log that gets a verdict."""

    SUPERBLOCK = "journal superblock"
    DESCRIPTOR = "descriptor block"
    COPY = "copy"
    REVOKE = "revoke block"
    COMMIT = "commit block"
    TRANSACTION = "transaction"  # checksum v1
    FAST_COMMIT = "fast-commit block"


class Verdict(StrEnum):
    """The result of the audit for a part."""

    OK = "ok"
    BAD = "bad"
    UNCHECKED = "cannot be checked"
    OVERWRITTEN = "overwritten"  # overwritten by a newer lap, as expected


VERDICTS = tuple(Verdict)
PARTS = tuple(Part)
OK, BAD, UNCHECKED, OVERWRITTEN = range(4)  # codes of verdicts in columns


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One defect of the log.

    Attributes:
        code: stable code of the finding.
        severity: its severity.
        transaction: stored tid of the affected transaction, None for the log as a whole.
        log_block: log block, None for the log as a whole.
        fs_block: that block's number in the file system, or on the external journal.
        byte_offset: offset of the damaged byte if it is known, else of the block, in the file
            system or on the external journal.
        target: home block of a copy.
        read: the value found.
        expected: the correct value.
        meaning: the consequence.
    """

    code: str
    severity: Annotated[Severity, "Severity of the finding."]
    transaction: Annotated[TransactionId | None, "Id of a transaction."]
    log_block: fields.LogBlock | None
    fs_block: int | None
    byte_offset: int | None
    target: Annotated[int | None, "Home block of the copy."]
    read: str
    expected: str
    meaning: str


@dataclass(slots=True)
class AuditFindings:
    """A bounded collector: keeps the first `limit` findings and counts the rest."""

    limit: int = 10_000
    kept: list[AuditFinding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    wrong: int = 0

    def add(self, finding: AuditFinding) -> None:
        """Record one finding."""
        self.count(finding.code, finding.severity, 1)
        if self.room:
            self.kept.append(finding)

    def count(self, code: str, severity: Severity, number: int) -> None:
        """Count findings that are not kept."""
        self.counts[code] = self.counts.get(code, 0) + number
        self.wrong += number * (severity is not Severity.NOTE)

    @property
    def room(self) -> int:
        """Number of findings that can still be kept."""
        return max(self.limit - len(self.kept), 0)


@dataclass(slots=True)
class VerdictCounts:
    """Number of each verdict for each part."""

    counts: dict[Part, list[int]] = field(default_factory=dict)

    def add(self, part: Part, verdicts: Int64s) -> None:
        """Count verdicts (indices into `VERDICTS`)."""
        have = self.counts.setdefault(part, [0] * len(VERDICTS))
        for verdict, number in enumerate(np.bincount(verdicts, minlength=len(VERDICTS)).tolist()):
            have[verdict] += number

    def of(self, part: Part, verdict: Verdict) -> int:
        """Number of blocks of one part with one verdict."""
        return self.counts.get(part, [0] * len(VERDICTS))[VERDICTS.index(verdict)]


@dataclass(frozen=True, slots=True)
class TidGap:
    """Transaction ids missing between two neighbours: the kernel started the log again there.

    A clean unmount skips one id, a recovery one or two. Mounts without a change skip more.

    Attributes:
        after: the id before the gap.
        before: the id after the gap.
        log_block: first log block of the transaction after the gap.
    """

    after: TransactionId
    before: TransactionId
    log_block: fields.LogBlock


@dataclass(frozen=True, slots=True)
class Verdicts(Table):
    """Verdicts on single blocks of the log, by part and position.

    Attributes:
        part: index into `Part`.
        position: log block.
        order: tid.
        target: home block of a copy, else -1.
        verdict: index into `Verdict`.
    """

    part: Int64s
    position: Int64s
    order: Int64s
    target: Int64s
    verdict: Int64s


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        findings: the defects.
        tally: verdict counts by part.
        log: the log as read, with a changed bit in its superblock repaired; None when it cannot be
            used.
        gaps: missing transaction ids.
        verdicts: the verdicts on single blocks.
        replayed: the file system's blocks after a recovery; None when no recovery is possible.
    """

    findings: AuditFindings
    tally: VerdictCounts
    log: Log | None = None
    gaps: tuple[TidGap, ...] = ()
    verdicts: Verdicts | None = None
    replayed: ReplayedBlocks | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the log was read and has no defect; notes do not count."""
        return self.log is not None and not self.findings.wrong
