"""Result of a comparison of two readers, stored as columns until it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from ext4kit.arrays.types import Codes
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
    """One difference between the two readers for one path.

    Attributes:
        field: "name" (only one reader has the path), "inode", "type", "mode", "size", "atime" ...,
            "content", or "deleted name" (only one reader has this name of a deleted file).
        inode: inode number in ext4kit; if only The Sleuth Kit has the path, its inode number.
        ext4kit: ext4kit's value; None where it does not have the path.
        tsk: The Sleuth Kit's value; None where it does not have the path.
        detail: error message of The Sleuth Kit, if any.
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
        cause: indices into `CAUSES`.
        one: function that returns the difference with an index.
    """

    field: Field
    cause: Codes
    one: Callable[[int], Difference]

    @classmethod
    def of(
        cls, field: Field, causes: Iterable[Cause], one: Callable[[int], Difference]
    ) -> DifferenceGroup:
        """The differences with these causes."""
        return cls(field, np.array([cause.number for cause in causes], np.int8), one)


@dataclass(slots=True)
class CrossCheck:
    """Result of the comparison.

    Attributes:
        hello: version of The Sleuth Kit and its view of the file system; None if it refused the
            file system.
        refusal: reason of the refusal, or "".
        replayed: whether ext4kit's reading has the changes of the journal.
        directories: number of directories read by both.
        entries: number of compared names; fields: number of compared values of their inodes.
        deleted_names: number of names of deleted files that at least one reader has; None if these
            names were not compared.
        contents: number of files and links whose content was compared; content_bytes: total size of
            these contents.
        left_out: reason -> number of names or contents that were not compared.
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
        """Number of differences by (field, code of the cause)."""
        found: Counter[tuple[str, str]] = Counter()
        for group in self.groups:
            numbers = np.bincount(group.cause, minlength=len(CAUSES)).tolist()
            for cause, number in zip(CAUSES, numbers, strict=True):
                found[group.field, cause.code] += number
        return {key: number for key, number in found.items() if number}

    @property
    def total(self) -> int:
        """Number of differences."""
        return sum(len(group.cause) for group in self.groups)

    @property
    def open(self) -> int:
        """Number of differences for which neither reader is known to be probably right."""
        undecided = {cause.code for cause in CAUSES if cause.right is LikelyRight.OPEN}
        return sum(number for (_, code), number in self.counts().items() if code in undecided)

    @property
    def agrees(self) -> bool:
        """Whether everything was compared and nothing differs."""
        return self.hello is not None and not self.total and not self.left_out

    def differences(self, most: int | None = None) -> Iterator[Difference]:
        """All differences; with `most`, at most that number for each field and cause."""
        for group in self.groups:
            for number in np.unique(group.cause).tolist():
                places = np.flatnonzero(group.cause == number)[:most]
                yield from map(group.one, places.tolist())
