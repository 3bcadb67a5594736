"""`ext4kit blocks`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from ext4kit import reasons
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import Session, opened
from ext4kit.errors import NotFoundError, OutputError, RequestError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.output.mapped_stream import MappedStream, Piece
from ext4kit.output.new_file import new_file, new_text
from ext4kit.report.safe import shown

_EXAMPLE = """\b
Examples:
  ext4kit blocks disk.img --unallocated -o free.bin
  ext4kit blocks disk.img --slack -o slack.bin
  ext4kit blocks disk.img --file /home/anna/report.odt -o report.bin
  ext4kit blocks disk.img --unallocated -o - --map free.tsv | strings -n 8
"""


@click.command("blocks", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(json=False)
@click.option("--unallocated", is_flag=True, help="Write all blocks that the bitmaps mark free.")
@click.option("--slack", is_flag=True, help="Write what is after the end of files in their blocks.")
@click.option("--file", "path", metavar="PATH", help="Write a live or a deleted file.")
@click.option("-o", "--output", "out", required=True, metavar="OUT",
              help="Write into this new file, with the map in OUT.map.tsv; - for standard"
              " output.")  # fmt: skip
@click.option("--map", "table", metavar="FILE", type=click.Path(path_type=Path),
              help="Write the map into this new file.")  # fmt: skip
def command(
    options: CommonOptions,
    unallocated: bool,
    slack: bool,
    path: str | None,
    out: str,
    table: Path | None,
) -> None:
    """Write unallocated blocks, slack or a file as one stream of bytes, with a map to the image.

    The map is a table with tabs: offset in OUT, offset in the image, block, length in bytes, what
    it is. Holes and unreadable bytes are zeros in OUT; the map names them, and unreadable ones
    make the exit code 1. PATH is that of a live file, an inode number as '<12>', or the path of a
    deleted file as `ls --view deleted` lists it.
    """
    if unallocated + slack + (path is not None) != 1:
        raise RequestError("give one of --unallocated, --slack and --file")
    target = None if out == "-" else Path(out)
    table = Path(f"{out}.map.tsv") if table is None and target is not None else table
    files = [each for each in (target, table) if each is not None]
    with opened(options, files=files) as session, ExitStack() as stack:
        blocks, pieces = _source(session, unallocated, path)
        evidence = session.evidence_files
        fd = sys.stdout.fileno()
        if target is not None:
            fd = stack.enter_context(new_file(target, evidence))
        lines = None if table is None else stack.enter_context(new_text(table, evidence))
        stream = MappedStream(fd, blocks, lines, session.volume.facts.offset)
        _write(session, stream, pieces, target)
        if not options.quiet:
            places = " and ".join(map(str, files)) or "standard output"
            what = f"{stream.size:,} bytes in {stream.pieces:,} pieces: {places}"
            click.echo(f"note: {what}", err=True)


def _write(
    session: Session, stream: MappedStream, pieces: Iterator[Piece], target: Path | None
) -> None:
    """Write the pieces; what cannot be read becomes a problem.

    Raises:
        OutputError: the output cannot be written.
    """
    sys.stdout.flush()
    try:
        for lost in stream.write(pieces):
            last = lost.offset + lost.length - 1
            what = f"bytes {lost.offset:,} to {last:,} unreadable, written as zeros: {lost.lost}"
            session.fs.problems.add("output", what)
    except OSError as error:
        if target is not None:
            raise OutputError(f"{target}: {error.strerror}; it is incomplete") from error
        is_closed = error.errno == errno.EBADF
        what = "it is closed" if is_closed else f"{error.strerror}"
        raise OutputError(f"output: {what}") from error


def _source(
    session: Session, unallocated: bool, path: str | None
) -> tuple[BlockReader, Iterator[Piece]]:
    """The reader of the blocks, and the pieces."""
    from ext4kit.owners.pieces import file_pieces, slack_pieces, unallocated_pieces
    from ext4kit.owners.present import BlockOwners
    from ext4kit.unallocated.space import UnallocatedSpace, below_replay

    fs = session.fs
    if path is not None:
        content = _content_at(session, os.fsencode(path))
        return content.blocks, file_pieces(content)
    if unallocated:
        space = UnallocatedSpace(session.workspace.history())
        return space.blocks, unallocated_pieces(space)
    runs = BlockOwners.read(session.workspace).runs
    return below_replay(fs.blocks), slack_pieces(runs, fs.superblock.block_size)


def _content_at(session: Session, path: bytes) -> Content:
    """The content of a live file, else of the deleted file with that path.

    Raises:
        RequestError: there is no such file, nothing of it is left, or its inode is free.
    """
    from ext4kit.recovery import Grade
    from ext4kit.views.opening import open_view

    try:
        node = open_view(session.workspace, "live").lookup(path)
        if node.inode is not None and session.fs.is_free(node.inode):
            raise RequestError(reasons.INODE_FREE.filled(number=node.inode.number).text)
    except NotFoundError:
        with session.step("searching") as tell:
            node = open_view(session.workspace, "deleted", tell).lookup(path)
    content = node.content() if node.kind in ("file", "symlink", "directory") else None
    if content is None:
        raise RequestError(f"{shown(path)} is a {node.kind} of which no content is left")
    is_whole = node.grade is not None and Grade(node.grade).is_whole
    for reason in () if is_whole else node.reasons:
        session.fs.problems.add(shown(path), reason.text)
    return content
