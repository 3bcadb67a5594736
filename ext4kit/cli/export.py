"""`ext4kit export`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ext4kit.cli.custody import Custody, custody, keeping
from ext4kit.cli.finding import Search, deleted_files, search_options
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, Command, CommonOptions
from ext4kit.cli.rule_files import rules_option
from ext4kit.cli.selecting import SelectionOptions, deleted_selection
from ext4kit.cli.session import Session, opened
from ext4kit.cli.several import for_each_volume, left_for_end
from ext4kit.cli.telling import tell_line
from ext4kit.cli.values import named
from ext4kit.errors import RequestError
from ext4kit.export import DATABASE, HASHES, PARTS, Export, Subject, Target, exporting
from ext4kit.export.summary import export_lines, export_record
from ext4kit.fields import HashName
from ext4kit.recovery import Grade
from ext4kit.report.phrases import count_text
from ext4kit.report.records import write_record
from ext4kit.report.safe import printable_text
from ext4kit.triage import Rule

if TYPE_CHECKING:
    from ext4kit.cases.database import VolumeInCase

_EXAMPLE = """\b
Examples:
  ext4kit export disk.img --bodyfile body.txt
  ext4kit export disk.img --bodyfile - | mactime -b - -d -y > timeline.csv
  ext4kit export disk.img /home --modified-since 2026-03-01 --csv files.csv
  ext4kit export disk.img --db case.sqlite --dfxml files.xml --hash md5,sha256
  ext4kit export disk.img --timesketch-jsonl events.jsonl --sources journal
  ext4kit export --image web.img --image db.E01 --all-volumes --db lab.sqlite --together
