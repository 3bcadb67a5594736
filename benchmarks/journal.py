"""`python -m benchmarks.journal`: a full log of 1 GiB, audited and listed, beside a plain `cat`.

The log is written by the kernel with data=journal until it has come round. Every figure is the
median of several runs after a warm-up, all commands in turn, the image in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import Job, Measured, compare
from benchmarks.run import ext4kit
from sample_images.recipes.machine import (
    loop_device,
    make_file_system,
    missing_for_kernel,
    mount,
    run,
    unmount,
)

LOG_BYTES = 1 << 30
IMAGE_BYTES = 3 << 30
WRITE_BYTES = 56 << 20  # a file that is written over and over
FILES = 4
LAPS = 1.25  # how often the log is filled
MEGABYTE = 1_000_000
LEAST_SPEED = 300 * MEGABYTE  # bytes a second
MOST_MEMORY = 600 * MEGABYTE  # bytes


@dataclass(frozen=True, slots=True)
class Figure:
    """One command's figures.

    Attributes:
        name: the command.
        measured: medians.
        speed: bytes of the log a second.
        met: whether the targets are met, None where there are none.
    """

    name: str
    measured: Measured
    speed: float
    met: bool | None


def build(image: Path) -> None:
    """A file system with a log of 1 GiB that the kernel has filled."""
    make_file_system(image, IMAGE_BYTES, ("-t", "ext4", "-J", f"size={LOG_BYTES >> 20}"))
    with loop_device(image) as device, tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        mount(device, place, "data=journal")
        try:
            _fill(place)
        finally:
            unmount(place)


def _fill(place: Path) -> None:
    for turn in range(int(LAPS * LOG_BYTES / WRITE_BYTES)):
        with (place / f"file-{turn % FILES}").open("wb") as file:
            for _ in range(WRITE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())


def measure(image: Path, log: Path, runs: int) -> list[Figure]:
    """Audit, list and cat in turn.

    Args:
        image: the file system.
        log: the bytes of its log alone.
        runs: of each.
    """
    names = ("journal audit", "journal list", "cat")
    commands = [ext4kit(*name.split(), str(image)) for name in names[:2]] + [["cat", str(log)]]
    figures = compare([Job(command) for command in commands], runs)
    return [_figure(name, each) for name, each in zip(names, figures, strict=True)]


def _figure(name: str, measured: Measured) -> Figure:
    speed = LOG_BYTES / measured.seconds
    fast = speed >= LEAST_SPEED and measured.peak < MOST_MEMORY and measured.code == 0
    return Figure(name, measured, speed, None if name == "cat" else fast)


def _line(figure: Figure) -> str:
    measured = figure.measured
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    return (
        f"{figure.name:<15}{measured.seconds:>7.2f} s{measured.cpu:>7.2f} s of CPU"
        f"{figure.speed / MEGABYTE:>8.0f} MB/s{measured.peak / MEGABYTE:>7.0f} MB  {verdict}"
    )


def main() -> int:
    """Build, measure, print; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", type=Path, help="made there when missing, and kept")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        image = arguments.image or Path(folder) / "log.img"
        if not image.exists():
            if reason := missing_for_kernel():
                sys.exit(f"the image cannot be made here: {reason}")
            build(image)
        log = Path(folder) / "log"
        run("debugfs", "-R", f"dump <8> {log}", image)
        figures = measure(image, log, arguments.runs)
    for figure in figures:
        print(json.dumps(asdict(figure)) if arguments.json else _line(figure))
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
