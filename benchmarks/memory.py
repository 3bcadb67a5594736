"""`python -m benchmarks.memory`: peak memory of the commands that read much, on 2 million files.

300,000 more files are deleted, and a log of 1 GiB has states of nearly all of them. The image is
sparse and needs 16 GiB. Processor time is of user and system.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.image import Shape, build
from benchmarks.measure import Job, Measured, compare
from benchmarks.run import ext4kit
from sample_images.recipes.machine import missing_for_kernel

MEGABYTE = 1_000_000
TARGET = 500 * MEGABYTE
FILES = 2_000_000
COMMANDS = (
    ("deleted",),
    ("deleted", "--sources", "journal,blocks"),
    ("report", "--quick"),
    ("timeline",),
)


def shape(files: int) -> Shape:
    """An image of so many files, of which 15 in 100 more are deleted; 20,000 bytes a file."""
    wide = files // 20 // 10
    return Shape(
        trees=50,
        folders=max(files // 5000, 1),
        files=95,
        wide=10,
        wide_files=wide,
        deleted=files * 15 // 100,
        big_bytes=64 << 20,
        image_bytes=(files * 20_000 >> 30 << 30) + (3 << 30),
        journal_mebibytes=1024,
    )


def line(command: tuple[str, ...], found: Measured) -> str:
    """The figures of a command as a row."""
    note = "" if found.peak <= TARGET else f", above {TARGET // MEGABYTE} MB"
    note += f", exit code {found.code}" if found.code else ""
    name = " ".join(command)
    return (
        f"{name:<34}{found.peak / MEGABYTE:>8,.0f} MB{found.cpu:>8.1f} s of processor"
        f"{found.seconds:>8.1f} s{note}"
    )


def main() -> int:
    """Build the image, measure, print.

    Returns:
        The exit code: 0 also where a target is missed or nothing can be built here.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--work", type=Path, metavar="DIR", help="keeps the image from run to run")
    parser.add_argument("--files", type=int, default=FILES, help="that stay (default 2,000,000)")
    parser.add_argument("--runs", type=int, default=1, help="of each command (default 1)")
    chosen = parser.parse_args()
    if reason := missing_for_kernel():
        print(f"benchmark skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        work = chosen.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        image = build(work, shape(chosen.files)).image
        for command in COMMANDS:
            job = Job(ext4kit(*command, "-q", str(image)))
            print(line(command, compare([job], chosen.runs, warm_up=0)[0]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
