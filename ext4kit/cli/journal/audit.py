"""`ext4kit journal audit`."""

from __future__ import annotations

import click

from ext4kit.audit import audit
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.journal.logs import need_journal
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import opened, show
from ext4kit.report.journal_audit import audit_lines, audit_records, verdict_lines, verdict_records

_EXAMPLE = """\b
Examples:
  ext4kit journal audit disk.img
  ext4kit journal audit disk.img --all --json > verdicts.jsonl
"""


@click.command("audit", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(zone=False)
@click.option("-a", "--all", "every", is_flag=True, help="Show the verdict on each block.")
def command(options: CommonOptions, every: bool) -> None:
    """Check every block of the journal of IMAGE, including earlier laps.

    Each finding gives the location, the value read, the value expected and the consequence. A
    damaged block is assigned to its transaction even if its header is damaged. The exit code is 1
    if there is an error or a warning.
    """
    with opened(options, replay=False) as session:
        need_journal(session)
        with progress(options.quiet, "checking the journal"):
            result = audit(session.fs)
        session.is_incomplete = not result.is_sound
        if every:
            show(options, verdict_records(result), verdict_lines(result))
        show(options, audit_records(session.fs, result), audit_lines(session.fs, result))
