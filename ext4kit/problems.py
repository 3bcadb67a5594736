"""Problem records, with which a scan records damage and then continues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypedDict


class Severity(StrEnum):
    """Consequence of a problem for the evidence."""

    NOTE = "note"  # information only; nothing is missing
    WARNING = "warning"  # data was read in another way, or could not be checked
    ERROR = "error"  # data is missing from the result or wrong


class ProblemFacts(TypedDict):
    """A problem in records."""

    where: Annotated[str, "The place or structure concerned."]
    what: Annotated[str, "The problem."]
    severity: Annotated[Severity, "Severity of the problem."]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of the evidence.

    Attributes:
        where: the location, in ext4 terms ("inode 12", "group 3 block bitmap").
        what: what is wrong, and the consequence.
    """

    where: str
    what: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"

    def as_record(self) -> ProblemFacts:
        """The problem as plain JSON values."""
        return {"where": self.where, "what": self.what, "severity": self.severity}


@dataclass(slots=True)
class Problems:
    """A bounded collector, which keeps the first `limit` problems and counts the rest.

    A hostile image can cause millions of problems. Memory stays bounded and the count stays exact.
    """

    limit: int = 1000
    kept: dict[Problem, None] = field(default_factory=dict)  # a dict keeps the order
    total: int = 0
    errors: int = 0

    def add(self, where: str, what: str, severity: Severity = Severity.ERROR) -> None:
        """Record one problem; a repeated problem is counted once while it is kept."""
        problem = Problem(where, what, severity)
        if problem in self.kept:
            return
        self.total += 1
        self.errors += severity is Severity.ERROR
        if len(self.kept) < self.limit:
            self.kept[problem] = None

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.kept)

    def __len__(self) -> int:
        return self.total


def worst_first(problems: Iterable[Problem]) -> list[Problem]:
    """Problems sorted by severity: errors, warnings, notes; otherwise in the order found."""
    order = list(Severity)
    return sorted(problems, key=lambda problem: -order.index(problem.severity))
