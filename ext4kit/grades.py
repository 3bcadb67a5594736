"""The grades of contents: how much of a file is there, and with what certainty."""

from __future__ import annotations

from enum import StrEnum


class Grade(StrEnum):
    """How much of a deleted file is recoverable, and with what certainty."""

    INTACT = "intact"  # the last committed content: the evidence excludes a later write
    CONSISTENT = "consistent"  # all records agree; a write without a record is not excluded
    PARTIAL = "partial"  # a part was reused or cannot be confirmed; the rest is there
    OVERWRITTEN = "overwritten"  # nothing of it is left that can be attributed
    CARVED = "carved"  # content found without an inode

    @property
    def is_whole(self) -> bool:
        """True if no part is known to be lost or to belong to another file."""
        return self in (Grade.INTACT, Grade.CONSISTENT)
