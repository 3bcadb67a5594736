"""JSON lines: one record per line, with its kind in the field `record`; problems come last."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Literal

from ext4kit.fields import Record
from ext4kit.problems import Problem, ProblemFacts, worst_first
from ext4kit.report.safe import printable_text
from ext4kit.times import with_iso

_LINES_AT_ONCE = 4096


def json_line(record: Record) -> str:
    """A record on one line, with an ISO 8601 text added for each time.

    Non-ASCII characters are escaped, so that none can control a terminal.
    """
    import json  # most calls write no JSON

    return json.dumps(with_iso(record))


_SECTION: dict[str, object] = {}  # added to every printed record


@contextmanager
def section(image: str, volume: int) -> Iterator[None]:
    """Add the image and the volume to all records that are printed in this context."""
    _SECTION.update(image=image, volume=volume)
    try:
        yield
    finally:
        _SECTION.clear()


def _placed(record: Record) -> Record:
    return {**record, **_SECTION}


def write_record(record: Record) -> None:
    """Print one record."""
    sys.stdout.write(json_line(_placed(record)) + "\n")


def write_lines(lines: Iterable[str], write: Callable[[str], object] | None = None) -> int:
    """Print many lines in large pieces, with `write` or to standard output; return their number."""
    lines, write, count = iter(lines), write or sys.stdout.write, 0
    while piece := list(islice(lines, _LINES_AT_ONCE)):
        write("\n".join(piece) + "\n")
        count += len(piece)
    return count


def write_records(records: Iterable[Record]) -> int:
    """Print many records; return their number."""
    return write_lines(map(json_line, map(_placed, records) if _SECTION else records))


SHOWN = 10  # problems shown at the end of a command


def problem_lines(problems: list[Problem], total: int, errors: int) -> Iterator[str]:
    """The kept problems as lines for stderr, errors first, then the counts of all problems."""
    for problem in worst_first(problems)[:SHOWN]:
        yield f"ext4kit: {problem.severity}: {printable_text(str(problem))}"
    if total > SHOWN:
        yield f"ext4kit: ... and {total - min(len(problems), SHOWN):,} more"
    if total:
        rest = total - errors
        others = "1 note or warning" if rest == 1 else f"{rest:,} notes or warnings"
        yield f"ext4kit: {errors:,} error{'s' * (errors != 1)}, {others}"


class ProblemRecord(ProblemFacts):
    """Data that is unreadable or wrong (all commands)."""

    record: Literal["problem"]


def problem_record(problem: Problem) -> ProblemRecord:
    """A problem as a record."""
    return {"record": "problem", **problem.as_record()}
