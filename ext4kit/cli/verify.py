"""`ext4kit verify`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.progress import progress
from ext4kit.cli.session import opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.report.verify import verify_lines, verify_records
from ext4kit.verify import verify

_EXAMPLE = """\b
Examples:
  ext4kit verify disk.img
  ext4kit verify disk.img --no-replay
  ext4kit verify disk.img --json > findings.jsonl
"""


@click.command("verify", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(more=True, zone=False)
def command(options: CommonOptions) -> None:
    """Check every checksum and cross-reference of IMAGE.

    Each finding gives the location, the value read, the value expected and the consequence for
    the evidence. The journal is replayed in memory first; --no-replay checks the disk as it is.
    The exit code is 1 if there is an error or a warning, 0 if there are only notes.
    """
    with opened(options) as session:
        with progress(options.quiet, "checking"):
            result = verify(session.fs)
        session.is_incomplete = not result.is_clean
        show(options, verify_records(result), verify_lines(result))
