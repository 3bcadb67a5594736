"""The summary as JSON lines: one record for each subject, then the lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Annotated, Generic, Literal, NotRequired, TypedDict, TypeVar

from ext4kit import fields
from ext4kit.errors import path_text
from ext4kit.fields import Record, json_name
from ext4kit.logs.logins import Login
from ext4kit.recovery import Grade
from ext4kit.recovery.manifest import Trust
from ext4kit.report.deleted import FolderRecord, RemovedNames, deleted_record, folder_record
from ext4kit.report.hashes import evidence_record
from ext4kit.report.info import writer_record
from ext4kit.report.logs import LogLineRecord, RemovalFacts, log_record, removal_facts
from ext4kit.report.timeline import EventRecord, event_record
from ext4kit.report.triage.case import TriageReport, check_rows, stored_times
from ext4kit.report.volumes import volume_record
from ext4kit.triage import Bins, Indicator, Sighting, StoryStep
from ext4kit.triage.activity import CATEGORIES
from ext4kit.triage.deletions import GRADES
from ext4kit.triage.facts import MapCategory, Sort
from ext4kit.triage.rules.rule import Weight
from ext4kit.triage.suspicions.sessions import Deed, SignSession
from ext4kit.triage.suspicions.sighting import RemovedLines
from ext4kit.triage.victims import ZeroLengthFile


def summary_records(case: TriageReport) -> Iterator[Record]:
    """All content of the page as records; the lists are as long as the page's tables."""
    summary = case.summary
    report: ReportRecord = {
        "record": "report",
        "volume": case.volume.index,
        "command": case.command,
        "made_ns": case.made,
        "version": case.version,
        "operator": case.operator,
        "case_number": case.case_number,
        "left_out": case.left_out,
    }
    yield report
    yield evidence_record(case.evidence)
    yield from map(volume_record, case.evidence.volumes)
    yield _identity(case)
    yield writer_record(summary.writer)
    yield _check(case)
    yield {"record": "log", **asdict(summary.log), "standing": str(summary.log.standing)}
    yield _deletions(case)
    yield _activity(case)
    yield _disk(case)
    for one in summary.suspicions:
        yield _sign(one)
    for one in summary.suspicions:
        yield from (_sighting(one.rule.code, seen) for seen in one.sightings)
    yield from map(_session, summary.sessions)
    yield from map(_victim, summary.victims[1])
    yield from map(deleted_record, summary.deletions.listed)
    yield from map(event_record, summary.activity.listed)


class ReportRecord(TypedDict):
    """Evidence and program of a report (`report`)."""

    record: Literal["report"]
    volume: int
    command: str
    made_ns: int
    version: str
    operator: str | None
    case_number: str | None
    left_out: Annotated[tuple[str, ...], "Parts that were not searched or checked."]


class FileSystemRecord(TypedDict):
    """The file system (`report`)."""

    record: Literal["file system"]
    label: str
    label_bytes: NotRequired[fields.Exact]
    last_mounted: str
    last_mounted_bytes: NotRequired[fields.Exact]
    kind: fields.Kind
    uuid: fields.Uuid
    block_size: int
    blocks: int
    free_blocks: int
    inodes: int
    free_inodes: int
    features: tuple[str, ...]
    mounts: int
    is_backup: Annotated[bool, "True if a backup superblock was read."]
    checksum_ok: bool | None
    errors: Annotated[int, "Number of errors that the kernel recorded."]
    made_ns: int | None
    mounted_ns: int | None
    written_ns: int | None
    was_another: Annotated[
        bool, "True if there are traces of a file system that this one overwrote."
    ]


def _identity(case: TriageReport) -> FileSystemRecord:
    superblock = case.summary.superblock
    made, mounted, written = stored_times(superblock)
    return {
        "record": "file system",
        **json_name(superblock.volume_name, "label"),
        **json_name(superblock.last_mounted, "last_mounted"),
        "kind": superblock.kind,
        "uuid": superblock.uuid_text,
        "block_size": superblock.block_size,
        "blocks": superblock.blocks_count,
        "free_blocks": case.summary.free_blocks,
        "inodes": superblock.inodes_count,
        "free_inodes": case.summary.free_inodes,
        "features": tuple(superblock.features.readings),
        "mounts": superblock.mount_count,
        "is_backup": superblock.group_number != 0,
        "checksum_ok": superblock.checksum_ok,
        "errors": superblock.error_count,
        "made_ns": made,
        "mounted_ns": mounted,
        "written_ns": written,
        "was_another": case.was_another,
    }


class HealthRecord(TypedDict):
    """Result of the check of all structures (`report`)."""

    record: Literal["health"]
    checked: bool
    wrong: NotRequired[int]
    findings: NotRequired[dict[str, int]]
    inodes: NotRequired[int]
    directories: NotRequired[int]
    blocks: NotRequired[int]


