"""JSON lines: one record per line, each with a field `record` that names its kind."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice

from ext4kit.fields import Record

_LINES_AT_ONCE = 4096


def json_line(record: Record) -> str:
    """A record on one line. Non-ASCII is escaped, so that it cannot control a terminal."""
    import json  # most calls write no JSON

    return json.dumps(record)


def write_record(record: Record) -> None:
    """Print one record."""
    sys.stdout.write(json_line(record) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    """Print many lines in large pieces."""
    lines = iter(lines)
    while piece := list(islice(lines, _LINES_AT_ONCE)):
        sys.stdout.write("\n".join(piece) + "\n")


def write_records(records: Iterable[Record]) -> None:
    """Print many records."""
    write_lines(map(json_line, records))
