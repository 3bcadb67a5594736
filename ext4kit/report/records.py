"""JSON lines: one record a line, each with a `record` field that says what it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

_LINES_AT_ONCE = 4096


def as_line(record: dict[str, Any]) -> str:
    """A record on one line. Non-ASCII is escaped: a terminal cannot be steered by it."""
    return json.dumps(record, separators=(", ", ": "))


def write_record(record: dict[str, Any]) -> None:
    """Print one record."""
    sys.stdout.write(as_line(record) + "\n")


def write_records(records: Iterable[dict[str, Any]]) -> None:
    """Print many records in large pieces."""
    lines: list[str] = []
    for record in records:
        lines.append(as_line(record))
        if len(lines) == _LINES_AT_ONCE:
            sys.stdout.write("\n".join(lines) + "\n")
            lines.clear()
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
