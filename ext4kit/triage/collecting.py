"""Collects all facts, in one pass each over live files, deleted files and events."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from ext4kit.filesystem import FileSystem
from ext4kit.history.writer import Writer, find_writer
from ext4kit.journal import SharedLog
from ext4kit.known.files import KnownFiles
from ext4kit.logs.logins import read_logins
from ext4kit.parsers.superblock import Superblock
from ext4kit.recovery import find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES, JOURNAL_ONLY, SearchSource
from ext4kit.selection import Selection
from ext4kit.timeline import build_timeline
from ext4kit.triage.activity import activity_stats
from ext4kit.triage.deletions import deletion_stats
from ext4kit.triage.disk import disk_map
from ext4kit.triage.facts import (
    ActivityStats,
    DeletionStats,
    DiskMap,
    JournalFacts,
)
from ext4kit.triage.identity import journal_facts
from ext4kit.triage.rules.reading import own_rules
from ext4kit.triage.rules.rule import Rule
from ext4kit.triage.suspicions import Indicator, SignOptions, find_signs
from ext4kit.triage.suspicions.search import need_versions
from ext4kit.triage.suspicions.sessions import SignSession, find_sessions
from ext4kit.triage.victims import ZeroLengthFile, find_zero_length_files
from ext4kit.units import Progress, ProgressStep
from ext4kit.verify import Verification, verify
from ext4kit.workspace import Workspace
from ext4kit.zones import UTC, Zone


@dataclass(frozen=True, slots=True)
class TriageOptions:
    """Which facts to collect, and how many.

    Attributes:
        sources: where deleted files are searched.
        verify: also check all checksums and cross-references.
        names: also count removed entries that are not names of deleted files.
        first: number of files in each short list (largest, latest).
        rows: number of rows in each table (deleted files, events, sightings of a rule).
        cells: number of cells of the disk map.
        lists: lists of known files, with which the listed deleted files are compared.
        selection: of the deleted files to count and to list; signs are looked for in all.
        bad: lists of known bad files.
        rules: the rules of signs; by default, those of this package.
        zone: of times in log lines that state none.
        packages: also compare packaged files with the database of packages.
    """

    sources: Set[SearchSource] = ALL_SOURCES
    verify: bool = True
    names: bool = True
    first: int = 10
    rows: int = 1000
    cells: int = 960
    lists: KnownFiles | None = None
    selection: Selection = field(default_factory=Selection)
    bad: KnownFiles | None = None
    rules: Sequence[Rule] = ()
    zone: Zone = UTC
    packages: bool = False


@dataclass(frozen=True, slots=True)
class Triage:
    """The facts about a file system.

    Attributes:
        superblock: the superblock after the replay of the journal.
        free_blocks, free_inodes: sums of the group descriptors.
        health: result of the check; None if none was made.
        sessions: the sightings of all signs in the order of time.
        victims: number of zero-length files, and the newest ones.
    """

    superblock: Superblock
    free_blocks: int
    free_inodes: int
    writer: Writer
    health: Verification | None
    log: JournalFacts
    deletions: DeletionStats
    activity: ActivityStats
    disk: DiskMap
    suspicions: tuple[Indicator, ...]
    sessions: tuple[SignSession, ...]
    victims: tuple[int, tuple[ZeroLengthFile, ...]]


def _no_progress(_title: str) -> AbstractContextManager[Progress | None]:
    return nullcontext()


def triage(
    given: FileSystem | SharedLog,
    extent: TriageOptions = TriageOptions(),  # noqa: B008
    step: ProgressStep = _no_progress,
    disguises: Sequence[str] = (),
) -> Triage:
    """Collect the facts about a file system; problems are added to `fs.problems`.

    Args:
        given: the file system, opened with its journal replayed, or an object that shares its log.
        extent: amount of facts.
        step: called with a title before each long step; returns the progress callback of the step.
        disguises: descriptions of parts of the image that can be read in two ways
            (`Evidence.disguises`).
    """
    shared = Workspace.of(given)
    fs = shared.fs
    with step("checking"):  # first, so that its memory is free for the later steps
        checked = verify(fs) if extent.verify else None
    workspace = shared if isinstance(shared, Workspace) else Workspace(fs)
    rules = extent.rules or own_rules()
    with step("finding deleted files") as show:
        if extent.sources == JOURNAL_ONLY and need_versions(rules):
            every = workspace.deleted(True, JOURNAL_ONLY, show)  # `find_signs` asks for these too
            deleted = every.without_versions()
        else:
            deleted = find_deleted(shared, sources=extent.sources, progress=show)
    with step("reading the journal") as show:
        timeline = build_timeline(shared, show)
    log = shared.log
    journal = journal_facts(fs, log)
    options = SignOptions(rules, extent.rows, disguises, extent.bad, extent.zone, extent.packages)
    signs = find_signs(workspace, deleted, timeline, options, step)
    with step("counting"):
        victims = find_zero_length_files(fs, log, journal.standing, timeline, extent.rows)
        counted = deleted.selected(extent.selection)
        deletions = deletion_stats(counted, extent.sources, extent.first, extent.rows, extent.names)
        if extent.lists is not None:
            deletions = deletions.marked(extent.lists)
        disk = disk_map(fs, log, deleted, extent.cells)
    return Triage(
        superblock=fs.superblock,
        free_blocks=int(fs.groups.free_blocks_count.sum()) * fs.superblock.cluster_ratio,
        free_inodes=int(fs.groups.free_inodes_count.sum()),
        writer=find_writer(fs, log),
        health=checked,
        log=journal,
        deletions=deletions,
        activity=activity_stats(timeline, extent.rows),
        disk=disk,
        suspicions=signs,
        sessions=find_sessions(signs, read_logins(fs) if signs else ()),
        victims=victims,
    )
