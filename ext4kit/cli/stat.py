"""`ext4kit stat`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import Session, opened, show
from ext4kit.cli.zones import tell_zone
from ext4kit.errors import AccessError, path_text
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.report.inode_facts import inode_lines, inode_record, unknown_lines, unknown_record
from ext4kit.report.nodes import node_facts, node_record
from ext4kit.report.records import write_record

_EXAMPLE = """\b
Examples:
  ext4kit stat disk.img /etc/passwd
  ext4kit stat disk.img '<12>' --json
  ext4kit stat disk.img /etc/passwd --as-of 4711
  ext4kit stat disk.img /home/anna/notes.txt --view deleted
"""


@click.command("stat", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(as_of=True, lost=True, view=True)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
def command(options: CommonOptions, targets: tuple[str, ...]) -> None:
    """Show all fields of the inode of each TARGET, which is a path or an inode number as '<12>'.

    Times are in UTC without --tz. Unallocated inodes can be selected by number. With --as-of, facts
    that the journal does not record are shown as unknown, and the exit code is 1.
    """
    with opened(options) as session:
        for place, target in enumerate(map(session.target, targets)):
            if place and not options.json:
                click.echo()
            if options.view == LIVE:
                _show(session, target)
            else:
                node = session.view.lookup(target)
                show(options, [node_record(node)], node_facts(node))


def _show(session: Session, target: bytes) -> None:
    fs, options = session.fs, session.options
    try:
        inode = fs.inode(fs.lookup(target))
    except AccessError as error:
        if fs.as_of is None:
            raise
        fs.problems.add(path_text(target), str(error))
        show(options, [unknown_record(target, str(error))], unknown_lines(target, str(error)))
        return
    if options.json:
        write_record(inode_record(fs, inode, target))
    else:
        tell_zone()
        if text := session.inode_text(inode.number):
            click.echo(text)
        click.echo("\n".join(inode_lines(fs, inode, target)))
