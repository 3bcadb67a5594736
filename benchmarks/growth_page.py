"""The page of `benchmarks.growth` from its stored results: tables, exponents, chart."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import growth_image as recipe
from benchmarks.growth_chart import Curve, chart

MEGABYTE = 1_000_000
LARGE = 100_000  # files from which on start-up no longer counts
SECONDS, PEAK = "seconds", "peak"

PAGE = """# Growth

This page shows the time and memory that commands need as the number of files grows. It is written
by `make bench-growth`; `python -m benchmarks.growth --stored benchmarks/growth.json --page
docs/growth.md` makes the page from the stored results.

## How it is measured

The running kernel makes each image by the same recipe; only the number of files differs. It creates
the files in directories of {directory_files}, in the order of their numbers. One file in {every}
has a content of 1 to {largest:,} bytes; the others are empty. After a remount 15 in 100 files are
deleted: single files, runs of 17 files and runs of 50 files. Then changes of the modes of
{ballast:,} other files, which are part of the count, overwrite the journal of {journal} MiB {laps}
times. Therefore the journal holds none of the deletions, and its size is the same in all images.
`mke2fs -N` gives an inode for each file; all other features are the defaults.

{images}

{figures} The data of the image file is read into the page cache before each run. ext4kit runs with
`-q`, and standard output goes to `/dev/null`. MB is the peak of resident memory, in millions of
bytes. The peer and the command run alternately. The ratio is the time of the peer divided by that
of ext4kit; if it is above 1, ext4kit is faster. `export` also searches the unallocated space for
deleted files, which `fls` does not. A run is stopped after {limit:.0f} seconds; the command is then
not run on larger images. Machine: {cores} cores, {memory} GiB of memory. Peers: {peers}.

## Exponents

Each exponent is a least-squares fit of the logarithm of time or memory to the logarithm of the
number of files; an exponent of 1 means linear growth. In the columns for all sizes, the time and
memory of the start-up lower the exponent. Runs that reached the time limit are not counted. A dash
means that fewer than two sizes are left.

{exponents}

![Time and memory against the number of files]({chart})

{tables}
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to measure.

    Attributes:
        key: names it in options and in stored results.
        arguments: of ext4kit, without the image; OUT stands for a new directory.
        peer: command line of the same work, without the image; empty when there is none.
    """

    key: str
    arguments: tuple[str, ...]
    peer: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The command as it is typed."""
        return " ".join(self.arguments)


COMMANDS = (
    Command("ls", ("ls", "-r"), ("fls", "-rp")),
    Command("ls-long", ("ls", "-r", "-l"), ("fls", "-rlp")),
    Command("verify", ("verify",), ("e2fsck", "-fn")),
    Command("timeline", ("timeline",)),
    Command("deleted-blocks", ("deleted", "--sources", "journal,blocks")),
    Command("deleted", ("deleted",)),
    Command("export", ("export", "--bodyfile", "-"), ("fls", "-m", "/", "-r")),
    Command("recover", ("recover", "-o", "OUT")),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """What the runs of one command line gave.

    Attributes:
        seconds: wall time, the median.
        peak: bytes resident at most.
        code: exit code, negative when a signal ended it.
        at_limit: whether it was ended at the time limit.
    """

    seconds: float
    peak: int
    code: int
    at_limit: bool

    @property
    def is_valid(self) -> bool:
        """Whether it ran to its end; exit code 1 reports findings or problems of the evidence."""
        return self.code in (0, 1)


@dataclass(frozen=True, slots=True)
class Row:
    """A command on one image: `own` of ext4kit, `peer` of the peer if it ran."""

    command: str
    files: int
    own: Figure
    peer: Figure | None


@dataclass(frozen=True, slots=True)
class Image:
    """Size and allocated bytes of the image file with so many files."""

    files: int
    size: int
    allocated: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores, GiB of memory, and the versions of the peers by name."""

    cores: int
    memory: int
    peers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Growth:
    """All results, as they are stored.

    Attributes:
        runs: of one command at most.
        enough: seconds of its runs after which it is not run again.
        limit: seconds after which a run is ended.
    """

    machine: Machine
    runs: int
    enough: float
    limit: float
    images: tuple[Image, ...]
    rows: tuple[Row, ...]

    def stored(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"


def load(text: str) -> Growth:
    """The results that `Growth.stored` wrote."""
    record: dict[str, Any] = json.loads(text)
    rows = [
        Row(row["command"], row["files"], Figure(**row["own"]), _optional(row["peer"]))
        for row in record["rows"]
    ]
    images = tuple(Image(**image) for image in record["images"])
    machine = Machine(**record["machine"])
    return Growth(machine, record["runs"], record["enough"], record["limit"], images, tuple(rows))


def _optional(record: dict[str, Any] | None) -> Figure | None:
    return None if record is None else Figure(**record)


def exponent(points: Iterable[tuple[float, float]]) -> float | None:
    """The slope of log y over log x by least squares; None without two different x."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    if len({x for x, _ in logs}) < 2:
        return None
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def points_of(rows: Iterable[Row], key: str, value: str, least: int = 0) -> list[tuple[int, float]]:
    """(files, value) of one command's runs that came to their end, on images of `least` files."""
    return [
        (row.files, getattr(row.own, value))
        for row in rows
        if row.command == key and row.files >= least and row.own.is_valid
    ]


def write(growth: Growth, page: Path) -> None:
    """Write the page, and the chart into the directory `images` beside it."""
    picture = Path("images") / f"{page.stem}.svg"
    page.with_name("images").mkdir(exist_ok=True)
    (page.parent / picture).write_text(chart_of(growth), encoding="utf-8")
    page.write_text(page_of(growth, picture.as_posix()), encoding="utf-8")


def page_of(growth: Growth, picture: str) -> str:
    """The page as Markdown; `picture` is the path of the chart."""
    machine = growth.machine
    return PAGE.format(
        directory_files=recipe.DIRECTORY_FILES,
        every=recipe.CONTENT_EVERY,
        largest=recipe.LARGEST,
        ballast=recipe.BALLAST,
        journal=recipe.JOURNAL_MEBIBYTES,
        laps=recipe.LAPS,
        images=_image_table(growth.images),
        figures=_figures(growth),
        limit=growth.limit,
        cores=machine.cores,
        memory=machine.memory,
        peers=", ".join(f"{name} {version}" for name, version in machine.peers.items()) or "none",
        exponents=_exponent_table(growth.rows),
        chart=picture,
        tables="\n\n".join(_section(command, growth) for command in _measured(growth.rows)),
    )


def _figures(growth: Growth) -> str:
    """What a figure is, in a sentence or two."""
    if growth.runs == 1:
        return "Each figure is that of one run."
    return (
        f"Each figure is the median of up to {growth.runs} runs. A command whose runs have taken "
        f"{growth.enough:.0f} seconds\nis not run again."
    )


def _measured(rows: Sequence[Row]) -> Iterator[Command]:
    keys = {row.command for row in rows}
    return (command for command in COMMANDS if command.key in keys)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 0) -> str:
    """A Markdown table whose columns from `left` on are flush right."""
    rules = ["---"] * left + ["---:"] * (len(headings) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rules, *rows))


