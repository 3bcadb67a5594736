"""`ext4kit info`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import opened, show
from ext4kit.report.info import info_lines, info_records

_EXAMPLE = """\b
Example:
  ext4kit info disk.img
  ext4kit info disk.img --volume 2 --groups
  ext4kit info disk.img --lost
"""


@click.command("info", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(lost=True)
@click.option("-g", "--groups", is_flag=True, help="Show every block group.")
def command(options: CommonOptions, groups: bool) -> None:
    """Show the superblock, features, journal, groups and writing kernel of IMAGE's file system.

    The lines of `dumpe2fs` come first, and the lines that ext4kit adds follow. The values are those
    on disk; the journal is not replayed. The Linux versions that wrote the file system, and the
    effects on recovery, are inferred from a sample of the inodes and directories. Times are in UTC
    without --tz; dumpe2fs shows them in the local zone, as --tz local does.

    With --lost, show the facts about the file system that this one overwrote, and their sources.
    """
    with opened(options, replay=False) as session:
        show(options, info_records(session.fs, groups), info_lines(session.fs, groups))
