"""The facts of the triage: plain values, with times in ns since 1970 and sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from ext4kit import fields
from ext4kit.arrays.types import Int64s
from ext4kit.known.files import KnownFiles
from ext4kit.recovery import DeletedFile, Grade
from ext4kit.recovery.deleted_files import marked
from ext4kit.recovery.summary import FolderDeletions
from ext4kit.timeline import Event

Sort = Literal["made", "written", "moved", "changed", "deleted"]  # categories of events


class JournalState(StrEnum):
    """Whether the journal has transactions that are not checkpointed."""

    NONE = "none"
    CLEAN = "clean"
    TO_REPLAY = "to replay"
    LEFT = "left"  # the journal is not empty, but the file system does not need recovery


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """Facts about the journal.

    Attributes:
        size: bytes of the journal.
        transactions: number of transactions with a valid commit block.
        first, last: stored tids of the oldest and the newest of these transactions.
        since_ns, until_ns: commit times of `first` and `last`, None if unknown.
        to_replay: number of transactions that a recovery replays; fast_commits: number of fast
            commits replayed after them.
        unmounts, power_cuts: number of journal gaps by cause; gaps: number of journal gaps with
            lost transactions.
        is_whole: whether the journal has all transactions since the file system was created.
        backwards: number of commits with an earlier time than the previous commit.
    """

    standing: JournalState
    size: fields.Size = 0
    transactions: int = 0
    first: int | None = None
    last: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    to_replay: int = 0
    fast_commits: int = 0
    unmounts: int = 0
    power_cuts: int = 0
    gaps: int = 0
    is_whole: bool = False
    backwards: int = 0


@dataclass(frozen=True, slots=True)
class Bins:
    """Counts over time.

    Attributes:
        start: start of the first bin, ns; width: width of each bin, ns.
        series: name of each series -> its counts, one per bin.
        end: the latest counted time (ns), which is in the last bin.
        before: number of times before the first bin; these are not counted in the bins.
        after: number of times after the last bin, which are outliers.
    """

    start: int
    width: int
    series: dict[str, tuple[int, ...]]
    end: int
    before: int = 0
    after: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.series.values()), ()))

    @property
    def totals(self) -> tuple[int, ...]:
        """Counts per bin, summed over all series."""
        return tuple(map(sum, zip(*self.series.values(), strict=True)))

    def merged(self, most: int) -> Bins:
        """The same counts in at most `most` wider bins; the last bin is complete."""
        many = -(-len(self) // max(most, 1))
        lack = -len(self) % many
        series = {
            name: tuple(
                sum(counts[max(first, 0) : first + many]) for first in range(-lack, len(self), many)
            )
            for name, counts in self.series.items()
        }
        start, width = self.start - lack * self.width, self.width * many
        return replace(self, start=start, width=width, series=series)


@dataclass(frozen=True, slots=True)
class DeletionStats:
    """Statistics of deleted files.

    Attributes:
        total: number of deleted files, directories and other types, of all grades.
        grades: number of files of each grade; sizes: total bytes of the files of each grade.
        grounds: number of files with a path, by the evidence for the path.
        removed_names: number of removed entries that are not names of deleted files.
        when: counts by grade over time; None if no deletion time is known.
        undated: number of files without a deletion time.
        largest, latest: the largest and the latest files, without directories and without files of
            which neither name nor content is left.
        folders: groups of files that were deleted together, the largest group that is not churn
            first; limited in number.
        contents: number of carved contents by kind; fragments: number of those that are only parts
            of files.
        listed: the latest files, for a table; limited in number.
        searched: names of the sources that were searched.
    """

    total: int
    grades: dict[Grade, int]
    sizes: dict[Grade, int]
    grounds: dict[str, int]
    removed_names: int | None
    when: Bins | None
    undated: int
    largest: tuple[DeletedFile, ...]
    latest: tuple[DeletedFile, ...]
    folders: tuple[FolderDeletions, ...]
    contents: dict[str, int]
    fragments: int
    listed: tuple[DeletedFile, ...]
    searched: tuple[str, ...]

    def marked(self, known: KnownFiles) -> DeletionStats:
        """The same with the list of known files that has each file of the tables."""

        def all_marked(files: tuple[DeletedFile, ...]) -> tuple[DeletedFile, ...]:
            return tuple(marked(file, known) for file in files)

        return replace(
            self,
            largest=all_marked(self.largest),
            latest=all_marked(self.latest),
            listed=all_marked(self.listed),
        )


@dataclass(frozen=True, slots=True)
class ActivityStats:
    """Events in the period that the journal covers.

    Attributes:
        events: number of events without hints; hints: number of hints.
        kinds: number of events of each kind.
        span: counts by category over the whole period that the journal covers.
        hours: counts by category for each of the last hours.
        listed: the newest events, for a table; limited in number.
    """

    events: int
    hints: int
    kinds: dict[str, int]
    span: Bins | None
    hours: Bins | None
    listed: tuple[Event, ...]


class MapCategory(StrEnum):
    """Categories of blocks in the disk map, in the order in which the map shows them."""

    METADATA = "metadata"
    FILES = "files"
    INTACT = "intact"
    CONSISTENT = "consistent"
    PARTIAL = "partial"
    CARVED = "carved"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class DiskMap:
    """The disk map: counts of the blocks of a file system in cells of equal size.

    Attributes:
        cell: blocks per cell; the last cell may have fewer.
        counts: category -> int64 (cells,), number of its blocks in each cell.
    """

    cell: int
    counts: dict[MapCategory, Int64s]

    @property
    def totals(self) -> dict[MapCategory, int]:
        """Number of blocks of each category."""
        return {use: int(count.sum()) for use, count in self.counts.items()}
