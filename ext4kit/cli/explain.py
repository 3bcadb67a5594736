"""`ext4kit explain`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

import click

from ext4kit.cli.finding import Search, deleted_files, sources_option
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import Session, opened
from ext4kit.cli.zones import tell_zone
from ext4kit.errors import NotFoundError, RequestError
from ext4kit.recovery.manifest import RecoveredFile
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.report.explanation import Explanation, explanation_lines
from ext4kit.report.records import write_record
from ext4kit.selection import Selection

_EXAMPLE = """\b
Examples:
  ext4kit explain disk.img /home/anna/report.odt
  ext4kit explain disk.img '<131>' --json
  ext4kit explain disk.img --manifest recovered/manifest.jsonl --record 17
"""


@click.command("explain", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(scan=True)
@click.argument("target", required=False, metavar="[TARGET]")
@click.option("--manifest", type=click.Path(path_type=Path), metavar="FILE",
              help="Explain a record of this manifest, which `recover` wrote.")  # fmt: skip
@click.option("--record", "line", type=click.IntRange(1), metavar="N",
              help="Explain the record in line N of the manifest.")  # fmt: skip
@click.option("--versions", is_flag=True, help="Include earlier versions of the file.")
@sources_option
def command(
    options: CommonOptions,
    target: str | None,
    manifest: Path | None,
    line: int | None,
    versions: bool,
    sources: frozenset[SearchSource],
) -> None:
    """Explain the evidence for a deleted file in numbered sentences with byte offsets.

    TARGET is the path of a deleted file or an inode number as '<12>'; --manifest and --record
    select a record instead. Byte offsets are counted from the start of the image, of the disk in a
    container, or of a logical or unlocked volume. Each offset can be checked in a hex viewer.
    """
    if (target is None) == (manifest is None) or (manifest is None) != (line is None):
        raise RequestError("give either a TARGET, or --manifest with --record")
    with opened(options) as session:
        if manifest is not None:
            found = [Explanation(session.fs, session.volume.facts, _record_of(manifest, line or 1))]
        else:
            found = _found(session, os.fsencode(target or ""), Search(versions, sources))
        if not options.json:
            tell_zone()
        for place, each in enumerate(found):
            if options.json:
                write_record(each.as_record())
            else:
                click.echo("\n".join([""] * (place > 0) + explanation_lines(each.sentences())))


def _record_of(manifest: Path, line: int) -> RecoveredFile:
    """One record of a manifest.

    Raises:
        RequestError: the manifest is unreadable, or has no such record.
    """
    try:
        with manifest.open(encoding="utf-8") as stream:
            text = next((text for at, text in enumerate(stream, 1) if at == line), None)
        found = None if text is None else json.loads(text)
    except (OSError, ValueError) as error:
        raise RequestError(f"{manifest}: could not be read: {error}") from error
    if not isinstance(found, dict):
        raise RequestError(f"{manifest}: has no record {line}")
    return cast("RecoveredFile", found)  # missing fields are handled on access


def _found(session: Session, target: bytes, search: Search) -> list[Explanation]:
    """The explanations of the deleted files that match a target.

    Raises:
        RequestError: no deleted file matches.
    """
    number = target[1:-1] if target[:1] + target[-1:] == b"<>" else b""
    path = b"/" + target.strip(b"/")
    found = [
        file
        for file in deleted_files(session, search, Selection())
        if (number.isdigit() and file.number == int(number)) or file.path == path
    ]
    if not found:
        raise NotFoundError(target, "no deleted file has this path or inode number")
    return [Explanation.of(session.fs, session.volume.facts, file) for file in found]
