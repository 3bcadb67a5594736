"""`ext4kit hash --window`: the hashes of ranges of the disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import click

from ext4kit.cli.exits import INCOMPLETE
from ext4kit.cli.options import CommonOptions
from ext4kit.cli.progress import progress
from ext4kit.cli.session import image_of, tell
from ext4kit.cli.telling import tell_line
from ext4kit.evidence import Evidence
from ext4kit.evidence.hashing import WindowHash, window_count, window_hashes
from ext4kit.fields import HashName
from ext4kit.report.hashes import window_line, window_record
from ext4kit.report.records import write_lines, write_records
from ext4kit.units import Progress, part_of


def write_window_hashes(
    options: CommonOptions, size: int, part: tuple[int, int], algorithm: HashName
) -> None:
    """Print the hash of each window of a part of the disk; unreadable ranges are problems."""
    with image_of(options) as image:
        evidence = image.evidence
        digest = hashlib.sha256()
        with progress(options.quiet, "hashing") as show:
            found = _windows(evidence, size, part, algorithm, show)
            if options.json:
                write_records(window_record(each, algorithm) for each in found)
            else:
                write_lines(_hashed(map(window_line, found), digest))
        if part[1] == 1 and not (options.json or options.quiet):
            tell_line(f"note: the SHA-256 of these lines is {digest.hexdigest()}")
        if tell((evidence.problems,), options):
            raise click.exceptions.Exit(INCOMPLETE)


def _windows(
    evidence: Evidence,
    size: int,
    part: tuple[int, int],
    algorithm: HashName,
    show: Progress | None,
) -> Iterator[WindowHash]:
    source, done = evidence.source, 0
    numbers = part_of(window_count(source, size), *part)
    total = max(min(numbers.stop * size, source.size) - numbers.start * size, 0)
    for window in window_hashes(source, size, numbers, algorithm):
        done += window.end - window.start
        if show is not None:
            show(done, total)
        for lost in window.unreadable:
            last = lost.offset + lost.length - 1
            where = f"image, bytes {lost.offset:,} to {last:,}"
            evidence.problems.add(where, f"hashed as zeros: {lost.reason}")
        yield window


def _hashed(lines: Iterator[str], digest: hashlib._Hash) -> Iterator[str]:
    """The lines, which are added to a hash as they are printed."""
    for line in lines:
        digest.update(line.encode() + b"\n")
        yield line