def _image_table(images: Iterable[Image]) -> str:
    rows = [(f"{one.files:,}", _megabytes(one.size), _megabytes(one.allocated)) for one in images]
    return _table(("files", "image, MB", "allocated in the image file, MB"), rows)


def _exponent_table(rows: Sequence[Row]) -> str:
    """A row per command."""
    lines = []
    for command in _measured(rows):
        fits = [
            exponent(points_of(rows, command.key, value, least))
            for value in (SECONDS, PEAK)
            for least in (LARGE, 0)
        ]
        cells = ["-" if fit is None else f"{fit:.2f}" for fit in fits]
        lines.append([f"`{command.title}`", *cells])
    start = f"from {LARGE:,} files"
    headings = ("command", f"time, {start}", "time, all", f"memory, {start}", "memory, all")
    return _table(headings, lines, 1)


def _section(command: Command, growth: Growth) -> str:
    """The heading and table of one command, with a line for images that were left out."""
    rows = [row for row in growth.rows if row.command == command.key]
    headings = ["files", "seconds", "MB"]
    if command.peer:
        headings += [f"`{' '.join(command.peer)}`, seconds", "ratio"]
    lines = [_cells(row, len(headings)) for row in sorted(rows, key=lambda row: row.files)]
    return f"## `{command.title}`\n\n{_table(headings, lines)}"


def _cells(row: Row, number: int) -> list[str]:
    own, peer = row.own, row.peer
    cells = [f"{row.files:,}", _seconds(own), _megabytes(own.peak) if own.is_valid else ""]
    both = peer is not None and own.is_valid and peer.is_valid
    cells += [_seconds(peer), f"{peer.seconds / own.seconds:.2f}" if peer and both else ""]
    return cells[:number]


def _seconds(figure: Figure | None) -> str:
    if figure is None:
        return "not run"
    if figure.at_limit:
        return f"limit ({figure.seconds:.0f})"
    if not figure.is_valid:
        return f"failed ({figure.code})"
    return f"{figure.seconds:.2f}" if figure.seconds < 100 else f"{figure.seconds:.0f}"


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:,.0f}"


def chart_of(growth: Growth) -> str:
    """The chart as SVG: time and memory against files."""
    panels = []
    for title, value, unit in (("Time, seconds", SECONDS, 1), ("Memory, MB", PEAK, MEGABYTE)):
        curves = [
            Curve(command.title, [(x, y / unit) for x, y in sorted(points)])
            for command in _measured(growth.rows)
            if (points := points_of(growth.rows, command.key, value))
        ]
        panels.append((title, curves))
    return chart("Time and memory against the number of files", "files", panels)