def _check(case: TriageReport) -> HealthRecord:
    health = case.summary.health
    if health is None:
        return {"record": "health", "checked": False}
    return {
        "record": "health",
        "checked": True,
        "wrong": health.findings.wrong,
        "findings": {code: count for code, _, count, _ in check_rows(case)},
        "inodes": health.inodes,
        "directories": health.directories,
        "blocks": health.blocks,
    }


Series = TypeVar("Series", bound=str)  # the names of the series of a histogram


class Histogram(TypedDict, Generic[Series]):
    """Counts over time."""

    start_ns: Annotated[int, "Start of the first bin."]
    width_ns: Annotated[int, "Width of each bin."]
    series: Annotated[dict[Series, tuple[int, ...]], "One count per bin."]
    end_ns: Annotated[int, "The latest time that is counted."]
    before: Annotated[int, "Number before the first bin."]
    after: Annotated[int, "Number after the last bin."]


def _bins(bins: Bins | None, names: Iterable[Series]) -> Histogram[Series] | None:
    if bins is None:
        return None
    return {
        "start_ns": bins.start,
        "width_ns": bins.width,
        "series": {name: bins.series[name] for name in names},
        "end_ns": bins.end,
        "before": bins.before,
        "after": bins.after,
    }


class LargeFile(TypedDict):
    """One of the largest deleted files."""

    path: str | None
    path_bytes: NotRequired[fields.Exact]
    inode: int | None
    size: fields.Size | None
    grade: Grade
    deleted_ns: int | None


class DeletionsRecord(TypedDict):
    """Deletions over time (`report`)."""

    record: Literal["deletions"]
    total: int
    grades: dict[Grade, int]
    bytes: dict[Grade, int]
    path_grounds: Annotated[dict[str, int], "Deleted files with a path, by evidence for the path."]
    removed_names: RemovedNames
    undated: int
    searched: tuple[str, ...]
    histogram: Histogram[Grade] | None
    largest: list[LargeFile]
    together: Annotated[list[FolderRecord], "Files that were deleted together, by folder and time."]
    contents: Annotated[dict[str, int], "Number of carved files of each kind, without fragments."]
    fragments: Annotated[int, "Number of carved files that are probably only parts of files."]
    listed: int


def _deletions(case: TriageReport) -> DeletionsRecord:
    found = case.summary.deletions
    return {
        "record": "deletions",
        "total": found.total,
        "grades": found.grades,
        "bytes": found.sizes,
        "path_grounds": found.grounds,
        "removed_names": found.removed_names,
        "undated": found.undated,
        "searched": found.searched,
        "histogram": _bins(found.when, GRADES),
        "largest": [
            {
                **json_name(file.path),
                "inode": file.number,
                "size": file.size,
                "grade": file.grade,
                "deleted_ns": file.deletion_time,
            }
            for file in found.largest
        ],
        "together": [folder_record(each) for each in found.folders],
        "contents": found.contents,
        "fragments": found.fragments,
        "listed": len(found.listed),
    }


class ActivityRecord(TypedDict):
    """Events per hour, and the number of each kind (`report`)."""

    record: Literal["activity"]
    events: int
    hints: int
    kinds: dict[str, int]
    histogram: Histogram[Sort] | None
    hours: Histogram[Sort] | None
    listed: int


def _activity(case: TriageReport) -> ActivityRecord:
    found = case.summary.activity
    return {
        "record": "activity",
        "events": found.events,
        "hints": found.hints,
        "kinds": found.kinds,
        "histogram": _bins(found.span, CATEGORIES),
        "hours": _bins(found.hours, CATEGORIES),
        "listed": len(found.listed),
    }


class DiskMapRecord(TypedDict):
    """Use of the disk, cell by cell (`report`)."""

    record: Literal["disk map"]
    blocks_a_cell: int
    block_size: int
    totals: dict[MapCategory, int]
    cells: Annotated[dict[MapCategory, list[int]], "Blocks of each use, one count per cell."]


def _disk(case: TriageReport) -> DiskMapRecord:
    disk = case.summary.disk
    return {
        "record": "disk map",
        "blocks_a_cell": disk.cell,
        "block_size": case.summary.superblock.block_size,
        "totals": disk.totals,
        "cells": {use: counts.tolist() for use, counts in disk.counts.items()},
    }


class IndicatorRecord(TypedDict):
    """A rule for signs of tampering or intrusion that matched (`report`)."""

    record: Literal["sign"]
    code: str
    weight: Weight
    title: str
    reason: str
    attack: Annotated[list[str], "Techniques of MITRE ATT&CK."]
    count: fields.Count
    listed: int


