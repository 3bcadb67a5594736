"""Log lines that are no longer in the logs, from every place that can still hold their bytes."""

from ext4kit.logs.find import find_log_lines, find_removed_lines, find_zeroed_records
from ext4kit.logs.findings import LogFilter, LogFindings
from ext4kit.logs.kinds import FAMILIES, LOG_FILES, LogKind
from ext4kit.logs.result import LogLine, Origin, Removal

__all__ = [
    "FAMILIES", "LOG_FILES", "LogFilter", "LogFindings", "LogKind", "LogLine", "Origin", "Removal",
    "find_log_lines", "find_removed_lines", "find_zeroed_records",
]  # fmt: skip
