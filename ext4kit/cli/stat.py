"""`ext4kit stat`."""

from __future__ import annotations

import os

import click

from ext4kit.cli.session import CONTEXT, Options, opened, shared
from ext4kit.report.inode_facts import inode_lines, inode_record
from ext4kit.report.records import write_record

_EXAMPLE = """\b
Examples:
  ext4kit stat disk.img /etc/passwd
  ext4kit stat disk.img '<12>' --json
"""


@click.command("stat", context_settings=CONTEXT, epilog=_EXAMPLE)
@shared()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
def command(options: Options, targets: tuple[str, ...]) -> None:
    """Everything that the inode of each TARGET says: a path, or a number as '<12>'.

    Times are in UTC. Inodes that are not in use can be asked for by number.
    """
    with opened(options) as session:
        fs = session.fs
        for place, target in enumerate(map(os.fsencode, targets)):
            inode = fs.inode(fs.lookup(target))
            if options.json:
                write_record(inode_record(fs, inode, target))
            else:
                lines = inode_lines(fs, inode, target)
                click.echo("\n".join([""] * (place > 0) + lines))
