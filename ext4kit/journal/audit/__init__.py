"""The audit of a log: verdicts on its blocks, findings, and what a replay would do."""

from ext4kit.journal.audit.audit import audit, audit_log
from ext4kit.journal.audit.result import (
    Audit,
    Finding,
    Findings,
    Part,
    TidGap,
    Verdict,
    VerdictCounts,
)

__all__ = [
    "Audit",
    "Finding",
    "Findings",
    "TidGap",
    "Part",
    "VerdictCounts",
    "Verdict",
    "audit",
    "audit_log",
]
