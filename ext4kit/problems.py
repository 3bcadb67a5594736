"""Problem records: in a scan, damage is data and the scan goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypedDict


class Severity(StrEnum):
    """How much a problem weighs for the evidence."""

    NOTE = "note"  # worth knowing; nothing is missing
    WARNING = "warning"  # something was read by another way, or could not be checked
    ERROR = "error"  # something is missing from the result or is wrong


class ProblemFacts(TypedDict):
    """A problem as records have it."""

    where: Annotated[str, "What it is about."]
    what: Annotated[str, "What was found."]
    severity: Annotated[Severity, "How bad it is."]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that was found wrong.

    Attributes:
        where: the place, in the field's terms ("inode 12", "group 3 block bitmap").
        what: what is wrong there and what was done about it.
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
    """A bounded collector: the first `limit` problems in full, the rest as a count.

    A hostile image can hold millions of problems; memory stays bounded and the count true.
    """

    limit: int = 1000
    kept: list[Problem] = field(default_factory=list)
    total: int = 0
    errors: int = 0

    def add(self, where: str, what: str, severity: Severity = Severity.ERROR) -> None:
        """Record one problem; the same one told twice is counted once while it is kept."""
        problem = Problem(where, what, severity)
        if problem in self.kept:
            return
        self.total += 1
        self.errors += severity is Severity.ERROR
        if len(self.kept) < self.limit:
            self.kept.append(problem)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.kept)

    def __len__(self) -> int:
        return self.total
