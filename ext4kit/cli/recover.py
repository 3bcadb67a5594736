"""`ext4kit recover`."""

from __future__ import annotations

from pathlib import Path

import click

from ext4kit.cli.custody import Custody, custody, keeping
from ext4kit.cli.finding import Search, deleted_files, search_options
from ext4kit.cli.outputs import check_output
from ext4kit.cli.progress import progress
from ext4kit.cli.session import CONTEXT, CommonOptions, opened, output_option, shared, show
from ext4kit.recovery import recover
from ext4kit.report.deleted import recovery_lines, recovery_record, salvage_counts
from ext4kit.report.safe import printable_text

_EXAMPLE = """\b
Examples:
  ext4kit recover disk.img -o recovered
  ext4kit recover disk.img --volume 2 -o recovered --versions
  ext4kit recover disk.img --lost -o recovered
"""


@click.command("recover", context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(lost=True)
@output_option
@search_options
@custody
def command(options: CommonOptions, out: Path, search: Search, custody: Custody) -> None:
    """Recover the deleted files of IMAGE into OUT.

    \b
    OUT/files/PATH                        path known
    OUT/unnamed/inode-NUMBER-GENERATION   inode known, path unknown
    OUT/unnamed/inode-NUMBER-GENERATION/PATH   below a directory with unknown path
    OUT/carved/block-NUMBER.EXTENSION     content without an inode
    OUT/manifest.jsonl                    one record per file, also for files not written
    OUT/case.json                         actions, times and evidence
    """  # noqa: D301 -- click reads the backspace
    with opened(options) as session:
        evidence = check_output(out, session)
        with keeping(custody, session, out) as case:
            deleted = deleted_files(session, search)
            with progress(options.quiet, "recovering") as tell:
                salvage = recover(deleted, out, tell, evidence)
            where = printable_text(str(out))
            case.counts = salvage_counts(salvage)
            show(options, [recovery_record(salvage, where)], recovery_lines(salvage, where))
        session.is_incomplete = bool(salvage.incomplete)
