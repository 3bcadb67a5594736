"""Everything collected: one pass over what is there, what is gone and what happened."""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log
from ext4kit.past.writer import Writer, find_writer
from ext4kit.recovery import find_deleted
from ext4kit.recovery.sources import ALL_SOURCES, Source
from ext4kit.summary.activity import activity
from ext4kit.summary.deletions import deletions
from ext4kit.summary.disk import disk_map
from ext4kit.summary.facts import Activity, Deletions, DiskMap, Health, Identity, LogFacts
from ext4kit.summary.identity import health, identity, log_facts
from ext4kit.summary.suspicions import Suspicion, find_suspicions
from ext4kit.summary.victims import Victim, find_victims
from ext4kit.timeline import build_timeline

Progress = Callable[[int, int], None]  # (done, total)
Step = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is collected.

    Attributes:
        sources: where deleted files are looked for.
        verify: check all checksums and cross-references too.
        first: files in the short lists: largest, latest.
        rows: rows a table: deleted files, events, sightings a rule.
        cells: of the map of the disk.
    """

    sources: Set[Source] = ALL_SOURCES
    verify: bool = True
    first: int = 10
    rows: int = 1000
    cells: int = 960


@dataclass(frozen=True, slots=True)
class Summary:
    """The facts about a file system.

    Attributes:
        health: None when it was not checked.
        victims: how many files lost their content to a crash, and the newest of them.
    """

    identity: Identity
    writer: Writer
    health: Health | None
    log: LogFacts
    deletions: Deletions
    activity: Activity
    disk: DiskMap
    suspicions: tuple[Suspicion, ...]
    victims: tuple[int, tuple[Victim, ...]]


def _unseen(_title: str) -> AbstractContextManager[Progress | None]:
    return nullcontext()


def summarize(fs: FileSystem, extent: Extent = Extent(), step: Step = _unseen) -> Summary:  # noqa: B008
    """Collect the facts about a file system; problems are added to `fs.problems`.

    Args:
        fs: the file system; open it with its journal replayed.
        extent: how much.
        step: called with a title before each long step; gives what is told of its progress.
    """
    log = Log.open(fs)
    with step("searching free space") as show:
        deleted = find_deleted(fs, sources=extent.sources, progress=show)
    with step("reading the log") as show:
        timeline = build_timeline(fs, show)
    with step("checking"):
        checked = health(fs) if extent.verify else None
    journal = log_facts(fs, log)
    return Summary(
        identity=identity(fs),
        writer=find_writer(fs, log),
        health=checked,
        log=journal,
        deletions=deletions(deleted, extent.sources, extent.first, extent.rows),
        activity=activity(timeline, extent.rows),
        disk=disk_map(fs, log, deleted, extent.cells),
        suspicions=find_suspicions(fs, deleted, timeline, extent.rows),
        victims=find_victims(fs, log, journal.standing, timeline, extent.rows),
    )
