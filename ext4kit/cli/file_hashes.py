"""`ext4kit hash --files`: the hashes of the files of an image or of a directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

from ext4kit.cli.exits import INCOMPLETE
from ext4kit.cli.options import CommonOptions
from ext4kit.cli.progress import progress
from ext4kit.cli.session import chosen_volume, image_of, tell
from ext4kit.errors import NotFoundError
from ext4kit.fields import HashName
from ext4kit.known.listing import FileHashes, hashes_of_directory, hashes_of_files
from ext4kit.opening import Image, ImageVolume
from ext4kit.problems import Problems
from ext4kit.report.file_hashes import ALL, csv_lines, file_hash_record, sum_line
from ext4kit.report.records import write_records

_Found = Iterator[tuple[ImageVolume | None, FileHashes]]


def write_file_hashes(
    options: CommonOptions, path: str | None, algorithm: HashName, as_csv: bool
) -> None:
    """Print the hashes of all live files of an image or a directory, and their problems.

    Raises:
        NotFoundError: no file system has the path.
    """
    names = ALL if options.json or as_csv else (algorithm,)
    below = os.fsencode(path or "")
    if options.image.is_dir():
        problems = Problems()
        folder = os.fsencode(options.image)
        if path and not os.path.lexists(os.path.join(folder, below.strip(b"/"))):  # noqa: PTH118
            raise NotFoundError(below, "no such file or directory")
        found = ((None, file) for file in hashes_of_directory(folder, below, names, problems))
        _write(options, found, algorithm, as_csv, is_several=False)
        errors = tell((problems,), options)
    else:
        with image_of(options) as image:
            errors = _of_image(options, image, below or b"/", names, algorithm, as_csv)
    if errors:
        raise click.exceptions.Exit(INCOMPLETE)


def _of_image(
    options: CommonOptions,
    image: Image,
    path: bytes,
    names: tuple[HashName, ...],
    algorithm: HashName,
    as_csv: bool,
) -> int:
    """The files of all file systems of an image; the number of errors."""
    volumes = [one for one in image.volumes if one.facts.is_ext]
    volumes = volumes or [chosen_volume(image, options)]  # says what there is
    collected = [image.problems]

    def found() -> _Found:
        missing = list[NotFoundError]()
        for volume in volumes:
            fs = volume.filesystem()
            collected.append(fs.problems)
            with progress(options.quiet, "hashing files") as show:
                try:
                    for file in hashes_of_files(fs, path, names, show):
                        yield volume, file
                except NotFoundError as error:
                    missing.append(error)
        if len(missing) == len(volumes):
            raise missing[0]

    _write(options, found(), algorithm, as_csv, len(volumes) > 1)
    return tell(tuple(collected), options)


def _write(
    options: CommonOptions, found: _Found, algorithm: HashName, as_csv: bool, is_several: bool
) -> None:
    if options.json:
        indexed = ((None if volume is None else volume.facts.index, file) for volume, file in found)
        write_records(file_hash_record(file, index) for index, file in indexed)
    elif as_csv:
        for line in csv_lines(file for _, file in found):
            sys.stdout.write(line)
    else:
        sys.stdout.flush()
        is_shown = sys.stdout.isatty()
        for volume, file in found:
            top = b"/volume-%d" % volume.facts.index if volume and is_several else b""
            sys.stdout.buffer.write(sum_line(file, algorithm, top, is_shown))
