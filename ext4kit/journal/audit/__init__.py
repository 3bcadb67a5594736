"""The audit of a log: verdicts on its blocks, findings, and what a replay would do."""

from ext4kit.journal.audit.audit import audit, audit_log
from ext4kit.journal.audit.result import Audit, Finding, Findings, Gap, Part, Tally, Verdict

__all__ = [
    "Audit",
    "Finding",
    "Findings",
    "Gap",
    "Part",
    "Tally",
    "Verdict",
    "audit",
    "audit_log",
]
