"""`ext4kit journal list`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.journal.logs import opened_log
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import opened, show
from ext4kit.report.journal_list import transaction_lines, transaction_records

_EXAMPLE = """\b
Examples:
  ext4kit journal list disk.img
  ext4kit journal list disk.img --json > transactions.jsonl
"""


@click.command("list", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared()
def command(options: CommonOptions) -> None:
    """List the transactions in the journal of IMAGE, oldest first, with the blocks each one wrote.

    \b
    to replay     committed, and a recovery would replay it
    checkpointed  committed and written to its home blocks
    stale         committed in an earlier lap of the journal
    torn          its commit block or another block is missing or bad
    uncommitted   the newest, interrupted before its commit

    Times are in UTC without --tz. The column "mount" has the mount count of the file system at that
    time. --json lists every block of each transaction.
    """  # noqa: D301 -- click reads the backspace
    with opened(options, replay=False) as session:
        with progress(options.quiet, "reading the journal"):
            log = opened_log(session)
        if log is None:
            return
        show(options, transaction_records(session.fs, log), transaction_lines(session.fs, log))
