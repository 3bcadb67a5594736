"""`ext4kit case report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ext4kit.cases.database import CaseDatabase
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.ledger import CaseJob, JobState, Ledger
from ext4kit.cases.tasks import PAGE, QUICK, RECORDS
from ext4kit.cli.case.common import case_option
from ext4kit.cli.options import CONTEXT, quiet_option
from ext4kit.cli.telling import tell_line
from ext4kit.errors import OutputError
from ext4kit.output.new_file import whole_file
from ext4kit.output.pouring import write_all
from ext4kit.report.case_page import MOST_SHARED, VolumeEntry, case_page, read_entry

_EXAMPLE = """\b
Examples:
  ext4kit case report
"""
_MOST_PLACES = 6  # of a shared content
_REPORT = "report"
_FACTS = {"case_number": "case", "operator": "operator"}


@click.command("report", context_settings=CONTEXT, epilog=_EXAMPLE)
@case_option
@quiet_option
def command(case: CaseFolder, quiet: bool) -> None:
    """Write index.html, the page of the case, from what is done so far.

    It has a row for each volume with its host, signs, deletions and the span of its journal; all
    hosts on one axis of time; the signs across hosts and in the order of time; files that several
    images have; and what could not be read or done. It links to the page of each volume, and needs
    no network.
    """
    with Ledger(case.ledger) as ledger, CaseDatabase(case.database) as database:
        facts = ledger.facts()
        entries = _entries(case, ledger)
        database.refresh()
        shared = _shared(database)
    named = {_FACTS[name]: value for name, value in facts.items() if name in _FACTS}
    pieces = case_page(facts.get("name", case.path.name), entries, shared, named)
    try:
        with whole_file(case.page) as handle:
            for piece in pieces:
                write_all(handle, piece.encode())
    except OSError as error:
        raise OutputError(f"{case.page}: {error.strerror}") from error
    if not quiet:
        tell_line(f"written: {case.page}")


def _entries(case: CaseFolder, ledger: Ledger) -> list[VolumeEntry]:
    """An entry for each volume, and for each image without one."""
    jobs: dict[int, list[CaseJob]] = {}
    for job in ledger.jobs():
        jobs.setdefault(job.volume.id, []).append(job)
    volumes = [volume for volume in ledger.volumes() if volume.is_ext]
    every = {volume.id: volume for volume in volumes}
    found = list[VolumeEntry]()
    for volume in volumes:
        if volume.id in jobs:
            found.append(_entry(case, jobs[volume.id]))
            continue
        note = "not examined yet; `ext4kit case run`"
        if volume.same_as is not None:
            same = every[volume.same_as]
            note = f"the same evidence as {same.image_name} volume {same.number}"
        found.append(VolumeEntry(volume.image_name, volume.number, volume.host, note=note))
    named = {volume.image for volume in volumes}
    for image in ledger.images():
        if image.id not in named:
            problem = image.problem or "no ext volume was found"
            found.append(VolumeEntry(image.name, problems=(problem,)))
    return sorted(found, key=lambda entry: (entry.image, entry.volume))


def _entry(case: CaseFolder, jobs: list[CaseJob]) -> VolumeEntry:
    volume = jobs[0].volume
    problems = [f"{job.task}: {job.message}" for job in jobs if job.state is JobState.FAILED]
    done = [job for job in jobs if job.state is JobState.DONE]
    named = {job.task: case.of_job(job) for job in done}
    folder = named.get(_REPORT) or named.get(_REPORT + QUICK)
    if folder is None:
        return VolumeEntry(volume.image_name, volume.number, volume.host, problems=tuple(problems))
    link = str(Path(folder / PAGE).relative_to(case.path))
    return read_entry(folder / RECORDS, volume.image_name, volume.number, volume.host, link,
                      problems)  # fmt: skip


def _shared(database: CaseDatabase) -> list[dict[str, Any]]:
    """Contents that several images have, each with its first places."""
    found = list(database.query("shared_files", limit=MOST_SHARED).by_column())
    for one in found:
        each = database.query("files_by_hash", {"sha256": str(one["sha256"])}, _MOST_PLACES + 1)
        rows = list(each.by_column())
        places = [f"{row['image']}: {row['path']} ({row['state']})" for row in rows[:_MOST_PLACES]]
        one["size"] = rows[0]["size"]
        one["places"] = "; ".join(places) + "; and more" * (len(rows) > _MOST_PLACES)
    return found
