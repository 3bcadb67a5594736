"""The summary of a file system for people: a page in the terminal, a page of HTML, records."""

from ext4kit.report.triage.case import TriageReport

__all__ = ["TriageReport"]
