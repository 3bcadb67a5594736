"""`ext4kit journal replay`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.journal.logs import opened_log
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import Session, opened, show
from ext4kit.errors import RequestError
from ext4kit.evidence.source import Source
from ext4kit.journal import replay
from ext4kit.journal.post_recovery import Patch, post_recovery_patches
from ext4kit.output.replayed_copy import replayed_changes, write_copy
from ext4kit.report.journal_replay import (
    copy_line,
    copy_record,
    replay_facts,
    replay_lines,
    replay_records,
)

_EXAMPLE = """\b
Examples:
  ext4kit journal replay disk.img
  ext4kit journal replay disk.img -o replayed.img
  ext4kit journal replay disk.img --journal journal.img -o replayed.img
"""


@click.command("replay", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared()
@click.option("-o", "--output", "copy", metavar="COPY", type=click.Path(path_type=Path),
              help="Write the volume, with its journal replayed, to this new file.")  # fmt: skip
@click.option("--journal-copy", metavar="FILE", type=click.Path(path_type=Path),
              help="Write a copy of the external journal, emptied, to this new file.")  # fmt: skip
def command(options: CommonOptions, copy: Path | None, journal_copy: Path | None) -> None:
    """Show what a recovery of IMAGE's journal would do; with -o, write a replayed copy.

    IMAGE is never changed. The copy holds all blocks of the file system's volume.
    """
    if journal_copy and not (copy and options.journal):
        raise RequestError("--journal-copy requires -o and --journal")
    outputs = [path for path in (copy, journal_copy) if path]
    with opened(options, replay=False, files=outputs) as session:
        log = opened_log(session)
        if log is None:
            return
        replayed = replay(log, session.fs)
        facts = replay_facts(session.fs, replayed)
        show(options, replay_records(facts, replayed), replay_lines(facts, replayed))
        if copy is None:
            return
        if log.refusal and log.walk.refusal:
            session.fs.problems.add(str(copy), "not written: no recovery would accept this journal")
            return
        after = post_recovery_patches(session.fs, replayed)
        changes = replayed_changes(replayed, after.volume)
        _write(session, copy, session.volume.facts.source, changes, "replayed copy")
        device = session.fs.journal_device
        if journal_copy is not None and device is not None:
            _write(session, journal_copy, device, iter(after.journal), "emptied journal")


def _write(
    session: Session, path: Path, source: Source, changes: Iterator[Patch], what: str
) -> None:
    options = session.options
    with progress(options.quiet, "copying") as tell:
        written = write_copy(path, source, changes, session.evidence_files, tell)
    for offset, length, reason in written.lost:
        where = f"bytes {offset:,} to {offset + length:,}"
        session.image.problems.add(where, f"zeros in the copy: {reason}")
    show(options, [copy_record(written, what)], [copy_line(written, what)])