"""
_HELP = {
    "bodyfile": "The Sleuth Kit's bodyfile, for mactime.",
    "timesketch-csv": "Timesketch, as CSV.",
    "timesketch-jsonl": "Timesketch, as JSON lines.",
    "dfxml": "Digital Forensics XML.",
    "case-uco": "CASE/UCO 1.4, as JSON-LD.",
    "csv": "A table of the files.",
    "jsonl": "The files as JSON lines.",
    DATABASE: "An SQLite database: files, versions, events, findings, signs.",
}


def _hashes(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[HashName, ...]:
    names = named(context, option, value.lower(), list(HASHES)) if value is not None else ()
    return tuple(name for name in HASHES if name in names)


def _target(_context: click.Context, option: click.Parameter, value: str | None) -> Target | None:
    path = Path(value) if value and value != "-" else None
    return Target((option.name or "").replace("_", "-"), path) if value else None


def _formats(function: Command) -> Command:
    """Give a command one option per format."""
    for name, text in reversed(_HELP.items()):
        function = click.option(f"--{name}", callback=_target, metavar="FILE", help=text)(function)
    return function


def _volume(session: Session, number: int) -> VolumeInCase:
    from ext4kit.cases.database import VolumeInCase
    from ext4kit.roots.host import host_name

    facts = session.volume.facts
    image, locator, host, uuid, label = (
        printable_text(text)
        for text in (str(session.options.image), str(session.locator), host_name(session.fs),
                     facts.uuid, facts.label)
    )  # fmt: skip
    return VolumeInCase(number, image, locator, host, uuid, label)


def _join(
    values: Mapping[str, object], made: list[tuple[Path, VolumeInCase]], failed: list[str]
) -> None:
    """Write the database of all volumes, if it was asked for."""
    target = values[DATABASE]
    if not (values["together"] and isinstance(target, Target) and target.path and made):
        return
    from ext4kit.cases.database import CaseDatabase, VolumeInCase
    from ext4kit.output.new_file import unfinished_file

    unread = (VolumeInCase(number, name, name) for number, name in enumerate(failed, len(made) + 1))
    with unfinished_file(target.path) as file, CaseDatabase(file.path) as database:
        for path, volume in made:
            database.import_volume(volume, path, path.name)
        database.set_volumes(unread)
        database.refresh()
    tell_line(f"written: {target.path}, of {count_text(len(made), 'volume')}")


@click.command("export", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(lost=True, times=True, scan=True, end=_join)
@_formats
@click.option("--together", is_flag=True,
              help="With several volumes: beside the database of each, make one of all in the FILE "
              "of --db; `ext4kit case` makes the same.")  # fmt: skip
@click.option("--hash", "hashes", callback=_hashes, metavar="LIST",
              help="Hash the content of files: md5, sha1, sha256, with commas.")  # fmt: skip
@click.option(
    "--fractions", is_flag=True, help="Write times in the bodyfile with nine decimal places."
)
@click.option("--without", "left_out", type=click.Choice(PARTS), multiple=True, metavar="PART",
              help="Omit live files, deleted files, events, findings or signs.")  # fmt: skip
@deleted_selection
@search_options
@rules_option
@custody
def command(
    options: CommonOptions,
    together: bool,
    hashes: tuple[HashName, ...],
    fractions: bool,
    left_out: tuple[str, ...],
    chosen: SelectionOptions,
    search: Search,
    rules: tuple[Rule, ...],
    custody: Custody,
    **given: Target | None,
) -> None:
    """Write the live and deleted files of IMAGE in formats of other tools.

    Several formats are written in one pass. Each FILE must be new; - is standard output, which only
    one text format can use. Live and deleted files go to all formats, the events of the journal to
    Timesketch and the database, the signs of report too, the findings of verify to the database.
    PATHs and the options that select files apply to live and deleted files; signs are searched only
    without such a selection.

    With --lost, write all files of the file system that this one overwrote, as deleted files.
    """
    targets = [each for name in _HELP if (each := given[name.replace("-", "_")])]
    _check(targets, options.json or custody.verify_evidence)
    database, left = given[DATABASE], left_for_end()
    if together and (database is None or left is None):
        raise RequestError("--together needs --db, and several images or --all-volumes")
    with opened(options, files=[each.path for each in targets if each.path]) as session:
        parts = {"deleted"} if options.lost else set(PARTS) - set(left_out)
        with keeping(custody, session, None) as case:
            subject = Subject(
                image=session.image,
                volume=session.volume.facts,
                fs=session.fs,
                started=time.time_ns(),
                locator=str(session.locator),
                command=shlex.join(["ext4kit", *case.command]),
                operator=custody.operator or "",
                case_number=custody.case_number or "",
                hashes=hashes,
                fractions=fractions,
                rules=rules,
            )
            with exporting(subject, targets, session.evidence_files) as export:
                selection = chosen.selection(session)
                is_whole = selection.is_everything and search.least == Grade.OVERWRITTEN
                export.everything(
                    session.workspace,
                    parts,
                    lambda: deleted_files(session, search, selection, "live" in parts),
                    selection,
                    session.step,
                    is_whole,
                )
            if together and left is not None and database is not None:
                left.append((database.path, _volume(session, len(left) + 1)))
            _tell(export, targets, options)
            if not (selection.is_everything or export.counts["live"] or export.counts["deleted"]):
                text = "no live or deleted file was selected"
                text += session.answers.owners_text() if selection.owners else ""
                tell_line(f"ext4kit: {text}")
                session.is_incomplete = True


def _check(targets: list[Target], prints: bool) -> None:
    """Reject invalid combinations of outputs.

    Args:
        targets: the outputs.
        prints: whether the command writes something else to standard output.

    Raises:
        RequestError: there is no format, two outputs are on standard output, or a database or other
            text is also to be written there.
    """
    if not targets:
        names = ", ".join(f"--{name}" for name in _HELP)
        raise RequestError(f"nothing to write; give one or more of {names}")
    printed = [target.format for target in targets if target.path is None]
    if DATABASE in printed:
        raise RequestError("a database cannot be written to standard output; name a file")
    if len(printed) > 1 or (printed and prints):
        raise RequestError("only one output can go to standard output")
    paths = [target.path.absolute() for target in targets if target.path]
    if len(set(paths)) < len(paths):
        raise RequestError("two formats cannot be written to the same file")


def _tell(export: Export, targets: list[Target], options: CommonOptions) -> None:
    """Print the result, unless standard output is one of the outputs."""
    if options.json:
        write_record(export_record(export, targets))
    elif all(target.path is not None for target in targets):
        click.echo("\n".join(export_lines(export, targets)))
