"""The summary as JSON lines: a record a subject, then the lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ext4kit.recovery import DeletedFile, record
from ext4kit.report.hashes import evidence_record
from ext4kit.report.safe import json_name
from ext4kit.report.summary.case import Case
from ext4kit.report.timeline import event_record
from ext4kit.report.times import iso
from ext4kit.report.volumes import volume_record
from ext4kit.report.writer import writer_record
from ext4kit.summary import Bins, Sighting, Suspicion
from ext4kit.summary.victims import Victim


def summary_records(case: Case) -> Iterator[dict[str, Any]]:
    """Everything on the page; lists are as long as the page's tables."""
    summary = case.summary
    yield _report(case)
    yield evidence_record(case.evidence)
    yield from map(volume_record, case.evidence.volumes)
    yield _identity(case)
    yield writer_record(summary.writer)
    yield _health(case)
    yield {"record": "log", **asdict(summary.log), "standing": str(summary.log.standing)}
    yield _deletions(case)
    yield _activity(case)
    yield _disk(case)
    for one in summary.suspicions:
        yield _suspicion(one)
    for one in summary.suspicions:
        yield from (_sighting(one.rule.code, seen) for seen in one.sightings)
    yield from map(_victim, summary.victims[1])
    yield from map(_deleted, summary.deletions.listed)
    yield from map(event_record, summary.activity.listed)


def _report(case: Case) -> dict[str, Any]:
    return {
        "record": "report",
        "volume": case.volume.index,
        "command": case.command,
        "made_ns": case.made,
        "made_iso": iso(case.made),
        "version": case.version,
    }


def _identity(case: Case) -> dict[str, Any]:
    values = asdict(case.summary.identity)
    label, mounted = values.pop("label"), values.pop("last_mounted")
    times = {f"{name}_ns": values.pop(name) for name in ("made", "mounted", "written")}
    names = json_name(label, "label") | json_name(mounted, "last_mounted")
    more = {"was_another": case.was_another}
    return {"record": "file system", **names, **values, **times, **more}


def _health(case: Case) -> dict[str, Any]:
    health = case.summary.health
    if health is None:
        return {"record": "health", "checked": False}
    return {
        "record": "health",
        "checked": True,
        "wrong": health.wrong,
        "findings": {code: count for code, _, count, _ in health.findings},
        "inodes": health.inodes,
        "directories": health.directories,
        "blocks": health.blocks,
    }


def _bins(bins: Bins | None) -> dict[str, Any] | None:
    if bins is None:
        return None
    series = {name: list(counts) for name, counts in bins.series.items()}
    return {"start_ns": bins.start, "width_ns": bins.width, "series": series, "before": bins.before}


def _deletions(case: Case) -> dict[str, Any]:
    found = case.summary.deletions
    return {
        "record": "deletions",
        "total": found.total,
        "grades": {str(grade): count for grade, count in found.grades.items()},
        "bytes": {str(grade): count for grade, count in found.sizes.items()},
        "path_grounds": found.grounds,
        "removed_names": found.removed_names,
        "undated": found.undated,
        "searched": list(found.searched),
        "histogram": _bins(found.when),
        "largest": [_short(file) for file in found.largest],
        "listed": len(found.listed),
    }


def _short(file: DeletedFile) -> dict[str, Any]:
    path = {"path": None} if file.path is None else json_name(file.path)
    return {**path, "inode": file.number, "size": file.size, "grade": str(file.grade),
            "deleted_ns": file.moment}  # fmt: skip


def _activity(case: Case) -> dict[str, Any]:
    found = case.summary.activity
    return {
        "record": "activity",
        "events": found.events,
        "hints": found.hints,
        "kinds": found.kinds,
        "histogram": _bins(found.span),
        "hours": _bins(found.hours),
        "listed": len(found.listed),
    }


def _disk(case: Case) -> dict[str, Any]:
    disk = case.summary.disk
    return {
        "record": "disk map",
        "blocks_a_cell": disk.cell,
        "block_size": case.summary.identity.block_size,
        "totals": {str(use): blocks for use, blocks in disk.totals.items()},
        "cells": {str(use): counts.tolist() for use, counts in disk.counts.items()},
    }


def _suspicion(one: Suspicion) -> dict[str, Any]:
    rule = one.rule
    return {
        "record": "suspicion",
        "code": rule.code,
        "weight": str(rule.weight),
        "title": rule.title,
        "reason": rule.reason,
        "count": one.count,
        "listed": len(one.sightings),
    }


def _sighting(code: str, one: Sighting) -> dict[str, Any]:
    path = {"path": None} if one.path is None else json_name(one.path or b"/")
    return {
        "record": "sighting",
        "code": code,
        **path,
        "inode": one.inode,
        "generation": one.generation,
        "time_ns": one.when,
        "time_iso": None if one.when is None else iso(one.when),
        "seen": one.seen,
        "size": one.size,
        "mode": one.mode,
        "grade": None if one.grade is None else str(one.grade),
        "note": one.note or None,
        "event": None if one.event is None else event_record(one.event),
    }


def _victim(one: Victim) -> dict[str, Any]:
    path = {"path": None} if one.path is None else json_name(one.path)
    return {
        "record": "crash victim",
        **path,
        "inode": one.inode,
        "written_ns": one.written,
        "stopped_ns": one.stopped,
        "was_made": one.was_made,
    }


def _deleted(file: DeletedFile) -> dict[str, Any]:
    """As `deleted` gives it."""
    values = record(file, None)
    del values["output"], values["sha256"]
    return {"record": "deleted", **values}
