"""Problems at the end of a command: the first few in full, then the count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ext4kit.problems import Problem, ProblemFacts, Severity
from ext4kit.report.safe import printable_text

SHOWN = 10


def problem_lines(problems: list[Problem], total: int, errors: int) -> Iterator[str]:
    """The lines for stderr, errors first, from the kept problems and the numbers of all."""
    order = list(Severity)
    worst = sorted(problems, key=lambda problem: -order.index(problem.severity))
    for problem in worst[:SHOWN]:
        yield f"ext4kit: {problem.severity}: {printable_text(str(problem))}"
    if total > SHOWN:
        yield f"ext4kit: ... and {total - min(len(worst), SHOWN):,} more"
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
