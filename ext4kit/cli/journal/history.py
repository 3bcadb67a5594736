"""`ext4kit journal history`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from ext4kit.as_of import AsOfFileSystem
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.journal.logs import opened_log
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import Session, opened
from ext4kit.errors import OutputError, RequestError
from ext4kit.fields import json_name
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import directory_blocks
from ext4kit.journal import BlockHistory as Copies
from ext4kit.journal import Log
from ext4kit.journal.epochs import epochs_of
from ext4kit.journal.versions import (
    BlockVersion,
    StructureReader,
    block_versions,
    diff_versions,
    inode_reader,
    reader_for_block,
)
from ext4kit.report.journal_history import BlockTarget, InodeTarget, history_lines, history_records
from ext4kit.report.records import write_records

_EXAMPLE = """\b
Examples:
  ext4kit journal history disk.img /etc/passwd
  ext4kit journal history disk.img /home --entries
  ext4kit journal history disk.img /home/gone --as-of 4711
  ext4kit journal history disk.img '<12>' --json
  ext4kit journal history disk.img --block 1057
  ext4kit journal history disk.img --block 1057 --transaction 4711 --raw block.bin
"""


@dataclass(frozen=True, slots=True)
class _History:
    """The requested versions, their reader, and the fields that identify them in a record."""

    versions: Iterator[BlockVersion]
    reader_for: Callable[[bytes], StructureReader]
    target: BlockTarget | InodeTarget


@click.command("history", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(as_of=True)
@click.argument("target", required=False)
@click.option(
    "--block",
    type=click.IntRange(0),
    metavar="N",
    help="Show the versions of this block of the file system.",
)
@click.option(
    "--entries", is_flag=True, help="Also show the blocks of a directory: names over time."
)
@click.option(
    "--raw", metavar="FILE", help="Write the bytes of one version to FILE; - for standard output."
)
@click.option(
    "--transaction",
    type=click.IntRange(0),
    metavar="T",
    help="Transaction of the version for --raw.",
)
def command(
    options: CommonOptions,
    target: str | None,
    block: int | None,
    entries: bool,
    raw: str | None,
    transaction: int | None,
) -> None:
    """Show every version of a block or inode in the journal, and its changes.

    TARGET is a path or an inode number as '<12>'; with --as-of the path is resolved as of that
    transaction. The last version is the one on disk, without journal replay.
    """
    if (target is None) == (block is None):
        raise RequestError("give either a TARGET or --block")
    if (raw is None) != (transaction is None) or (entries and (raw or target is None)):
        raise RequestError(
            "--raw needs --transaction and the reverse; --entries needs a TARGET alone"
        )
    files = [Path(raw)] if raw and raw != "-" else []
    with opened(options, files=files) as session:
        fs = session.fs
        now = fs.moment.present if isinstance(fs, AsOfFileSystem) else fs
        log = fs.moment.log if isinstance(fs, AsOfFileSystem) else opened_log(session)
        if log is None:
            return
        history = _block(now, log, block) if target is None else _inode(session, now, log, target)
        if raw is not None:
            _write_raw(history, transaction, raw)
            return
        _show(options, history)
        for each in _blocks(session, history) if entries else ():
            if not options.json:
                click.echo(f"\nblock {each}:")
            _show(options, _block(now, log, each))


def _show(options: CommonOptions, history: _History) -> None:
    found = diff_versions(history.versions, history.reader_for)
    if options.json:
        write_records(history_records(found, history.target))
    else:
        sys.stdout.writelines(f"{line}\n" for line in history_lines(found))


def _block(now: FileSystem, log: Log, block: int | None) -> _History:
    number = block or 0
    return _History(
        block_versions(now, log, number), reader_for_block(now, number), {"block": number}
    )


def _inode(session: Session, now: FileSystem, log: Log, target: str) -> _History:
    path = os.fsencode(target)
    by_number = path.startswith(b"<") and path.endswith(b">")
    number = (now if by_number else session.fs).lookup(path)
    block, offset = (int(part[0]) for part in now.inode_location(np.array([number])))
    size, reader = now.superblock.inode_size, inode_reader(now, number)
    since = epochs_of(now, Copies(log)).first_of_layout
    versions = (one.slice(offset, size) for one in block_versions(now, log, block, since))
    names: InodeTarget = {"inode": number} if by_number else {"inode": number, **json_name(path)}
    return _History(versions, lambda _: reader, names)


def _blocks(session: Session, history: _History) -> list[int]:
    """The blocks of a directory, as of the requested time.

    Raises:
        RequestError: the inode is not a directory.
    """
    number = history.target.get("inode")
    table = session.fs.inode_table(np.array([number]))
    if not table.one(0).is_directory:
        raise RequestError(f"inode {number} is not a directory; --entries requires a directory")
    blocks: list[int] = directory_blocks(session.fs, table)[1].tolist()
    return blocks


def _write_raw(history: _History, transaction: int | None, raw: str) -> None:
    versions = list(history.versions)
    found = [version for version in versions if version.transaction == transaction]
    if not found:
        have = ", ".join(str(one.transaction) for one in versions if one.transaction is not None)
        what = f"the journal has no copy of transaction {transaction}"
        raise RequestError(f"{what} (there are: {have or 'none'})")
    data = found[-1].data
    if raw == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(raw)
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
