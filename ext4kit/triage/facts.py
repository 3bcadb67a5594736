"""The facts of a summary: plain values, times in ns since 1970, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from ext4kit import fields
from ext4kit.problems import Severity
from ext4kit.recovery import DeletedFile, Grade
from ext4kit.timeline import Event


@dataclass(frozen=True, slots=True)
class FileSystemFacts:
    """What a file system says of itself.

    Attributes:
        label, last_mounted: as stored.
        made, mounted, written: ns, None where nothing is stored.
        is_backup: a backup superblock had to be read.
        errors: how often the kernel saw an error.
    """

    kind: str
    label: bytes
    uuid: str
    last_mounted: bytes
    block_size: int
    blocks: int
    free_blocks: int
    inodes: int
    free_inodes: int
    features: tuple[str, ...]
    made: int | None
    mounted: int | None
    written: int | None
    mounts: int
    is_backup: bool
    checksum_ok: bool | None
    errors: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.blocks * self.block_size


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check of all checksums and cross-references found.

    Attributes:
        findings: (code, severity, how often, what it means), the worst first.
        wrong: findings that are more than notes.
        inodes, directories, blocks: how much was looked at.
    """

    findings: tuple[tuple[str, Severity, int, str], ...]
    wrong: int
    inodes: int
    directories: int
    blocks: int


Sort = Literal["made", "written", "moved", "changed", "deleted"]  # of events


class JournalState(StrEnum):
    """Whether the log holds what was not written in place."""

    NONE = "none"
    CLEAN = "clean"
    TO_REPLAY = "to replay"
    LEFT = "left"  # not empty, and the file system does not ask for recovery


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """What is left in the journal.

    Attributes:
        size: bytes of the log.
        transactions: with a good commit block.
        first, last: ids of the oldest and the newest of these.
        since, until: their commit times, None where not known.
        to_replay: transactions that a recovery applies; fast_commits: behind them.
        unmounts, power_cuts: breaks between transactions; gaps: where some are lost.
        is_whole: it still has everything since the file system was made.
        backwards: how often a commit is dated before the one before it.
    """

    standing: JournalState
    size: fields.Size = 0
    transactions: int = 0
    first: int | None = None
    last: int | None = None
    since: int | None = None
    until: int | None = None
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
        start: of the first bin, ns; width: of each, ns.
        series: name and a count a bin.
        before: how many lie before the first bin, where only the end is shown.
    """

    start: int
    width: int
    series: dict[str, tuple[int, ...]]
    before: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.series.values()), ()))

    @property
    def totals(self) -> tuple[int, ...]:
        """A count a bin, all series together."""
        return tuple(map(sum, zip(*self.series.values(), strict=True)))


@dataclass(frozen=True, slots=True)
class DeletionStats:
    """What was deleted.

    Attributes:
        total: files, folders and the rest, of all grades.
        grades: how many of each grade; sizes: their bytes.
        grounds: how many have a path, by what it rests on.
        removed_names: removed entries that are not given as names of files.
        when: by grade over time; None when no time is known of any.
        undated: how many have no time.
        largest, latest: the first of each order.
        listed: the latest ones, for a table; bounded.
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
    listed: tuple[DeletedFile, ...]
    searched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActivityStats:
    """What happened while the log was written.

    Attributes:
        events: how many, hints left out; hints: how many.
        kinds: how many of each kind.
        span: by sort over the whole time that the log tells of.
        hours: the same by hour, the last ones.
        listed: the newest events, for a table; bounded.
    """

    events: int
    hints: int
    kinds: dict[str, int]
    span: Bins | None
    hours: Bins | None
    listed: tuple[Event, ...]


class MapCategory(StrEnum):
    """What a block is, to a responder. The order is that of the map."""

    METADATA = "metadata"
    FILES = "files"
    INTACT = "intact"
    CONSISTENT = "consistent"
    PARTIAL = "partial"
    CARVED = "carved"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class DiskMap:
    """The blocks of a file system in cells of the same size.

    Attributes:
        cell: blocks of a cell; the last one may have fewer.
        counts: int64 (cells,) blocks of each use.
    """

    cell: int
    counts: dict[MapCategory, Any]

    @property
    def totals(self) -> dict[MapCategory, int]:
        """Blocks of each use."""
        return {use: int(count.sum()) for use, count in self.counts.items()}
