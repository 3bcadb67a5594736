"""What the comparison of two readers found, kept in columns until it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from ext4kit.crosscheck.answers import Hello
from ext4kit.crosscheck.causes import CAUSES, Cause, LikelyRight

Field = Literal[
    "name", "inode", "entry_type", "type", "mode", "uid", "gid", "links_count", "size", "atime",
    "mtime", "ctime", "crtime", "content", "deleted name",
]  # fmt: skip
NAME: Final = "name"
CONTENT: Final = "content"
DELETED_NAME: Final = "deleted name"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the two say differently of one path.

    Attributes:
        field: "name" (only one has the path), "inode", "type", "mode", "size", "atime" ...,
            "content", or "deleted name" (only one has it of a deleted file).
        inode: its number as ext4kit reads it; The Sleuth Kit's where it alone has the path.
        ext4kit: its value; None where it does not have the path.
        tsk: The Sleuth Kit's value; None where it does not have the path.
        detail: what The Sleuth Kit said, when it gave an error.
    """

    path: bytes
    field: Field
    inode: int
    ext4kit: int | str | None
    tsk: int | str | None
    cause: Cause
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DifferenceGroup:
    """The differences of one field.

    Attributes:
        cause: int8 (n,), places in `CAUSES`.
        one: the difference of a place.
    """

    field: Field
    cause: Any
    one: Callable[[int], Difference]


@dataclass(slots=True)
class CrossCheck:
    """The outcome.

    Attributes:
        hello: what The Sleuth Kit is and takes the file system for; None when it refused it.
        refusal: why it did, or "".
        replayed: whether ext4kit's reading has the journal's changes.
        directories: read by both.
        entries: names compared; fields: values compared of their inodes.
        deleted_names: names of deleted files that one of the two has; None: not compared.
        contents: files and links whose bytes were compared; content_bytes: their number.
        left_out: reason to how many names or contents were not compared.
        groups: the differences.
    """

    hello: Hello | None
    refusal: str = ""
    replayed: bool = False
    directories: int = 0
    entries: int = 0
    fields: int = 0
    deleted_names: int | None = None
    contents: int = 0
    content_bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    groups: list[DifferenceGroup] = field(default_factory=list)

    def counts(self) -> dict[tuple[str, str], int]:
        """(field, cause's code) to the number of differences."""
        found: Counter[tuple[str, str]] = Counter()
        for group in self.groups:
            numbers = np.bincount(group.cause, minlength=len(CAUSES)).tolist()
            for cause, number in zip(CAUSES, numbers, strict=True):
                found[group.field, cause.code] += number
        return {key: number for key, number in found.items() if number}

    @property
    def total(self) -> int:
        """How many differences there are."""
        return sum(len(group.cause) for group in self.groups)

    @property
    def open(self) -> int:
        """How many of them do not say who is right."""
        undecided = [cause.right is LikelyRight.OPEN for cause in CAUSES]
        return sum(int(np.array(undecided)[group.cause].sum()) for group in self.groups)

    @property
    def agrees(self) -> bool:
        """Whether all was compared and nothing differs."""
        return self.hello is not None and not self.total and not self.left_out

    def differences(self, most: int | None = None) -> Iterator[Difference]:
        """Each difference; with `most` at most so many of one field and cause."""
        for group in self.groups:
            for number in np.unique(group.cause).tolist():
                places = np.flatnonzero(group.cause == number)[:most]
                yield from map(group.one, places.tolist())
