"""The subject of a report, and the short texts that all its renderers use."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4kit.evidence import Evidence, Volume
from ext4kit.logs.logins import Login
from ext4kit.output.case import EvidenceCheck
from ext4kit.parsers.superblock import Superblock
from ext4kit.problems import Problem, Severity
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.report.hashes import comparison_texts
from ext4kit.report.listing import mode_text
from ext4kit.report.logs import removal_text
from ext4kit.report.phrases import SPANS, count_text, duration_text
from ext4kit.report.safe import printable, printable_text, shown
from ext4kit.report.tables import human_size
from ext4kit.report.timeline import event_words
from ext4kit.report.times import time_text
from ext4kit.timeline import EventKind
from ext4kit.triage import (
    Bins,
    DeletionStats,
    JournalFacts,
    JournalState,
    MapCategory,
    Sighting,
    StoryStep,
    Triage,
)
from ext4kit.triage.suspicions.sessions import Deed, SignSession
from ext4kit.triage.suspicions.sighting import IMAGE, LINES
from ext4kit.triage.victims import ZeroLengthFile
from ext4kit.units import NANOSECONDS
from ext4kit.verify import CODES

Rows = list[tuple[str, str]]
SEEN = {
    "there": "on disk now", "mode": "mode changed", "times": "times set", "size": "grew",
    "content": "written", "flags": "flags changed", "truncated": "truncated",
}  # fmt: skip
_UNNAMED = (EventKind.HINT, IMAGE, LINES)
MAP_WORDS = {
    "metadata": "metadata and journal",
    "files": "files",
    "intact": "deleted, intact",
    "consistent": "deleted, consistent",
    "partial": "deleted, partial",
    "carved": "content without a name",
    "free": "free, without known content",
}


RECOVERABLE = (MapCategory.INTACT, MapCategory.CONSISTENT, MapCategory.PARTIAL, MapCategory.CARVED)


@dataclass(frozen=True, slots=True)
class TriageReport:
    """The evidence and the results for one of its file systems."""

    evidence: Evidence
    volume: Volume
    summary: Triage
    problems: tuple[Problem, ...]  # the kept ones, at most a fixed number
    problems_total: int
    command: str
    made: int  # time of the command, ns
    version: str
    was_another: bool = False  # whether there is evidence of an earlier file system on the volume
    operator: str | None = None
    case_number: str | None = None
    check: EvidenceCheck | None = None  # hashes of the evidence, if they were computed
    not_counted: tuple[str, ...] = ()  # deleted files that the options leave out

    @property
    def title(self) -> str:
        """The file name of the image."""
        return printable_text(self.evidence.path.name)

    @property
    def about(self) -> str:
        """A short description of the file system."""
        superblock = self.summary.superblock
        label = f' "{printable(superblock.volume_name)}"' if superblock.volume_name else ""
        size = superblock.blocks_count * superblock.block_size
        return f"{superblock.kind}{label}, {human_size(size)}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """Texts that name what was not searched or checked."""
        found, searched = self.summary.deletions, self.summary.deletions.searched
        parts = (
            ("unallocated space: metadata of deleted files", SearchSource.BLOCKS not in searched),
            ("carving: content without an inode", SearchSource.RUNS not in searched),
            ("further removed names in directories", found.removed_names is None),
            ("verify: checksums and cross-references", self.summary.health is None),
        )
        return (*(text for text, is_missing in parts if is_missing), *self.not_counted)

    @property
    def handling(self) -> str:
        """Operator and case number on one line, "" for none."""
        parts = (("case", self.case_number), ("operator", self.operator))
        return "  ·  ".join(f"{name} {printable_text(text)}" for name, text in parts if text)


def path_grounds(found: DeletionStats) -> str:
    """Number of deleted files with a path, by the evidence for the path."""
    parts = [f"{ground} {count:,}" for ground, count in found.grounds.items() if count]
    total = sum(found.grounds.values())
    return f"{total:,} with a path" + (f": {', '.join(parts)}" if parts else "")


def removed_names(found: DeletionStats) -> str:
    """Number of names in directory slack that belong to no listed deleted file; "" for none."""
    if not found.removed_names:
        return ""
    names = count_text(found.removed_names, "further removed name")
    return f"{names} in directories; deleted IMAGE --names lists them"


def evidence_rows(case: TriageReport) -> Iterator[tuple[str, str]]:
    """Facts about the evidence."""
    evidence = case.evidence
    for name, text in (("Case number", case.case_number), ("Operator", case.operator)):
        if text:
            yield name, printable_text(text)
    yield "Image", printable_text(str(evidence.path))
    yield "Container", evidence.format
    yield "Disk", f"{human_size(evidence.source.size)} ({evidence.source.size:,} bytes)"
    yield from _file_rows(evidence)
    for name, value in evidence.facts.items():
        yield f"{printable_text(name).capitalize()} (stored)", printable_text(value)
    for name, value in evidence.hashes.items():
        yield f"Stored {name.upper()}", value
    if case.check is not None:
        yield from _check_rows(case.check, evidence.hashes)
    elif not evidence.hashes:
        yield "Hashes", "none are stored, and none were computed; --verify-evidence computes them"


def _file_rows(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The files of the evidence if it consists of several, or of one other than the given path."""
    files = evidence.files
    if len(files) > 1 or (files and files[0] != evidence.path):
        for file in files[:8]:
            try:
                size = human_size(file.stat().st_size)
            except OSError:
                size = "cannot be examined"
            yield "File", f"{printable_text(str(file))}  {size}"
        if len(files) > 8:
            yield "", f"and {len(files) - 8:,} more"


