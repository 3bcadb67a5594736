"""The summary of a file system for readers: a terminal page, an HTML page, records."""

from ext4kit.report.triage.case import TriageReport

__all__ = ["TriageReport"]
