"""`python -m benchmarks.growth`: time and memory of each command as the number of files grows.

The same recipe is made with 10,000 to 5,000,000 files. A peer of the same work runs in turn with
each command, the page cache warm. Results are stored after each command; the page is made from
them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.growth_image import build
from benchmarks.growth_page import (
    COMMANDS,
    MEGABYTE,
    Command,
    Figure,
    Growth,
    Image,
    Machine,
    Row,
    load,
    write,
)
from benchmarks.measure import Job, Run, run_once
from benchmarks.run import Attic, ext4kit
from sample_images.recipes.machine import SYSTEM_PATH, missing_for_kernel

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
LIMIT = 900.0  # seconds of one run
ENOUGH = 30.0  # seconds of all runs of one command; then it is not run again
ROOT = Path(__file__).resolve().parent.parent
SECTOR = 512  # unit of st_blocks
_CHUNK = 4 << 20
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Setting:
    """Where, how often and how long to measure.

    Attributes:
        work: keeps the images.
        runs: of one command at most.
        limit: seconds after which a run is ended.
    """

    work: Path
    runs: int
    limit: float


def warm(image: Path) -> int:
    """Read the image file into the page cache without its holes; the number of bytes read."""
    size, at, total = image.stat().st_size, 0, 0
    with image.open("rb", buffering=0) as file:
        while (at := _next_data(file.fileno(), at, size)) < size:
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            file.seek(at)
            total += end - at
            while at < end:
                at += len(file.read(min(_CHUNK, end - at)))
    return total


def _next_data(file: int, start: int, size: int) -> int:
    try:
        return os.lseek(file, start, os.SEEK_DATA)
    except OSError:  # ENXIO: only a hole is left
        return size


def figure(runs: list[Run], limit: float) -> Figure:
    """The median time and the largest peak of several runs."""
    seconds = statistics.median(run.seconds for run in runs)
    code = max((run.code for run in runs), key=abs)
    return Figure(seconds, max(run.peak for run in runs), code, code < 0 and seconds >= limit)


def measure(setting: Setting, command: Command, image: Path, peer_too: bool) -> Row:
    """One command on one image, its peer in turn."""
    files = int(image.name.split("-")[1])
    jobs = [_own_job(setting, command, image)]
    if peer_too:
        jobs.append(Job([*command.peer, image], limit=setting.limit))
    done: list[list[Run]] = [[] for _ in jobs]
    for _ in range(setting.runs):
        for job, runs in zip(jobs, done, strict=True):
            if sum(run.seconds for run in runs) < ENOUGH:
                warm(image)
                runs.append(run_once(job))
    figures = [figure(runs, setting.limit) for runs in done]
    return Row(command.key, files, figures[0], figures[1] if peer_too else None)


def _own_job(setting: Setting, command: Command, image: Path) -> Job:
    if "OUT" not in command.arguments:
        return Job(ext4kit(*command.arguments, "-q", str(image)), limit=setting.limit)
    out = setting.work / "out"
    arguments = [str(out) if part == "OUT" else part for part in command.arguments]
    line = ext4kit(*arguments, "-q", str(image))
    prepare = partial(Attic(setting.work / "attic").take, out)
    return Job(line, prepare=prepare, limit=setting.limit, writes=setting.work)


def measure_all(setting: Setting, sizes: list[int], commands: list[Command]) -> Iterator[Row]:
    """Every command on every size; a command or peer that reaches the limit is left out later."""
    ended: set[str] = set()
    peers_ended: set[str] = set()
    for files in sorted(sizes):
        image = build(setting.work, files)
        for command in commands:
            if command.key in ended:
                continue
            peer_too = _is_installed(command) and command.key not in peers_ended
            row = measure(setting, command, image, peer_too)
            if row.own.at_limit:
                ended.add(command.key)
            if row.peer and row.peer.at_limit:
                peers_ended.add(command.key)
            _remove_outputs(setting)
            yield row


def _is_installed(command: Command) -> bool:
    return bool(command.peer) and shutil.which(command.peer[0], path=SYSTEM_PATH) is not None


def _remove_outputs(setting: Setting) -> None:
    for name in ("out", "attic"):
        shutil.rmtree(setting.work / name, ignore_errors=True)


def machine() -> Machine:
    """What the figures depend on, in neutral words."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    names = sorted({command.peer[0] for command in COMMANDS if command.peer})
    peers = {name: _version(name) for name in names if shutil.which(name, path=SYSTEM_PATH)}
    return Machine(len(os.sched_getaffinity(0)), round(pages / (1 << 30)), peers)