def _check_rows(check: EvidenceCheck, stored: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The hashes of the evidence before the work, and whether it had the same hashes afterwards."""
    for path, hashes in check.before.items():
        yield "SHA-256", f"{hashes.digests['sha256']}  {printable_text(str(path))}"
        if lost := sum(each.length for each in hashes.unreadable):
            yield "", f"{lost:,} bytes unreadable, hashed as zeros"
    as_stored = check.record(stored)["as_stored"]
    if as_stored is not None:
        yield "Stored hashes", "match the disk" if as_stored else "DIFFER from the disk"
    for text in comparison_texts(check.recorded, check.unproved):
        yield "Recorded hash", text
    if as_stored is None and not check.recorded:
        yield "Recorded hash", "neither the image nor a file beside it has hashes to compare with"
    changed = ", ".join(printable_text(str(path)) for path in check.changed)
    yield "During the work", f"CHANGED: {changed}" if changed else "unchanged"


def identity_rows(case: TriageReport) -> Iterator[tuple[str, str]]:
    """Facts about the file system."""
    summary, superblock = case.summary, case.summary.superblock
    blocks, size = superblock.blocks_count, superblock.block_size
    inodes, times = superblock.inodes_count, map(time_text, stored_times(superblock))
    made, mounted, written = times
    backup = ", read from a backup superblock" if superblock.group_number else ""
    yield "Kind", superblock.kind + backup
    yield "Label", printable(superblock.volume_name) or "none"
    yield "UUID", superblock.uuid_text
    used = human_size((blocks - summary.free_blocks) * size)
    yield "Size", f"{human_size(blocks * size)}, {used} in use"
    yield "Blocks", f"{blocks:,} of {human_size(size)}"
    yield "Inodes", f"{inodes - summary.free_inodes:,} in use of {inodes:,}"
    yield "Made", made
    if case.was_another:
        yield "Before it", "another file system; `ext4kit deleted IMAGE --lost` has its files"
    where = f" on {printable(superblock.last_mounted)}" if superblock.last_mounted else ""
    yield "Last mounted", f"{mounted}{where}, {count_text(superblock.mount_count, 'mount')}"
    yield "Last written", written
    yield "Written by", summary.writer.family
    yield "For recovery", "; ".join(summary.writer.effects) or "unknown"
    yield "Features", " ".join(superblock.features.readings)


def stored_times(superblock: Superblock) -> tuple[int | None, ...]:
    """Times of creation, last mount and last write, ns; None where none is stored."""
    times = (superblock.mkfs_time, superblock.mount_time, superblock.write_time)
    return tuple(seconds * NANOSECONDS if seconds else None for seconds in times)


def journal_rows(log: JournalFacts) -> Iterator[tuple[str, str]]:
    """Facts about the journal."""
    behind = f" and {count_text(log.fast_commits, 'fast commit')}" if log.fast_commits else ""
    states = {
        JournalState.NONE: "there are none, or they could not be read",
        JournalState.CLEAN: "clean: the file system was unmounted, or recovered",
        JournalState.TO_REPLAY: "not unmounted: "
        f"{count_text(log.to_replay, 'transaction')}{behind} replayed in memory",
        JournalState.LEFT: "not empty, but the file system is not marked for recovery",
    }
    yield "State", states[log.standing]
    if log.standing is JournalState.NONE:
        return
    yield "Size", human_size(log.size)
    if log.first is not None:
        yield "Transactions", f"{log.transactions:,}, from {log.first} to {log.last}"
    if log.since_ns is not None and log.until_ns is not None:
        yield "Oldest commit", time_text(log.since_ns)
        yield "Newest commit", time_text(log.until_ns)
        yield "Span", duration_text(log.until_ns - log.since_ns)
    yield "Goes back to", "the creation of the file system" if log.is_whole else "the oldest commit"
    breaks = [(log.unmounts, "unmount"), (log.power_cuts, "unclean shutdown"), (log.gaps, "gap")]
    yield "Gaps", ", ".join(count_text(*each) for each in breaks if each[0]) or "none"
    if log.backwards:
        yield "Clock", f"set back {count_text(log.backwards, 'time')} between commits"


def check_text(case: TriageReport) -> tuple[str, bool | None]:
    """(verdict as text, whether it is good); the second is None without a check."""
    health = case.summary.health
    if health is None:
        return "not checked", None
    if not health.is_clean:
        return count_text(health.findings.wrong, "finding"), False
    notes = sum(health.findings.counts.values())
    return "no defect" + (f", {count_text(notes, 'note')}" if notes else ""), True


def check_rows(case: TriageReport) -> list[tuple[str, Severity, int, str]]:
    """(code, severity, count, meaning) of the findings of the check, the worst first."""
    order = list(Severity)[::-1]
    counts = case.summary.health.findings.counts if case.summary.health else {}
    rows = [
        (code, CODES[code].severity, count, CODES[code].meaning) for code, count in counts.items()
    ]
    return sorted(rows, key=lambda row: (order.index(row[1]), -row[2], row[0]))


def sighting_path(one: Sighting) -> str:
    """Path of a sighting, or a text for an unknown path."""
    if IMAGE in one.seen:
        return "(the image)"
    if one.path is None:
        return "(path unknown)" if one.inode is None else f"(path unknown, inode {one.inode})"
    return shown(one.path) or "/"


def sighting_text(one: Sighting) -> str:
    """The evidence for a sighting, the grade of its file, and further details."""
    seen = ", ".join(SEEN.get(how, how) for how in one.seen if how not in _UNNAMED)
    parts = [seen + (f" ({one.grade})" if one.grade else "")] if seen else []
    if "there" in one.seen and one.mode is not None and stat.S_ISREG(one.mode):
        parts.append(mode_text(one.mode))
    if one.event is not None:
        times = one.event.mtimes
        change = (
            event_words(one.event)[1] if times is None else f"mtime set to {time_text(times[1])}"
        )
        parts.append(change)
    if one.lines is not None and one.lines.removal is not None:
        count = count_text(one.lines.count, "line")
        parts.append(f"{count} removed {removal_text(one.lines.removal)}")
    return "; ".join(filter(None, (*parts, printable_text(one.note))))


def line_texts(one: Sighting) -> list[str]:
    """The first lines that were removed from a log, and how many more there are."""
    if one.lines is None:
        return []
    texts = [printable(line.text) for line in one.lines.first[:LINES_SHOWN]]
    more = one.lines.count - len(texts)
    return [*texts, f"... {more:,} more"] if texts and more else texts


STEPS_SHOWN = 8
LINES_SHOWN = 3


def story_text(story: Sequence[StoryStep]) -> str:
    """The steps of a story with their times; a date is shown only where it changes."""
    if len(story) > STEPS_SHOWN:
        half = STEPS_SHOWN // 2
        between = f"... {len(story) - 2 * half:,} more ..."
        return " -> ".join((story_text(story[:half]), between, story_text(story[-half:])))
    day, parts = "", []
    for step in story:
        committed = "committed" if step.exact else "committed at the latest"
        times = [("", step.time), (committed, step.commit)]
        if step.time is not None and time_text(step.time) == time_text(step.commit):
            times = [(f"and {committed}", step.time)]
        told = []
        for name, moment in times:
            if moment is not None:
                date, _, clock = time_text(moment).rpartition(" ")
                text = f"{name} " * bool(name) + (f"{date} " if date != day else "") + clock
                told.append(f"({text})" if name == committed else text)
                day = date
        parts.append(" ".join((step.what, *told)))
    return " -> ".join(parts)


def session_text(one: SignSession) -> str:
    """When signs follow each other, and who was logged in."""
    span = time_text(one.start)
    if one.end > one.start:
        span += f", {duration_text(one.end - one.start)}"
    logins = dict.fromkeys(map(_login_text, one.logins))
    return f"{span}: {count_text(len(one.deeds), 'change')}" + (
        f"; logged in: {', '.join(logins)}" if logins else ""
    )


def _login_text(one: Login) -> str:
    host = f" from {printable(one.host)}" if one.host else ""
    return f"{printable(one.user)} on {printable(one.line)}{host}"


def deed_text(one: Deed) -> str:
    """What happened to a file, with its owner and its signs."""
    path = "(path unknown)" if one.path is None else shown(one.path) or "/"
    owner = "" if one.uid is None else f"uid {one.uid}, "
    return f"{one.what}  {path}  ({owner}{', '.join(one.codes)})"


def zero_length_path(one: ZeroLengthFile) -> str:
    """Path of a zero-length file, or a text for an unknown path."""
    return "(path unknown)" if one.path is None else shown(one.path)


def zero_length_text(one: ZeroLengthFile) -> str:
    """Description of a zero-length file."""
    how = "new, written, but without allocated blocks" if one.was_new else "truncated for rewriting"
    before = duration_text(max(one.crash_time - one.written, 0))
    hint = "" if one.was_new else "; `ext4kit versions` shows its earlier content"
    return f"{how}, {before} before the last commit{hint}"


def bin_width(bins: Bins) -> str:
    """Width of a bin as text: `3 hours`, `a day`."""
    seconds = bins.width // NANOSECONDS
    unit, word = next(each for each in SPANS if seconds % each[0] == 0)
    return f"{seconds // unit} {word}" if seconds > unit else f"1 {word[:-1]}"


def has_hours(case: TriageReport) -> bool:
    """Whether a chart of the last hours shows more than the chart of the whole period does."""
    span, hours = case.summary.activity.span, case.summary.activity.hours
    return bool(span and hours and hours.width < span.width)


def sightings_per_bin(case: TriageReport, bins: Bins) -> list[int]:
    """Number of sightings in each bin."""
    counts = [0] * len(bins)
    for one in case.summary.suspicions:
        for seen in one.sightings:
            place = ((seen.when or 0) - bins.start) // bins.width
            if 0 <= place < len(counts):
                counts[place] += 1
    return counts


def files_deleted(found: DeletionStats) -> int:
    """Number of deleted files, without contents that have no inode."""
    return found.total - sum(found.contents.values()) - found.fragments


def truncation_note(total: int, kept: int, command: str) -> str:
    """Note below a truncated table, "" for a complete one."""
    if total <= kept:
        return ""
    return f"{kept:,} of {total:,} are shown; `ext4kit {command}` gives all"


def elsewhere(bins: Bins) -> str:
    """A note with the number of times outside the range of a chart; "" for none."""
    parts = ((bins.before, "earlier"), (bins.after, "later"))
    return "".join(f", {count:,} {word}" for count, word in parts if count)
