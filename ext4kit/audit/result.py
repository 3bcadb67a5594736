"""What an audit of a log comes to: findings, verdicts counted by kind, gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import numpy as np

from ext4kit import fields
from ext4kit.journal.log import Log
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.problems import Severity
from ext4kit.units import TransactionId


class Part(StrEnum):
    """What gets a verdict."""

    SUPERBLOCK = "journal superblock"
    DESCRIPTOR = "descriptor block"
    COPY = "copy"
    REVOKE = "revoke block"
    COMMIT = "commit block"
    TRANSACTION = "transaction"  # checksum v1
    FAST_COMMIT = "fast-commit block"


class Verdict(StrEnum):
    """What the audit says of a part."""

    OK = "ok"
    BAD = "bad"
    UNCHECKED = "cannot be checked"
    OVERWRITTEN = "overwritten"  # a newer lap stands there, as it should


VERDICTS = tuple(Verdict)
PARTS = tuple(Part)
OK, BAD, UNCHECKED, OVERWRITTEN = range(4)  # in columns


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is wrong with the log.

    Attributes:
        code: names the kind of finding, stable.
        severity: how much it weighs.
        transaction: the id of the transaction that it hurts, None for the log as a whole.
        log_block: where in the log, None for the log as a whole.
        fs_block: that block's number in the file system, or on the external journal.
        byte_offset: of the damaged byte where it is known, else of the block, in the same.
        target: the file system block that a copy belongs to.
        read: what is there.
        expected: what should be.
        meaning: what follows from it.
    """

    code: str
    severity: Annotated[Severity, "How bad it is."]
    transaction: Annotated[TransactionId | None, "Id of a transaction."]
    log_block: fields.LogBlock | None
    fs_block: int | None
    byte_offset: int | None
    target: Annotated[int | None, "Block of the file system that a copy is of."]
    read: str
    expected: str
    meaning: str


@dataclass(slots=True)
class AuditFindings:
    """A bounded collector: the first `limit` in full, the rest as counts."""

    limit: int = 10_000
    kept: list[AuditFinding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    wrong: int = 0

    def add(self, finding: AuditFinding) -> None:
        """Record one."""
        self.count(finding.code, finding.severity, 1)
        if self.room:
            self.kept.append(finding)

    def count(self, code: str, severity: Severity, number: int) -> None:
        """Count some that are not kept."""
        self.counts[code] = self.counts.get(code, 0) + number
        self.wrong += number * (severity is not Severity.NOTE)

    @property
    def room(self) -> int:
        """How many more are kept."""
        return max(self.limit - len(self.kept), 0)


@dataclass(slots=True)
class VerdictCounts:
    """How many of each part got which verdict."""

    counts: dict[Part, list[int]] = field(default_factory=dict)

    def add(self, part: Part, verdicts: Any) -> None:
        """Count verdicts (int64 column of places in `VERDICTS`)."""
        have = self.counts.setdefault(part, [0] * len(VERDICTS))
        for verdict, number in enumerate(np.bincount(verdicts, minlength=len(VERDICTS)).tolist()):
            have[verdict] += number

    def of(self, part: Part, verdict: Verdict) -> int:
        """How many of one part got one verdict."""
        return self.counts.get(part, [0] * len(VERDICTS))[VERDICTS.index(verdict)]


@dataclass(frozen=True, slots=True)
class TidGap:
    """Transaction ids that are missing between two neighbours: the log was begun anew there.

    A clean unmount skips one id, a recovery one or two; more come from mounts without a change.

    Attributes:
        after: the id before the gap.
        before: the id behind it.
        log_block: where the one behind it starts.
    """

    after: TransactionId
    before: TransactionId
    log_block: fields.LogBlock


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A verdict on every block of the log that has one, by kind of block and position.

    Attributes:
        part: int64, place in `Part`.
        position: int64, log block.
        order: int64, the transaction's place in time.
        target: int64, the file system block of a copy, else -1.
        verdict: int64, place in `Verdict`.
    """

    part: Any
    position: Any
    order: Any
    target: Any
    verdict: Any

    def __len__(self) -> int:
        return len(self.part)


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        findings: what is wrong.
        tally: verdicts by part.
        log: the log that was read, a changed bit in its superblock set right; None when it
            cannot be used at all.
        gaps: where ids are missing.
        verdicts: on single blocks.
        replayed: the file system's blocks after a recovery; None when none can be.
    """

    findings: AuditFindings
    tally: VerdictCounts
    log: Log | None = None
    gaps: tuple[TidGap, ...] = ()
    verdicts: Verdicts | None = None
    replayed: ReplayedBlocks | None = None

    @property
    def is_sound(self) -> bool:
        """The log was read and nothing is wrong; notes do not count."""
        return self.log is not None and not self.findings.wrong
