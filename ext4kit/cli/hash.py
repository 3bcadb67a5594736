"""`ext4kit hash`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import image_of, tell
from ext4kit.cli.values import part_of_parts, positive_byte_count
from ext4kit.errors import RequestError
from ext4kit.evidence import Evidence
from ext4kit.evidence.hashing import Hashes, hash_evidence
from ext4kit.evidence.identity import mismatches
from ext4kit.evidence.recorded import (
    EXPECT,
    Comparison,
    RecordedHash,
    RecordedHashes,
    compare,
    expected_hash,
    find_recorded,
    unproved_files,
)
from ext4kit.fields import HashName
from ext4kit.report.hashes import evidence_record, hash_lines, hash_records
from ext4kit.report.records import write_record, write_records

HASHES = ("md5", "sha1", "sha256")
_EXAMPLE = """\b
Examples:
  ext4kit hash disk.img
  ext4kit hash disk.E01 --verify
  ext4kit hash disk.dd --expect 1876d8ad05621e081df20a4548705445
  ext4kit hash disk.img --image-only --json
  ext4kit hash --files clean.img > clean.sha256
  ext4kit hash disk.img --window 1G > windows.txt
  ext4kit hash disk.img --window 1G --part 3/8 > 3.txt
"""


def _expected(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[RecordedHash, ...]:
    try:
        return tuple(map(expected_hash, values))
    except ValueError as error:
        text = f"'{error}' is no MD5, SHA-1 or SHA-256: it needs 32, 40 or 64 hexadecimal digits"
        raise click.BadParameter(text, context, option) from error


@click.command("hash", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(choices=False, zone=False)
@click.option(
    "--verify",
    is_flag=True,
    help="Also compare with the hashes that the acquisition left in files beside IMAGE, and fail "
    "if there are none.",
)
@click.option(
    EXPECT,
    multiple=True,
    callback=_expected,
    metavar="HEX",
    help="Compare with this MD5, SHA-1 or SHA-256 of IMAGE; may be given several times.",
)
@click.option("--image-only", is_flag=True, help="Hash the image only, not its volumes.")
@click.argument("path", required=False)
@click.option(
    "--files",
    is_flag=True,
    help="Hash each live file of IMAGE, which may be a directory: a list of known files.",
)
@click.option(
    "--hash",
    "algorithm",
    type=click.Choice(HASHES),
    default="sha256",
    show_default=True,
    help="With --files and --window: the hash in each line.",
)
@click.option(
    "--csv", "as_csv", is_flag=True, help="With --files: write CSV with all hashes and the sizes."
)
@click.option("--window", "window", callback=positive_byte_count, metavar="SIZE",
              help="Hash each SIZE bytes of the disk by themselves, in lines as dcfldd writes "
              "them.")  # fmt: skip
@click.option("--part", callback=part_of_parts, metavar="K/N",
              help="With --window: only part K of N equal parts of the windows.")  # fmt: skip
def command(
    options: CommonOptions,
    verify: bool,
    expect: tuple[RecordedHash, ...],
    image_only: bool,
    path: str | None,
    files: bool,
    algorithm: HashName,
    as_csv: bool,
    window: int | None,
    part: tuple[int, int],
) -> None:
    """Compute MD5, SHA-1 and SHA-256 of IMAGE and of each volume in one pass.

    For a container, the disk inside is hashed and compared with the hashes that the container
    stores (EWF). --verify reads IMAGE.md5, .sha1, .sha256, .txt (FTK Imager), .info (Guymager),
    .log and .hash (dc3dd, dcfldd, ewfacquire), and the same names without the suffix of IMAGE. The
    hash of a file is compared with that file, and every other hash with the disk; each line says
    which of the two was compared.

    The exit code is 1 if a hash differs, if --verify finds no hash, or if bytes are unreadable.
    Unreadable ranges are listed and hashed as zeros.

    --files hashes the files of all file systems of IMAGE instead, or those at or below PATH. Its
    lines are those of sha256sum, with paths that start with `./`; of several file systems, with
    `./volume-N/`. --known of other commands reads them, the CSV and the records.

    --window hashes ranges of the disk, for images that several processes hash, or whose damage has
    to be located. Parts follow each other: `cat` joins their lines, and the SHA-256 of all lines
    (`sha256sum`) stands for the disk.
    """
    if (files or window) and (verify or expect or image_only):
        raise RequestError("--files and --window go without --verify, --expect and --image-only")
    if (path is not None or as_csv) and not files:
        raise RequestError("PATH and --csv need --files")
    if files or window:
        _write_parts(options, files, path, algorithm, as_csv, window, part)
        return
    with image_of(options) as opened:
        evidence = opened.evidence
        beside = find_recorded(evidence) if verify else RecordedHashes()
        with progress(options.quiet, "hashing") as show:
            image, volumes = hash_evidence(evidence, not image_only, show)
            recorded = [*compare(evidence, (*expect, *beside.hashes), image, {}, show)]
        _judge(evidence, image, recorded)
        if verify and not recorded and not evidence.hashes:
            evidence.problems.add("image", _nothing(evidence, beside))
        for number, hashes in volumes.items():
            _name_lost(evidence, f"volume {number}", hashes)
        if options.json:
            write_record(evidence_record(evidence))
            write_records(hash_records(evidence, image, volumes, recorded))
        else:
            click.echo("\n".join(hash_lines(evidence, image, volumes, recorded)))
        if tell((evidence.problems,), options):
            raise click.exceptions.Exit(1)


def _write_parts(
    options: CommonOptions,
    files: bool,
    path: str | None,
    algorithm: HashName,
    as_csv: bool,
    window: int | None,
    part: tuple[int, int],
) -> None:
    """Print the hashes of files or, if a size is given, of windows.

    Raises:
        RequestError: both are wanted.
    """
    from ext4kit.cli.file_hashes import write_file_hashes
    from ext4kit.cli.hash_windows import write_window_hashes

    if files and window:
        raise RequestError("give one of --files and --window")
    if window is None:
        write_file_hashes(options, path, algorithm, as_csv)
    else:
        write_window_hashes(options, window, part, algorithm)


def _judge(evidence: Evidence, image: Hashes, recorded: Sequence[Comparison]) -> None:
    """Report all facts that contradict an exact acquisition as problems."""
    stored = evidence.hashes
    wrong = mismatches(stored, image.digests)
    for name in wrong:
        text = f"{name} is {dict(image.digests)[name]}, but the container stores {stored[name]}"
        evidence.problems.add("image", text)
    for each in recorded:
        if not each.matches:
            evidence.problems.add("image", each.complaint)
    if not stored or wrong:
        for path in unproved_files(evidence, recorded):
            evidence.problems.add(path.name, "is not verified: no hash of it is recorded")
    _name_lost(evidence, "image", image)


def _nothing(evidence: Evidence, beside: RecordedHashes) -> str:
    """A message that no hash to compare with was found, with the files that were looked for."""
    text = f"nothing to verify: {evidence.format} stores no hash, and no file beside it records one"
    text += f"; looked for {', '.join(beside.looked_for)}"
    if beside.there:
        text += f"; no hash of this image is in {', '.join(beside.there)}"
    return f"{text}; {EXPECT} HEX compares with a hash that you have"


def _name_lost(evidence: Evidence, where: str, hashes: Hashes) -> None:
    if hashes.unreadable:
        total = sum(each.length for each in hashes.unreadable)
        text = f"{total:,} bytes in {len(hashes.unreadable):,} ranges are unreadable"
        evidence.problems.add(where, text)
