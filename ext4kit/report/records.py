"""JSON lines: one record per line, each with a field `record` that names its kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ext4kit.fields import Record

_LINES_AT_ONCE = 4096


def json_line(record: Record) -> str:
    """A record on one line. Non-ASCII is escaped, so that it cannot control a terminal."""
    return _encoder()(record)


@cache
def _encoder() -> Callable[[Any], str]:
    """Created on first use, because most calls write no JSON."""
    from json import JSONEncoder

    return JSONEncoder(separators=(", ", ": ")).encode


def write_record(record: Record) -> None:
    """Print one record."""
    sys.stdout.write(json_line(record) + "\n")


def write_records(records: Iterable[Record]) -> None:
    """Print many records in large pieces."""
    lines: list[str] = []
    for record in records:
        lines.append(json_line(record))
        if len(lines) == _LINES_AT_ONCE:
            sys.stdout.write("\n".join(lines) + "\n")
            lines.clear()
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