def _version(name: str) -> str:
    """The version of a peer, which goes to either stream."""
    done = subprocess.run(
        [name, "-V"], capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": SYSTEM_PATH},
    )  # fmt: skip
    found = _VERSION.search(done.stdout + done.stderr)
    return found.group() if found else "of unknown version"


def merged(old: Growth | None, new: Growth) -> Growth:
    """The new results, and those of `old` that they do not replace."""
    if old is None:
        return new
    sizes = {image.files: image for image in (*old.images, *new.images)}
    rows = {(row.command, row.files): row for row in (*old.rows, *new.rows)}
    return replace(
        new,
        images=tuple(sizes[files] for files in sorted(sizes)),
        rows=tuple(rows[key] for key in sorted(rows)),
    )


def _run(chosen: argparse.Namespace) -> Growth:
    setting = Setting(chosen.work, chosen.runs, chosen.limit)
    chosen.work.mkdir(parents=True, exist_ok=True)
    old = load(chosen.json.read_text(encoding="utf-8")) if chosen.add and chosen.json else None
    growth = merged(old, Growth(machine(), setting.runs, ENOUGH, setting.limit, (), ()))
    for row in measure_all(setting, chosen.files, chosen.commands):
        print(_line(row), flush=True)
        found = _image(build(setting.work, row.files), row.files)
        growth = merged(growth, replace(growth, images=(found,), rows=(row,)))
        if chosen.json:
            chosen.json.write_text(growth.stored(), encoding="utf-8")
    return growth


def _image(path: Path, files: int) -> Image:
    found = path.stat()
    return Image(files, found.st_size, found.st_blocks * SECTOR)


def _line(row: Row) -> str:
    peer = f"{row.peer.seconds:>9.2f} s by the peer" if row.peer else ""
    note = ", at the limit" if row.own.at_limit else f", exit code {row.own.code}"
    return (
        f"{row.command:<15}{row.files:>10,} files{row.own.seconds:>9.2f} s"
        f"{row.own.peak / MEGABYTE:>8.0f} MB{peer}{note if row.own.code else ''}"
    )


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _commands(text: str) -> Sequence[Command]:
    known = {command.key: command for command in COMMANDS}
    try:
        return [known[key] for key in text.split(",")]
    except KeyError as unknown:
        raise argparse.ArgumentTypeError(f"{unknown} is none of {', '.join(known)}") from None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__)
    parser.add_argument("--work", type=Path, metavar="DIR", default=ROOT / "build/growth",
                        help="keeps the images from run to run (default build/growth)")  # fmt: skip
    parser.add_argument("--files", type=_sizes, default=list(SIZES), metavar="N,N...",
                        help="numbers of files (default 10000,100000,1000000,5000000)")  # fmt: skip
    parser.add_argument("--commands", type=_commands, default=COMMANDS, metavar="NAME,NAME...",
                        help=", ".join(command.key for command in COMMANDS))  # fmt: skip
    parser.add_argument("--runs", type=int, default=3, help="runs of a command (default 3)")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS",
                        help="end a run after this time (default 900)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the results as JSON")
    parser.add_argument("--add", action="store_true", help="keep other results in that FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page and its chart")
    parser.add_argument("--stored", type=Path, metavar="FILE",
                        help="measure nothing: take the results of FILE")  # fmt: skip
    return parser.parse_args()


def main() -> int:
    """Make the images, measure, store, write the page.

    Returns:
        The exit code: 0 also where no image can be made here.
    """
    chosen = _arguments()
    if chosen.stored:
        growth = load(chosen.stored.read_text(encoding="utf-8"))
    elif reason := missing_for_kernel():
        print(f"benchmark skipped: {reason}")
        return 0
    else:
        growth = _run(chosen)
    if chosen.page:
        write(growth, chosen.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
