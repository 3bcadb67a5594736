"""A finished file of an output, and one that could not be written."""

from __future__ import annotations

from dataclasses import dataclass, field

from ext4kit.errors import OutputError
from ext4kit.output.restoring import Outcome
from ext4kit.reasons import NAME_REFUSED, Reason


@dataclass(slots=True)  # frozen ones take three times as long to create
class Written:
    """A finished file.

    Attributes:
        path: relative to the output folder, `/` between components; of a single file as given.
        sha256: hex, or None when it is not hashed because its holes are too large (above 16 GiB, or
            above the limit of the whole output), or because it is a copy of a volume.
        lost: (offset, length, reason) of unreadable ranges, which are written as zeros.
        outcome: what it has beside its bytes.
        hard_link: the output that it is a hard link to; None for a file of its own.
        further: paths of hard links to it.
        refusal: why the file system refused its name or that of a folder; "" where it did not.
        is_kept: an earlier run wrote it.
    """

    path: str
    size: int
    sha256: str | None
    lost: tuple[tuple[int, int, str], ...]
    outcome: Outcome = field(default_factory=Outcome)
    hard_link: str | None = None
    further: tuple[str, ...] = ()
    refusal: str = ""
    is_kept: bool = False

    @property
    def reasons(self) -> list[Reason]:
        """What its record says of its name."""
        if not self.refusal:
            return []
        return [NAME_REFUSED.filled(why=self.refusal, path=self.path)]


class UnwritableError(OutputError):
    """One file could not be written although the folder can be.

    Attributes:
        reason: the reason, as in the record of the file.
        why: what the system says; "" if it was not asked.
    """

    def __init__(self, reason: Reason, why: str = "") -> None:
        super().__init__(reason.text)
        self.reason, self.why = reason, why
