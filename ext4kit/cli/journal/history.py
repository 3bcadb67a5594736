"""`ext4kit journal history`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ext4kit.as_of.logged_versions import LoggedStructures, LoggedVersions
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.journal.logs import opened_log
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import opened
from ext4kit.cli.zones import tell_zone
from ext4kit.errors import RequestError
from ext4kit.fields import json_name
from ext4kit.journal.versions import diff_versions
from ext4kit.output.new_file import new_file
from ext4kit.output.pouring import write_all
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
    "--entries",
    is_flag=True,
    help="Also show the blocks of a directory, and with them its names over time.",
)
@click.option(
    "--raw", metavar="FILE", help="Write the bytes of one version to FILE; - is standard output."
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
        log = opened_log(session)
        if log is None:
            return
        found = LoggedStructures(session.fs, log)
        path = os.fsencode(target or "")
        history = found.of_block(block or 0) if target is None else found.of_inode(path)
        if raw is not None:
            _write_raw(history, transaction, raw, session.evidence_files)
            return
        if not options.json:
            tell_zone()
        _show(options, history, path)
        for each in found.blocks_of_directory(history.inode or 0) if entries else ():
            if not options.json:
                click.echo(f"\nblock {each}:")
            _show(options, found.of_block(each))


def _show(options: CommonOptions, history: LoggedVersions, path: bytes = b"") -> None:
    found = diff_versions(history.versions, history.reader_for)
    if not options.json:
        sys.stdout.writelines(f"{line}\n" for line in history_lines(found))
        return
    target: BlockTarget | InodeTarget = {"block": history.block or 0}
    if history.inode is not None:
        by_number = path.startswith(b"<") and path.endswith(b">")
        target = {"inode": history.inode}
        target = target if by_number else {**target, **json_name(path)}
    write_records(history_records(found, target))


def _write_raw(
    history: LoggedVersions, transaction: int | None, raw: str, evidence: tuple[Path, ...]
) -> None:
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
    with new_file(Path(raw), evidence) as handle:
        write_all(handle, data)
