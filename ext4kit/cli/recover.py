"""`ext4kit recover`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ext4kit.cli.custody import Custody, begin, custody, keeping
from ext4kit.cli.exits import NothingSelectedError
from ext4kit.cli.finding import Search, deleted_files, search_options, tell_pathless
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.interrupts import INTERRUPTS
from ext4kit.cli.options import CONTEXT, CommonOptions, packed
from ext4kit.cli.recovery_reports import write_reports
from ext4kit.cli.restoring import restore_option
from ext4kit.cli.resuming import check_resumed, stopped_text
from ext4kit.cli.selecting import (
    KnownOptions,
    SelectionOptions,
    deleted_selection,
    known_options,
)
from ext4kit.cli.session import Session, opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.errors import RequestError
from ext4kit.output.restoring import DEFAULT_PARTS, RestoredParts
from ext4kit.recovery import DeletedFiles, Grade, RecoveryResult, recover
from ext4kit.recovery.placing import PartialFiles
from ext4kit.report.deleted import (
    deleted_records,
    dry_run_lines,
    recovery_lines,
    recovery_record,
    salvage_counts,
)
from ext4kit.report.phrases import command_text
from ext4kit.report.safe import printable_text

_EXAMPLE = """\b
Examples:
  ext4kit recover disk.img -o recovered
  ext4kit recover disk.img /home/me/thesis.odt -o recovered
  ext4kit recover disk.img '/home/**/*.jpg' --deleted-since 2h --dry-run
  ext4kit recover disk.img --volume 2 -o recovered --versions
  ext4kit recover server.img --root web /var/www -o recovered
  ext4kit recover disk.img --lost -o recovered
  ext4kit recover disk.img /home/me/project --restore all -o recovered
  ext4kit recover disk.img -o recovered --resume
"""


@dataclass(frozen=True, slots=True)
class Writing:
    """Values of the options that say what is written, and where."""

    out: Path | None = None
    dry_run: bool = False
    parts: RestoredParts = DEFAULT_PARTS
    partial: PartialFiles = PartialFiles.APART
    no_readme: bool = False
    resume: bool = False


_WRITING = (
    click.option("-o", "--output", "out", metavar="OUT", type=click.Path(path_type=Path),
                 help="Write into this new or empty folder, or go on in it with --resume."),
    click.option("--dry-run", is_flag=True, help="List what would be written; write nothing."),
    restore_option,
    click.option("--partial", type=click.Choice([str(each) for each in PartialFiles]),
                 default=str(PartialFiles.APART), show_default=True,
                 callback=lambda _context, _option, value: PartialFiles(value),
                 help="Where damaged files go: apart (below OUT/partial), marked (.partial in"
                 " their names), or among the others."),
    click.option("--no-readme", is_flag=True, help="Do not write README.txt and report.html."),
    click.option("--resume", is_flag=True,
                 help="Go on with an unfinished recovery in OUT: keep files whose hashes are right,"
                 " write the others."),
)  # fmt: skip


@click.command("recover", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(lost=True, times=True, root=True, scan=True)
@deleted_selection
@known_options
@packed(Writing, "writing", _WRITING)
@search_options
@custody
def command(
    options: CommonOptions,
    chosen: SelectionOptions,
    known: KnownOptions,
    writing: Writing,
    search: Search,
    custody: Custody,
) -> None:
    """Recover the deleted files of IMAGE into OUT.

    With PATHs, those files and all files below them. In a PATH, * and ? match within a name and **
    matches directories; a PATH without a slash is a name in any directory.

    With --root, recover only files of which a path lies in this Linux root: in one of its layers or
    its directory, or, for the system of IMAGE itself, in no other root. PATHs are paths in the
    root; below OUT and in the manifest, paths are those in IMAGE. Files without a known path are
    left out and counted.

    \b
    OUT/files/PATH                       path known
    OUT/unnamed/inode-NUMBER-GENERATION  inode known, path unknown
    OUT/unnamed/inode-N-G/PATH           below a directory with unknown path
    OUT/earlier/PATH                     deleted before another file with the same path
    OUT/partial/...                      damaged files of the folders above
    OUT/inferred/PATH                    content matched with an inode, or named by a list
    OUT/carved/KIND/block-NUMBER.EXT     content without an inode, by its kind
    OUT/carved/fragments/...             content that is probably a fragment of a file
    OUT/README.txt, OUT/report.html      what is where, how good it is, what to do next
    OUT/manifest.jsonl                   one record per file, written or not
    OUT/case.json                        actions, times and evidence
    """  # noqa: D301 -- click reads the backspace
    out = None if writing.dry_run else writing.out
    if out is None and not writing.dry_run:
        raise RequestError("name an output folder with -o, or list the files with --dry-run")
    with opened(options, folder=out, is_resumed=writing.resume) as session:
        if out is None:
            selection = session.in_root(chosen.selection(session))
            found = deleted_files(session, search, selection, known=known)
            show(options, deleted_records(found), dry_run_lines(found))
            tell_pathless(session, found)
            return
        if writing.resume:
            check_resumed(out, session)
        selection = session.in_root(chosen.selection(session))
        deleted: DeletedFiles | None = None
        with (
            keeping(custody, session, out) as case,
            INTERRUPTS.explained(lambda: stopped_text(out, case.command, deleted)),
        ):
            deleted = deleted_files(session, search, selection, known=known)
            is_all = selection.is_everything and search.least == Grade.OVERWRITTEN
            is_all = is_all and known == KnownOptions()
            if not (is_all or len(deleted)):
                raise NothingSelectedError(f"nothing was selected, so nothing was written to {out}")
            begin(case, session, out, writing.resume)
            salvage = _recover(session, deleted, out, writing)
            case.counts = salvage_counts(salvage)
            unreached = session.answers.unreached_text(selection, deleted.unselected)
            if not writing.no_readme:
                write_reports(session, case, out, writing.partial, salvage, unreached, is_all)
            where = printable_text(str(out))
            if unreached:
                command = command_text("recover", options.image, "-o", "NEW")
                unreached += f": {command} brings them"
            lines = recovery_lines(salvage, where, unreached)
            show(options, [recovery_record(salvage, where)], lines)
        session.is_incomplete |= bool(salvage.incomplete)


def _recover(
    session: Session, deleted: DeletedFiles, out: Path, writing: Writing
) -> RecoveryResult:
    """Write the files, with progress on a terminal."""
    with session.step("recovering") as tell:
        evidence = session.evidence_files
        return recover(deleted, out, tell, evidence, writing.parts, writing.partial, writing.resume)
