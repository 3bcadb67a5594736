"""`ext4kit ls`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.selecting import (
    KnownOptions,
    SelectionOptions,
    artifact_selection,
    known_options,
)
from ext4kit.cli.session import Session, opened
from ext4kit.cli.telling import tell_line
from ext4kit.cli.zones import tell_zone
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.filesystem.view import Node
from ext4kit.report.listing import (
    ListedNames,
    compared_names,
    entry_records,
    list_names,
    long_text,
    numbered_text,
    plain_text,
    selected_names,
)
from ext4kit.report.nodes import node_lines, node_record
from ext4kit.report.phrases import command_text
from ext4kit.report.records import write_lines, write_records
from ext4kit.report.safe import printable_text
from ext4kit.selection import Selection

_EXAMPLE = """\b
Examples:
  ext4kit ls disk.img
  ext4kit ls disk.img -lh /etc
  ext4kit ls disk.img --volume 2 -r /home
  ext4kit ls disk.img -l /home --as-of 4711
  ext4kit ls disk.img -r --lost
  ext4kit ls disk.img -r --artifact SSHAuthorizedKeysFiles
  ext4kit ls disk.img -l /home --view deleted
  ext4kit ls disk.img /2026-03-01T03:00/etc --view as-of
"""


def _told_if_empty(
    session: Session, target: str, found: Iterable[ListedNames], is_selected: bool
) -> Iterator[ListedNames]:
    """The names; if there are none, prints what else to look at."""
    count = 0
    for each in found:
        count += len(each)
        yield each
    if not count and not session.options.quiet:
        command = command_text("deleted", session.options.image, target)
        what = "no selected file" if is_selected else "nothing"
        text = f"{what} is in {printable_text(target)}; {command} lists what was deleted there"
        if session.options.lost and target.strip("/") == "":
            text = "no earlier file system with files was found under this one"
        tell_line(f"note: {text}")


def _list_nodes(
    session: Session,
    target: str,
    recursive: bool,
    is_long: bool,
    human: bool,
    numbered: bool,
    known: KnownOptions,
    chosen: SelectionOptions,
) -> None:
    """List the nodes of the tree that `--view` selects."""
    lists = known.files(session.fs)
    selection = known.restrict(chosen.selection(session), lists)
    node = session.view.lookup(session.target(target))
    nodes: Iterable[Node] = node.children() if node.kind == "directory" else (node,)
    if recursive:
        nodes = chain.from_iterable(some.nodes for some in session.view.walk(selection, node))
    else:
        nodes = (each for each in nodes if selection.selects(each))
    if session.options.json:
        write_records(node_record(each, lists) for each in nodes)
    else:
        if is_long:
            tell_zone()
        write_lines(node_lines(nodes, recursive, is_long, human, numbered, lists))


def _selected(
    session: Session, found: Iterable[ListedNames], chosen: SelectionOptions, known: KnownOptions
) -> Iterable[ListedNames]:
    """The selected names; with lists of known files, marked with these."""
    selection, lists = chosen.selection(session), known.files(session.fs)
    if not selection.is_everything:
        found = selected_names(session.fs, found, selection)
    if lists is None:
        return found
    return compared_names(session.fs, found, lists, known.restrict(Selection(), lists))


class _Command(GroupedCommand):
    """With other arguments, `-h` selects readable sizes; alone, it shows the help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        return super().parse_args(ctx, ["--help"] if args == ["-h"] else args)


def _tell_of_names(options: CommonOptions, found: Iterable[ListedNames]) -> None:
    """Print how to find the names of files that e2fsck moved to `lost+found`."""
    if any(name.startswith(b"#") for each in found for name in each.names) and not options.quiet:
        text = f"`ext4kit versions {options.image} PATH` shows the former names of a #NUMBER here"
        tell_line(f"note: {text}")


@click.command(
    "ls", cls=_Command, context_settings={"help_option_names": ["--help"]}, epilog=_EXAMPLE
)
@shared(as_of=True, lost=True, view=True)
@click.argument("target", default="/")
@click.option("-l", "--long", "is_long", is_flag=True, help="Show mode, owner, size and time.")
@click.option(
    "-r", "-R", "--recursive", is_flag=True, help="List all levels below, with full paths."
)
@click.option("-h", "--human", is_flag=True, help="With -l, show sizes such as 1.5 MiB.")
@click.option("-i", "--inode", "numbered", is_flag=True, help="Show inode numbers.")
@click.option("-a", "--all", "hidden", is_flag=True, help="Include the entries . and ..")
@known_options
@artifact_selection
def command(
    options: CommonOptions,
    target: str,
    is_long: bool,
    recursive: bool,
    human: bool,
    numbered: bool,
    hidden: bool,
    known: KnownOptions,
    chosen: SelectionOptions,
) -> None:
    r"""List TARGET in IMAGE: a path (default /) or an inode number as '<12>'.

    Names are sorted; with -r they are in the order of the tree. Characters that could mislead a
    reader or a terminal are shown as \xNN or \uNNNN, and a backslash is shown as \\.

    With --as-of, facts that the journal does not record are shown as question marks (in JSON:
    null, with the reason in "unknown"), and the exit code is 1.

    With --lost, list the tree of the file system that this one overwrote; directories without a
    known name are in its root as inode-NUMBER-GENERATION.

    --view reads another tree. In `deleted` and `all`, a second file with the same name has ~2 after
    its name; files without a path are in /$Unnamed, and carved files, which have no inode, are in
    /$Carved. In `versions`, each file is a folder of its versions. In `as-of`, the first name is a
    time or tid-NUMBER. In `roots`, it is the name of a Linux root in the list of `roots`.
    """
    with opened(options) as session:
        if options.view != LIVE:
            _list_nodes(session, target, recursive, is_long, human, numbered, known, chosen)
            return
        session.check_used(session.target(target))
        with progress(options.quiet or not recursive, "reading the tree"):
            found: Iterable[ListedNames] = list_names(
                session.fs, session.target(target), recursive, hidden
            )
        found = _selected(session, found, chosen, known)
        if target.strip("/") == "lost+found":
            found = list(found)
            _tell_of_names(options, found)
        if options.json:
            write_records(chain.from_iterable(entry_records(session.fs, each) for each in found))
            return
        if is_long:
            tell_zone()
        sys.stdout.flush()
        is_selected = chosen != SelectionOptions() or known.wanted is not None
        found = _told_if_empty(session, target, found, is_selected)
        for each in found:
            if is_long:
                lines = long_text(session.fs, each, numbered, human)
            else:
                lines = numbered_text(each) if numbered else plain_text(each)
            sys.stdout.buffer.writelines(lines)
