"""The audit of a log: verdicts on its blocks, findings, and the result of a replay."""

from ext4kit.audit.audit import audit, audit_log
from ext4kit.audit.result import (
    Audit,
    AuditFinding,
    AuditFindings,
    Part,
    TidGap,
    Verdict,
    VerdictCounts,
)

__all__ = [
    "Audit",
    "AuditFinding",
    "AuditFindings",
    "TidGap",
    "Part",
    "VerdictCounts",
    "Verdict",
    "audit",
    "audit_log",
]
