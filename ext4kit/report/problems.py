"""Problems at the end of a command: the first few in full, then the count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ext4kit.problems import Problem, ProblemFacts, Severity
from ext4kit.report.safe import printable_text

SHOWN = 10


def problem_lines(problems: list[Problem], total: int, errors: int) -> Iterator[str]:
    """The lines for stderr, errors first.

    Args:
        problems: the kept problems.
        total: number of all problems.
        errors: number of errors among them.
    """
    order = list(Severity)
    worst = sorted(problems, key=lambda problem: -order.index(problem.severity))
    for problem in worst[:SHOWN]:
        yield f"ext4kit: {problem.severity}: {printable_text(str(problem))}"
    if total > SHOWN:
        yield f"ext4kit: ... and {total - min(len(worst), SHOWN):,} more"
    if total:
        rest = total - errors
        yield f"ext4kit: {_count(errors, 'error')}, {_count(rest, 'note or warning')}"


class ProblemRecord(ProblemFacts):
    """Data that is unreadable or wrong (all commands)."""

    record: Literal["problem"]


def problem_record(problem: Problem) -> ProblemRecord:
    """A problem as a record."""
    return {"record": "problem", **problem.as_record()}


def _count(number: int, word: str) -> str:
    if number == 1:
        return f"1 {word}"
    return f"{number:,} {word.replace('note', 'notes').replace('warning', 'warnings')}" + (
        "s" if word == "error" else ""
    )
