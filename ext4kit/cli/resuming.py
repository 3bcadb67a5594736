"""What `recover --resume` goes on with: a folder of the same evidence, options and program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ext4kit import __version__
from ext4kit.cli.custody import Custody
from ext4kit.cli.options import CommonOptions
from ext4kit.cli.session import Session
from ext4kit.errors import Ext4kitError, OutputError, RequestError
from ext4kit.evidence.locator import Locator
from ext4kit.fields import VolumeFacts
from ext4kit.output import MANIFEST
from ext4kit.output.manifest import CASE, read_case
from ext4kit.output.own import check_own
from ext4kit.recovery import DeletedFiles, is_written
from ext4kit.report.phrases import command_text
from ext4kit.report.safe import printable_text

if TYPE_CHECKING:
    from ext4kit.output.case import CaseRecord

_ELSEWHERE = "choose a new or empty folder"
_FREE = {each.name for kind in (CommonOptions, Custody) for each in fields(kind)}
_FREE |= {"out", "dry_run", "resume"}  # what is written does not depend on them


def stopped_text(out: Path, words: Sequence[str], deleted: DeletedFiles | None) -> str:
    """How far an interrupted recovery came, and the command that goes on with it."""
    written = 0
    with suppress(OSError, ValueError, KeyError), (out / MANIFEST).open(encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            written += record["output"] is not None and record["type"] == "file"
    if deleted is None or not written:
        return "nothing was written yet"
    total = sum(file.kind == "file" and is_written(file) for file in deleted)
    where = printable_text(str(out))
    return f"{written:,} of {total:,} files written to {where}; go on with {_resuming(words)}"


def _resuming(words: Sequence[str]) -> str:
    """The command that goes on with an unfinished one, in backticks."""
    return command_text(*words, *["--resume"][: "--resume" not in words])


def check_resumed(out: Path, session: Session) -> None:
    """Refuse to go on with a folder that this command would not have written so.

    Raises:
        RequestError: it is of another image, file system, version or choice of files, or something
            stands in the way.
        OutputError: it cannot be read.
    """
    try:
        is_new = not out.exists() or {path.name for path in out.iterdir()} <= {f".{CASE}.part"}
        if out.exists():
            check_own(out)
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}; {_ELSEWHERE}") from error
    if is_new:
        return
    case = read_case(out)
    if case is None:
        raise RequestError(f"{out}: holds no recovery to go on with; {_ELSEWHERE}")
    try:
        differs = next(_differences(cast("CaseRecord", case), session), "")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, Ext4kitError) as error:
        raise RequestError(f"{out / CASE}: damaged; {_ELSEWHERE}") from error
    if differs:
        raise RequestError(f"{out}: {differs}, or {_ELSEWHERE}")


def _differences(case: CaseRecord, session: Session) -> Iterator[str]:
    """What differs, and what to do, in parts of a sentence."""
    if (version := case["tool"]["version"]) != __version__:
        yield f"begun by ext4kit {version}, this is {__version__}; go on with that one"
    volume, evidence = session.volume.facts.as_facts(), session.image.evidence
    (before,) = (each for each in case["volumes"] if each["worked_on"])
    if (evidence.source.size, *_identity(volume)) != (case["evidence"]["size"], *_identity(before)):
        yield (
            f"begun with {case['locator']} (UUID {before['uuid']}), not with this file system"
            f" (UUID {volume['uuid']}); give that image and volume"
        )
    then, now = Locator.parse(case["locator"]), session.locator
    if replace(then, path=now.path, volume=now.volume, journal=now.journal) != now:
        yield f"begun with {then}, not with {now}; give that state"
    command, given = click.get_current_context().command, _parameters(case["command"])
    current = click.get_current_context().params
    differ = {
        name
        for name in current.keys() - _FREE
        if _comparable(current[name]) != _comparable(given.get(name))
    }
    shown = [
        "PATH" if isinstance(each, click.Argument) else each.opts[-1]
        for each in command.params
        if each.name in differ
    ]
    if shown:
        then_given = _resuming(case["command"][1:])
        yield f"begun with other values of {', '.join(shown)}; go on with {then_given}"


def _comparable(value: object) -> object:
    """The value of an option or argument; a slash at the end of a path is no difference."""
    if isinstance(value, tuple) and value and all(isinstance(each, bytes) for each in value):
        return tuple(b"/" + each.strip(b"/") if b"/" in each else each for each in value)
    return value


def _identity(volume: VolumeFacts) -> tuple[object, ...]:
    return volume["uuid"], volume["kind"], volume["offset"], volume["size"]


def _parameters(words: list[str]) -> dict[str, Any]:
    """The values that a command was given.

    Raises:
        ValueError: it is no command of this kind.
    """
    command = click.get_current_context().command
    if words[:2] != ["ext4kit", command.name]:
        raise ValueError("another command")
    try:
        with command.make_context(words[1], words[2:]) as context:
            return context.params
    except (click.ClickException, click.exceptions.Exit) as error:
        raise ValueError(str(error)) from error