def _sign(one: Indicator) -> IndicatorRecord:
    rule = one.rule
    return {
        "record": "sign",
        "code": rule.code,
        "weight": rule.weight,
        "title": rule.title,
        "reason": rule.reason,
        "attack": list(rule.attack),
        "count": one.count,
        "listed": len(one.sightings),
    }


class StepRecord(TypedDict):
    """A step of the story of a file."""

    what: str
    time_ns: Annotated[int | None, "By the inode: creation, deletion, or last change by then."]
    commit_ns: Annotated[int | None, "Commit time of the transaction that shows it."]
    transaction: fields.Transaction | None
    exact: Annotated[bool, "False: in this transaction or in an earlier one."]


def _step(one: StoryStep) -> StepRecord:
    return {
        "what": one.what,
        "time_ns": one.time,
        "commit_ns": one.commit,
        "transaction": one.transaction,
        "exact": one.exact,
    }


class RemovedLinesFacts(TypedDict):
    """Lines that were removed from a log at once."""

    count: fields.Count
    proof: Annotated[RemovalFacts | None, "Null for records that were filled with zeros."]
    first: Annotated[list[LogLineRecord], "The first ones; none of records that are zeros."]


class _Lines(TypedDict):
    lines: NotRequired[Annotated[RemovedLinesFacts, "Only for lines removed from a log."]]


class SightingRecord(fields.PathOrNone, _Lines):
    """One place where such a rule matched (`report`)."""

    record: Literal["sighting"]
    code: str
    inode: fields.Inode | None
    generation: fields.Generation | None
    time_ns: int | None
    seen: list[str]
    size: Annotated[int | None, "Bytes."]
    mode: fields.Mode | None
    grade: Trust | None
    note: str | None
    event: EventRecord | None
    story: Annotated[list[StepRecord], "Events of the file, oldest first."]


def _sighting(code: str, one: Sighting) -> SightingRecord:
    return {
        "record": "sighting",
        "code": code,
        **json_name(one.path if one.path is None else one.path or b"/"),
        "inode": one.inode,
        "generation": one.generation,
        "time_ns": one.when,
        "seen": one.seen,
        "size": one.size,
        "mode": one.mode,
        "grade": one.grade,
        "note": one.note or None,
        "event": None if one.event is None else event_record(one.event),
        "story": list(map(_step, one.story)),
        **_lines(one.lines),
    }


def _lines(found: RemovedLines | None) -> _Lines:
    if found is None:
        return {}
    removal = found.removal
    return {
        "lines": {
            "count": found.count,
            "proof": None if removal is None else removal_facts(removal),
            "first": list(map(log_record, found.first)),
        }
    }


class LoginFacts(TypedDict):
    """A user who was logged in."""

    user: str
    terminal: str
    host: str
    start_ns: int
    end_ns: Annotated[int | None, "Null if no logout is recorded."]


class DeedRecord(fields.PathOrNone):
    """Something that happened to a file of a sign."""

    time_ns: int
    what: str
    inode: fields.Inode | None
    generation: fields.Generation | None
    uid: int | None
    codes: Annotated[list[str], "Rules that the file matches."]


class SessionRecord(TypedDict):
    """Deeds of signs without a long pause between them (`report`)."""

    record: Literal["session"]
    start_ns: int
    end_ns: int
    logins: Annotated[list[LoginFacts], "Users who were logged in, by the records of the system."]
    deeds: list[DeedRecord]


def _session(one: SignSession) -> SessionRecord:
    return {
        "record": "session",
        "start_ns": one.start,
        "end_ns": one.end,
        "logins": list(map(_login, one.logins)),
        "deeds": list(map(_deed, one.deeds)),
    }


def _login(one: Login) -> LoginFacts:
    return {
        "user": path_text(one.user),
        "terminal": path_text(one.line),
        "host": path_text(one.host),
        "start_ns": one.start,
        "end_ns": one.end,
    }


def _deed(one: Deed) -> DeedRecord:
    return {
        **json_name(one.path if one.path is None else one.path or b"/"),
        "time_ns": one.time,
        "what": one.what,
        "inode": one.inode,
        "generation": one.generation,
        "uid": one.uid,
        "codes": list(one.codes),
    }


class VictimRecord(fields.PathOrNone):
    """A file that a crash left empty (`report`)."""

    record: Literal["crash victim"]
    inode: fields.Inode
    written_ns: int | None
    stopped_ns: int | None
    was_made: Annotated[bool, "True: the file was new; false: it was truncated to be rewritten."]


def _victim(one: ZeroLengthFile) -> VictimRecord:
    return {
        "record": "crash victim",
        **json_name(one.path),
        "inode": one.inode,
        "written_ns": one.written,
        "stopped_ns": one.crash_time,
        "was_made": one.was_new,
    }
