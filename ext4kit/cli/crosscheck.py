"""`ext4kit crosscheck`."""

from __future__ import annotations

from dataclasses import replace

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import Session, opened, show
from ext4kit.crosscheck import CrossCheck, DeletedName, bytes_held, crosscheck, usual_limit
from ext4kit.crosscheck import CrossCheckOptions as Choices
from ext4kit.crosscheck.check import PATIENCE
from ext4kit.journal import ReplayedBlocks
from ext4kit.report.crosscheck import crosscheck_lines, crosscheck_records

_EXAMPLE = """\b
Examples:
  ext4kit crosscheck disk.img
  ext4kit crosscheck disk.img --hashes
  ext4kit crosscheck disk.img --deleted --all
  ext4kit crosscheck disk.img --hashes --json > differences.jsonl
"""


@click.command("crosscheck", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared()
@click.option(
    "--hashes", is_flag=True, help="Also compare the content of files and symbolic links."
)
@click.option("--deleted", is_flag=True, help="Also compare the names of deleted files.")
@click.option(
    "-a", "--all", "every", is_flag=True, help="List every difference, not only the first ones."
)
@click.option("--patience", type=click.FloatRange(0.1), default=PATIENCE, show_default=True,
              metavar="SECONDS", help="Time limit for one answer of The Sleuth Kit.")  # fmt: skip
@click.option("--limit", type=click.FloatRange(0.1), metavar="SECONDS",
              help="Time limit for all its answers. Default: by evidence size.")  # fmt: skip
def command(
    options: CommonOptions,
    hashes: bool,
    deleted: bool,
    every: bool,
    patience: float,
    limit: float | None,
) -> None:
    """Compare the live tree of IMAGE as read by ext4kit and by The Sleuth Kit.

    The comparison covers paths, inode numbers, types, modes, owners, link counts, sizes and times;
    with --hashes also the content of files, with --deleted also the names of deleted files. Each
    difference states which reader is probably right, and why. Values that The Sleuth Kit does not
    deliver within the time limits are skipped and counted. The exit code is 0 if everything was
    compared and nothing differs, else 1.
    """
    with opened(options) as session:
        if limit is None:
            held = bytes_held(session.evidence_files, session.image.evidence.source.size)
            limit = usual_limit(held, hashes)
        names = _deleted_names(session) if deleted else None
        folders = tuple({path.resolve().parent for path in session.evidence_files})
        result = _compared(session, Choices(hashes, names, patience, limit, folders))
        session.is_incomplete = not result.agrees
        show(options, crosscheck_records(result), crosscheck_lines(result, every))


def _deleted_names(session: Session) -> list[DeletedName]:
    """ext4kit's names of deleted files, including removed names that belong to no file."""
    from ext4kit.history.places import Ground
    from ext4kit.recovery import JOURNAL_ONLY

    with progress(session.options.quiet, "searching unallocated space") as show:
        found = session.workspace.deleted(sources=JOURNAL_ONLY, progress=show)
    names = [
        DeletedName(file.path, file.number, file.path_ground is Ground.JOURNAL)
        for file in found
        if file.path is not None and file.number is not None and not file.superseded
    ]
    left = found.removed_names() or []
    names += [
        DeletedName(one.path, one.inode or 0, reason=one.meaning)
        for one in left
        if one.path is not None
    ]
    return names


def _compared(session: Session, choices: Choices) -> CrossCheck:
    options, source = session.options, session.volume.facts.source
    raw = None
    if isinstance(session.fs.blocks, ReplayedBlocks):
        raw = session.volume.filesystem(False, options.superblock, session.fs.journal_device)
    with progress(options.quiet, "comparing") as tell:
        choices = replace(choices, walking=tell, reading=tell)
        return crosscheck(source, session.fs, raw, choices)
