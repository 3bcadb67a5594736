"""`ext4kit extract`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from ext4kit.cli.custody import Custody, begin, custody, keeping
from ext4kit.cli.exits import NothingSelectedError
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, output_option, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.restoring import restore_option
from ext4kit.cli.selecting import SelectionOptions, live_selection
from ext4kit.cli.session import opened, show
from ext4kit.output.extraction import ExtractionResult, extract, extraction_lines, extraction_record
from ext4kit.output.restoring import RestoredParts
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import human_size

_EXAMPLE = """\b
Examples:
  ext4kit extract disk.img /etc /var/log -o live
  ext4kit extract disk.img '<131>' -o one-file
  ext4kit extract disk.img '/home/**/*.odt' -o letters
  ext4kit extract disk.img /home --kind pictures --modified-since 2026-03-01 -o pictures
  ext4kit extract disk.img /etc -o before --as-of 4711
  ext4kit extract disk.img --artifact LinuxAuthLogs -o logins
  ext4kit extract disk.img / --restore all,privileges -o copy
  ext4kit extract server.img --root web /etc /app -o web
"""


@click.command("extract", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(as_of=True, lost=True, root=True)
@click.argument("targets", nargs=-1, metavar="TARGET...")
@output_option
@restore_option
@live_selection
@custody
def command(
    options: CommonOptions,
    targets: tuple[str, ...],
    out: Path,
    parts: RestoredParts,
    chosen: SelectionOptions,
    custody: Custody,
) -> None:
    """Copy live files and trees from IMAGE into OUT.

    A TARGET is a path, a pattern of paths or an inode number as '<12>'. In a pattern, * and ? match
    within a name and ** matches directories; one without a slash is a name in any directory. With
    --artifact, TARGETs can be omitted.

    Folders are created, with their modes and times. Links are recorded in the manifest, and created
    with --restore links; devices are only recorded. With --as-of, each file has the grade that
    `recover` would give it: overwritten ones are only recorded, partial ones have zeros for what is
    lost, and the exit code is then 1.

    With --root, TARGETs are paths in this Linux root, and the files are those that the system in it
    saw: of the layers of a container, the upper one first.

    \b
    OUT/files/PATH             a target given by its path
    OUT/unnamed/inode-NUMBER   a target given by its number
    OUT/manifest.jsonl         one record per entry, with SHA-256
    OUT/case.json              actions, times and evidence
    """  # noqa: D301 -- click reads the backspace
    if not (targets or chosen.artifacts):
        raise click.MissingParameter(param_type="argument", param_hint="'TARGET...'")
    targets = targets or ("/",)
    with opened(options, folder=out) as session:
        evidence = session.evidence_files
        names = [session.target(one) for one in targets]
        session.vouch_for_contents()
        with keeping(custody, session, out) as case:
            with progress(options.quiet, "extracting") as tell:
                wanted = chosen.selection(session)
                start = partial(begin, case, session, out)
                result = extract(
                    session.fs, names, out, evidence, tell, wanted, parts, start, session.root_view
                )
            if result == ExtractionResult():
                raise NothingSelectedError(session.answers.nothing_text(wanted, out))
            counts = asdict(result)
            case.counts = counts | counts.pop("grades")
            where = printable_text(str(out))
            lines = extraction_lines(result, where, human_size(result.bytes))
            show(options, [extraction_record(result, where)], lines)
