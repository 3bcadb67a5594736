"""`ext4kit deleted`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice

import click
from click.core import ParameterSource

from ext4kit.cli.colours import has_colours
from ext4kit.cli.finding import Search, deleted_files, search_options, tell_pathless
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.selecting import (
    KnownOptions,
    SelectionOptions,
    deleted_selection,
    known_options,
)
from ext4kit.cli.session import Session, opened
from ext4kit.cli.several import for_each_volume
from ext4kit.cli.zones import tell_zone
from ext4kit.recovery import DeletedFiles, Grade
from ext4kit.recovery.summary import DeletedOverview, is_telling
from ext4kit.report.answers import overview_lines
from ext4kit.report.deleted import (
    SORT_KEYS,
    counts_line,
    deleted_lines,
    deleted_records,
    name_lines,
    sorted_files,
)
from ext4kit.report.deleted_tree import tree_lines
from ext4kit.report.records import write_lines, write_records
from ext4kit.report.tables import wrapped

FEW = 10  # up to this many files need no summary
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
  ext4kit deleted disk.img /home/me --tree
  ext4kit deleted disk.img --names
  ext4kit deleted server.img --root web
  ext4kit deleted disk.img --lost
"""


@click.command("deleted", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(lost=True, times=True, root=True, scan=True)
@deleted_selection
@known_options
@search_options
@click.option(
    "--sort",
    type=click.Choice(list(SORT_KEYS)),
    default="path",
    show_default=True,
    help="Order of the files; by size the largest come first, by time the latest.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="List the first N files only.")
@click.option("--tree", is_flag=True, help="Show folders with their files, as a tree.")
@click.option(
    "--names",
    is_flag=True,
    help="Also list removed names that are not assigned to deleted files.",
)
def command(
    options: CommonOptions,
    chosen: SelectionOptions,
    known: KnownOptions,
    search: Search,
    sort: str,
    limit: int | None,
    names: bool,
    tree: bool,
) -> None:
    """List the deleted files of IMAGE and how much of each can be recovered.

    PATHs select files and all files below them. In a PATH, * and ? match within a name and **
    matches directories; a PATH without a slash is a name in any directory.

    \b
    intact       the last committed content; a later write is excluded
    consistent   all records agree; a write without a record is possible
    partial      a part was reused, or evidence contradicts the content
    overwritten  no content is left
    carved       content found without an inode

    Files that were deleted together come first, by folder and time. The counts include all files,
    also those that --limit omits. Carved files without a name are only counted, by kind; files of
    which neither a name nor content is left are only counted, too. --sources, --kind, --mime,
    --grade and --inode list these files.

    Times are in UTC without --tz. `<=` before a time means that the file was deleted at this time
    or earlier.

    --names lists removed entries that kernels before 5.13 left, with the reason why each is not
    accepted as the name of its inode.

    With --root, list only files of which a path lies in this Linux root: in one of its layers or
    its directory, or, for the system of IMAGE itself, in no other root. PATHs are paths in the
    root. Files without a known path are left out, and a note counts them.

    With --lost, list all files of the file system that this one overwrote.
    """  # noqa: D301 -- click reads the backspace
    with opened(options) as session:
        selection = session.in_root(chosen.selection(session))
        found = deleted_files(session, search, selection, known=known)
        deleted = replace(found, files=sorted_files(found.files, sort))
        if options.json:
            write_records(deleted_records(deleted, names, limit))
        elif tree:
            write_lines(tree_lines(deleted))
        else:
            _print(session, deleted, names, limit, _lists_all(chosen))
        tell_pathless(session, found)


def _lists_all(chosen: SelectionOptions) -> bool:
    """Whether files without a name are listed, not only counted."""
    given = click.get_current_context().get_parameter_source("sources")
    return chosen.asks_for_nameless or given is ParameterSource.COMMANDLINE


def _print(
    session: Session, deleted: DeletedFiles, names: bool, limit: int | None, with_all: bool
) -> None:
    """Print the bursts of deletions by folder, the table, and the counts."""
    coloured = has_colours(sys.stdout)
    lines = _lines(session, deleted, names, limit, with_all, coloured)
    tell_zone()
    write_lines(lines, partial(click.echo, nl=False, color=coloured))


def _lines(
    session: Session,
    deleted: DeletedFiles,
    names: bool,
    limit: int | None,
    with_all: bool,
    coloured: bool,
) -> Iterator[str]:
    overview = DeletedOverview()
    every = overview.counting(deleted)
    rows = (file for file in every if with_all or is_telling(file))
    listed = deleted_lines(rows, limit)
    heading = list(islice(listed, 1))  # reads all files, so that the counts are there
    if len(deleted) > FEW:
        sentences = overview_lines(overview, session.workspace, str(session.options.image))
        yield from wrapped(sentences)
        yield ""
    count = 0
    for count, (grade, line) in enumerate(chain(heading, listed)):  # noqa: B007 -- without the heading
        if grade and coloured:
            line = click.style(str(grade), fg=COLOURS[grade]) + line[len(grade) :]
        yield line
    total = counts_line(overview.grades, overview.earlier, overview.nameless_contents)
    yield f"{total}; {count:,} listed" if count < len(deleted) else total
    yield from name_lines(deleted) if names else ()
