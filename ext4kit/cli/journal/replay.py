"""`ext4kit journal replay`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ext4kit.cli.outputs import check_new_file
from ext4kit.cli.progress import progress
from ext4kit.cli.session import CONTEXT, CommonOptions, Session, opened, shared
from ext4kit.errors import RequestError
from ext4kit.evidence.source import Source
from ext4kit.journal import Log, ReplayedBlocks, replay
from ext4kit.journal.post_recovery import Patch, PostRecovery, post_recovery_patches
from ext4kit.output.replayed_copy import replayed_changes, write_copy
from ext4kit.parsers.features import Compat
from ext4kit.report.journal_replay import (
    copy_line,
    copy_record,
    replay_facts,
    replay_lines,
    replay_records,
)
from ext4kit.report.records import write_record, write_records

_EXAMPLE = """\b
Examples:
  ext4kit journal replay disk.img
  ext4kit journal replay disk.img -o replayed.img
  ext4kit journal replay disk.img --journal journal.img -o replayed.img
"""


@click.command("replay", context_settings=CONTEXT, epilog=_EXAMPLE)
@shared()
@click.option("-o", "--output", "copy", metavar="COPY", type=click.Path(path_type=Path),
              help="Write the volume, with its journal replayed, to this new file.")  # fmt: skip
@click.option("--journal-copy", metavar="FILE", type=click.Path(path_type=Path),
              help="Write the external journal, then empty, to this new file.")  # fmt: skip
def command(options: CommonOptions, copy: Path | None, journal_copy: Path | None) -> None:
    """Show what a recovery of IMAGE's journal would do; with -o, write a replayed copy.

    IMAGE is never changed. The copy holds all blocks of the file system's volume.
    """
    if journal_copy and not (copy and options.journal):
        raise RequestError("--journal-copy requires -o and --journal")
    with opened(options, replay=False) as session:
        targets = [path for path in (copy, journal_copy) if path]
        for path in targets:
            check_new_file(path, session)
        log = _log(session)
        if log is None:
            session.is_incomplete = True
            return
        replayed = replay(log, session.fs)
        _tell(options, session, replayed)
        if copy is None:
            return
        if log.refusal and log.walk.refusal:
            session.fs.problems.add(str(copy), "not written: no recovery would accept this journal")
            return
        after = post_recovery_patches(session.fs, replayed)
        _write_copies(session, replayed, after, copy, journal_copy)


def _log(session: Session) -> Log | None:
    """The journal; None, with a problem that gives the reason, if it is unreadable."""
    if Compat.HAS_JOURNAL not in session.fs.superblock.features:
        raise RequestError(f"{session.options.image}: the file system has no journal")
    return Log.open(session.fs)


def _tell(options: CommonOptions, session: Session, replayed: ReplayedBlocks) -> None:
    facts = replay_facts(session.fs, replayed)
    if options.json:
        write_records(replay_records(facts, replayed))
    else:
        click.echo("\n".join(replay_lines(facts, replayed)))


def _write_copies(
    session: Session,
    replayed: ReplayedBlocks,
    after: PostRecovery,
    copy: Path,
    journal_copy: Path | None,
) -> None:
    changes = replayed_changes(replayed, after.volume)
    _write(session, copy, session.volume.facts.source, changes, "replayed copy")
    device = session.fs.journal_device
    if journal_copy is not None and device is not None:
        _write(session, journal_copy, device, iter(after.journal), "emptied journal")


def _write(
    session: Session, path: Path, source: Source, changes: Iterator[Patch], what: str
) -> None:
    options = session.options
    with progress(options.quiet, "copying") as show:
        written = write_copy(path, source, changes, check_new_file(path, session), show)
    for offset, length, reason in written.lost:
        where = f"bytes {offset:,} to {offset + length:,}"
        session.image.problems.add(where, f"zeros in the copy: {reason}")
    if options.json:
        write_record(copy_record(written, what))
    else:
        click.echo(copy_line(written, what))
