"""`python -m benchmarks.tasks`: everyday tasks, their commands and seconds; docs/tasks.md."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.measure import Job, Measured, compare

MEGABYTE = 1_000_000
RUNS = 3
HOUR = timedelta(hours=1)

PAGE = """# Everyday tasks

For each everyday task, this page shows the command and the seconds that it takes. It is written by
`make bench-tasks`. Each figure is the median of {runs} runs, with the image in the page cache. MB
is the peak of resident memory, in millions of bytes. A narrower selection is faster: paths and
times are checked before the content of files is read.

{tables}
"""
TABLE = """## {title}

{text}

| task | command | seconds | MB | result |
|---|---|---:|---:|---|
{rows}
"""
DISK = """The disk has 10 GiB, two volumes and 400,000 files; `python -m benchmarks.tasks_image`
makes it. More than a day after the files were created, 20 pictures, a thesis and a note were
deleted, and a program was saved over."""
DEBIAN = """The image is made by the recipe `debian` of the sample images: a Debian server of 1 GiB,
on which packages were purged and an intruder deleted files before the power was cut."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question and the words of the command that answers it; OUT stands for a new folder."""

    question: str
    words: Sequence[str]


def disk_tasks(made: datetime) -> list[Task]:
    """Those of the large disk, finished at that time."""
    hours_ago, yesterday = _text(made - 2 * HOUR), _text(made - 24 * HOUR)
    data = ("--volume", "2")
    return [
        Task("One file by its path", ("recover", *data, "/home/me/thesis.odt", "-o", "OUT")),
        Task("Everything deleted in the last two hours",
             ("deleted", *data, "--deleted-since", hours_ago)),
        Task("All pictures", ("recover", *data, "--kind", "pictures", "-o", "OUT")),
        Task("A folder as of yesterday",
             ("extract", *data, "/home/me/project", "--as-of", yesterday, "-o", "OUT")),
        Task("Deleted files of all volumes", ("deleted", "--all-volumes", "--sources", "journal")),
        Task("What happened from one time to another",
             ("timeline", *data, "--since", hours_ago, "--until", _text(made))),
        Task("A first page of a report", ("report", *data, "--quick")),
    ]  # fmt: skip


def debian_tasks(made: datetime) -> list[Task]:
    """Those of the Debian sample, finished at that time."""
    hours_ago, later = _text(made - 2 * HOUR), _text(made + timedelta(minutes=1))
    return [
        Task("One file by its path", ("recover", "/tmp/loot.tar.gz", "-o", "OUT")),
        Task("Everything deleted in the last two hours", ("deleted", "--deleted-since", hours_ago)),
        Task("All archives", ("recover", "--kind", "archives", "-o", "OUT")),
        Task("A folder as of an earlier time",
             ("extract", "/tmp", "--as-of", _text(made - timedelta(seconds=20)), "-o", "OUT")),
        Task("What happened from one time to another",
             ("timeline", "--since", hours_ago, "--until", later, "--no-hints")),
        Task("A first page of a report", ("report", "--quick")),
        Task("The whole report", ("report",)),
    ]  # fmt: skip


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def measured_rows(image: Path, tasks: Sequence[Task], work: Path) -> Iterator[str]:
    """A row of the table for each task."""
    out, said = work / "out", work / "said"
    for task in tasks:
        words = [str(out) if word == "OUT" else word for word in task.words]
        command = [sys.executable, "-m", "ext4kit", words[0], str(image), *words[1:]]
        clear = partial(shutil.rmtree, out, ignore_errors=True)
        result = compare([Job(command, said, prepare=clear)], RUNS)[0]
        print(f"{result.seconds:8.2f} s  {task.question}", flush=True)
        text = said.read_text(encoding="utf-8").replace(str(out), "OUT")
        yield _row(task, image.name, result, text)


def _row(task: Task, image: str, result: Measured, said: str) -> str:
    shown = shlex.join(["ext4kit", task.words[0], image, *task.words[1:]]).replace("|", "\\|")
    lines = [line for line in said.splitlines() if line.strip()]
    counted = [line for line in lines if line[0].isdigit() and task.words[0] != "timeline"]
    told = "; ".join(counted) or f"{len(lines):,} lines"
    code = f", exit code {result.code}" if result.code else ""
    figures = f"{result.seconds:.2f} | {result.peak / MEGABYTE:.0f}"
    return f"| {task.question} | `{shown}` | {figures} | {told}{code} |"


def main() -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks")
    parser.add_argument("--disk", type=Path, required=True, help="of benchmarks.tasks_image")
    parser.add_argument("--debian", type=Path, help="image of the recipe of that name")
    parser.add_argument("--page", type=Path, required=True, help="the page to write")
    chosen = parser.parse_args()
    given = [(chosen.disk, disk_tasks, "A disk of 10 GiB", DISK)]
    if chosen.debian:
        given.append((chosen.debian, debian_tasks, "A Debian server", DEBIAN))
    tables = []
    with tempfile.TemporaryDirectory() as name:
        for image, tasks, title, text in given:
            made = datetime.fromtimestamp(image.stat().st_mtime, UTC)
            subprocess.run(["cat", image], stdout=subprocess.DEVNULL, check=True)
            rows = "\n".join(measured_rows(image, tasks(made), Path(name)))
            tables.append(TABLE.format(title=title, text=text, rows=rows))
    chosen.page.write_text(PAGE.format(runs=RUNS, tables="\n".join(tables)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
