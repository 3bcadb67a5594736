"""A case as lines and records: images that were added, and the state of the jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from ext4kit.cases.jobs import JobResult
from ext4kit.cases.ledger import CaseJob, JobState, LedgerImage, LedgerVolume
from ext4kit.cases.tasks import SCAN, is_scan
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import human_size, table_lines, wrapped
from ext4kit.units import NANOSECONDS


class AddedVolume(TypedDict):
    """A volume of an image of a case."""

    number: int
    kind: str
    label: str
    uuid: str
    size: int
    host: Annotated[str, "The name in /etc/hostname; empty for none."]
    same_as: Annotated[str | None, "The volume that is the same evidence; null for none."]


class AddedRecord(TypedDict):
    """An image that was added to a case (`case add`)."""

    record: Literal["case image"]
    name: str
    path: str
    format: str
    size: int
    problem: Annotated[str, "Why it could not be opened; empty if it was."]
    volumes: list[AddedVolume]


class CaseAnswerRecord(TypedDict):
    """A row of the answer to a question about a case (`case query`)."""

    record: Literal["case answer"]
    query: str
    row: Annotated[
        dict[str, str | int | float | None],
        "By column; docs/case-database.md describes them. Bytes are in hexadecimal.",
    ]


class CaseJobRecord(TypedDict):
    """A job of a case, and its last try (`case status`)."""

    record: Literal["case job"]
    image: str
    volume: int
    host: str
    task: str
    state: JobState
    tries: int
    seconds: Annotated[float | None, "Time of the last try; null if it has not ended."]
    processor_seconds: float | None
    memory: Annotated[int | None, "Bytes, the most at one time."]
    exit_code: int | None
    message: str
    folder: Annotated[str, "Of its outputs, in the folder of the case."]
    started_ns: int | None


def added_record(
    image: LedgerImage, volumes: Sequence[LedgerVolume], every: Mapping[int, LedgerVolume]
) -> AddedRecord:
    """An image that was added, as a record."""
    return {
        "record": "case image", "name": image.name, "path": printable_text(image.path),
        "format": image.form, "size": image.size, "problem": image.problem,
        "volumes": [
            {"number": one.number, "kind": one.kind, "label": one.label, "uuid": one.uuid,
             "size": one.size, "host": one.host,
             "same_as": None if one.same_as is None else _place(every[one.same_as])}
            for one in volumes
        ],
    }  # fmt: skip


def added_lines(
    image: LedgerImage, volumes: Sequence[LedgerVolume], every: Mapping[int, LedgerVolume]
) -> Iterator[str]:
    """An image that was added, and its volumes."""
    name = printable_text(image.name)
    if image.problem:
        yield f"{name}: cannot be opened: {image.problem}"
        return
    kinds = [one for one in volumes if one.is_ext]
    yield f"{name}: {image.form}, {human_size(image.size)}, {count_text(len(kinds), 'ext volume')}"
    for one in volumes:
        host = f", host {one.host}" if one.host else ""
        label = f" {one.label!r}" if one.label else ""
        text = f"  volume {one.number}: {one.kind}{label}, {human_size(one.size)}{host}"
        if one.same_as is not None:
            text += f"; the same evidence as {_place(every[one.same_as])}, not examined again"
        yield text


def _place(volume: LedgerVolume) -> str:
    return printable_text(f"{volume.image_name} volume {volume.number}")


def job_line(job: CaseJob, result: JobResult) -> str:
    """How a job ended, in a line."""
    took = f"{result.ended - result.started:.1f} s"
    what = f"{_place(job.volume)}: {job.task}"
    if result.is_done:
        return f"{what}: done in {took}" + ", with problems" * bool(result.exit_code)
    return f"{what}: failed after {took}: {result.message}"


def job_record(job: CaseJob) -> CaseJobRecord:
    """A job as a record."""
    seconds = None
    if job.started is not None and job.ended is not None:
        seconds = job.ended - job.started
    return {
        "record": "case job", "image": printable_text(job.volume.image_name),
        "volume": job.volume.number, "host": job.volume.host, "task": job.task,
        "state": job.state, "tries": job.tries,
        "seconds": seconds,
        "processor_seconds": job.processor_seconds, "memory": job.memory,
        "exit_code": job.exit_code, "message": job.message,
        "folder": printable_text(f"images/{job.folder}"),
        "started_ns": None if job.started is None else int(job.started * NANOSECONDS),
    }  # fmt: skip


def status_lines(
    images: Sequence[LedgerImage],
    volumes: Sequence[LedgerVolume],
    jobs: Sequence[CaseJob],
    now: float,
) -> Iterator[str]:
    """A row for each volume, with the state of each of its jobs; then what failed."""
    yield from _table(jobs, now)
    for job in jobs:
        if job.state is JobState.FAILED:
            yield f"failed: {_place(job.volume)} {job.task}: {job.message}"
    every = {volume.id: volume for volume in volumes}
    with_ext = {volume.image for volume in volumes if volume.is_ext}
    for image in images:
        if image.problem:
            yield f"cannot be opened: {printable_text(image.name)}: {image.problem}"
        elif image.id not in with_ext:
            yield f"no ext volume: {printable_text(image.name)}"
    for volume in volumes:
        if volume.same_as is not None:
            yield f"the same evidence: {_place(volume)} as {_place(every[volume.same_as])}"
    states = Counter(job.state for job in jobs)
    told = ", ".join(f"{states[state]:,} {state}" for state in JobState if states[state])
    yield f"{count_text(len(jobs), 'job')}: {told or 'none'}"
    yield from wrapped(_advice(states))


def _table(jobs: Sequence[CaseJob], now: float) -> list[str]:
    tasks = list(dict.fromkeys(_column(job) for job in jobs))
    rows: dict[int, dict[str, list[CaseJob]]] = {}
    for job in jobs:
        rows.setdefault(job.volume.id, {}).setdefault(_column(job), []).append(job)
    cells = []
    for _, each in sorted(rows.items()):
        volume = next(iter(each.values()))[0].volume
        states = (_states(each.get(task, []), now) for task in tasks)
        cells.append(
            [printable_text(volume.image_name), str(volume.number), volume.host or "-", *states]
        )
    return table_lines(["image", "volume", "host", *tasks], cells)


def _advice(states: Counter[JobState]) -> Iterator[str]:
    """What to do next."""
    if not states:
        yield "`ext4kit case add IMAGE` adds images, `ext4kit case run` examines them."
    elif states[JobState.WAITING] or states[JobState.RUNNING]:
        yield "`ext4kit case run` goes on with those that wait."
    elif states[JobState.FAILED]:
        yield "`ext4kit case run --retry` tries again what failed."
    else:
        yield "`ext4kit case report` writes the page, `ext4kit case query` asks the database."


def _column(job: CaseJob) -> str:
    """Name of the column of a job; all parts of a scan have one."""
    return SCAN if is_scan(job.task) else job.task


def _states(jobs: Sequence[CaseJob], now: float) -> str:
    """The state of a job, or of the parts of a scan."""
    if not jobs:
        return "-"
    if not is_scan(jobs[0].task):
        return _state(jobs[0], now)
    states = Counter(job.state for job in jobs)
    return ", ".join(f"{states[state]:,} {state}" for state in JobState if states[state])


def _state(job: CaseJob, now: float) -> str:
    if job.state is JobState.DONE and job.started is not None and job.ended is not None:
        return f"done {job.ended - job.started:.0f} s" + "!" * bool(job.exit_code)
    if job.state is JobState.RUNNING and job.started is not None:
        return f"running {max(now - job.started, 0):.0f} s"
    return str(job.state)
