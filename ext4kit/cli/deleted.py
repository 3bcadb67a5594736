"""`ext4kit deleted`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import click

from ext4kit.cli.colours import has_colours
from ext4kit.cli.finding import Search, deleted_files, search_options
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.selecting import SelectionOptions, deleted_selection
from ext4kit.cli.session import opened
from ext4kit.cli.several import for_each_volume
from ext4kit.recovery import DeletedFiles, Grade
from ext4kit.report.deleted import (
    SORT_KEYS,
    Tally,
    deleted_lines,
    deleted_records,
    name_lines,
    sorted_files,
)
from ext4kit.report.records import write_lines, write_records

COLOURS = {
    Grade.INTACT: "green",
    Grade.CONSISTENT: "blue",
    Grade.PARTIAL: "yellow",
    Grade.OVERWRITTEN: "red",
    Grade.CARVED: "cyan",
}

_EXAMPLE = """\b
Examples:
  ext4kit deleted disk.img
  ext4kit deleted disk.img --json > deleted.jsonl
  ext4kit deleted disk.img /home/me '*.odt'
  ext4kit deleted disk.img --deleted-since 2h --kind pictures --size 100k..
  ext4kit deleted disk.img --sort size --limit 20
  ext4kit deleted disk.img --names
  ext4kit deleted disk.img --lost
"""


@click.command("deleted", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(lost=True)
@deleted_selection
@search_options
@click.option(
    "--sort",
    type=click.Choice(list(SORT_KEYS)),
    default="path",
    show_default=True,
    help="Order of the files; sizes and times with the largest and latest first.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="List the first N files only.")
@click.option(
    "--names",
    is_flag=True,
    help="Also list removed names that are not assigned to deleted files.",
)
def command(
    options: CommonOptions,
    chosen: SelectionOptions,
    search: Search,
    sort: str,
    limit: int | None,
    names: bool,
) -> None:
    """List the deleted files of IMAGE and how much of each can be recovered.

    With PATHs, those files and all files below them. In a PATH, * and ? match within a name and **
    matches directories; a PATH without a slash is a name in any directory.

    \b
    intact       the last committed content; a later write is excluded
    consistent   all records agree; a write without a record is possible
    partial      a part was reused, or evidence contradicts the content
    overwritten  no content is left
    carved       content found without an inode

    Times are in UTC; `<=` means: deleted before that commit of the journal.

    --names lists removed entries that kernels before 5.13 left, and why each is not accepted as the
    name of its inode.

    With --lost: all files of the file system that this one overwrote.
    """  # noqa: D301 -- click reads the backspace
    with opened(options) as session:
        found = deleted_files(session, search, chosen.selection)
        files = sorted_files(found.files, sort)
        deleted = replace(found, files=files if limit is None else files[:limit])
        if len(deleted) < len(found) and not options.quiet:
            click.echo(f"note: {len(deleted):,} of {len(found):,} files are listed", err=True)
        if options.json:
            write_records(deleted_records(deleted, names))
        else:
            _print(deleted, names)


def _print(deleted: DeletedFiles, names: bool) -> None:
    """Print the table, with coloured grades on a terminal, and the counts."""
    coloured = has_colours(sys.stdout)
    write_lines(_lines(deleted, names, coloured), partial(click.echo, nl=False, color=coloured))


def _lines(deleted: DeletedFiles, names: bool, coloured: bool) -> Iterator[str]:
    tally = Tally()
    for grade, line in deleted_lines(tally.counting(deleted)):
        if grade and coloured:
            line = click.style(str(grade), fg=COLOURS[grade]) + line[len(grade) :]
        yield line
    yield tally.line()
    yield from name_lines(deleted) if names else ()
