"""The files that a command found, live, deleted and earlier, written into a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from ext4kit.cli.custody import Custody, begin, keeping
from ext4kit.cli.session import Session, show
from ext4kit.output.collecting import (
    CollectedItem,
    collect,
    collection_lines,
    collection_record,
)
from ext4kit.report.safe import printable_text


def write_collected(
    session: Session, items: Iterable[CollectedItem], out: Path, custody: Custody
) -> None:
    """Write files with their manifest and the case record; without files, only say so."""
    listed, where = list(items), printable_text(str(out))
    if not listed:
        click.echo(f"note: there is no file to write, so nothing was written to {where}", err=True)
        return
    with keeping(custody, session, out) as case:
        begin(case, session, out)
        with session.step("writing"):
            done = collect(session.fs, listed, out, session.evidence_files)
        case.counts = asdict(done)
        show(session.options, [collection_record(done, where)], collection_lines(done, where))
    session.is_incomplete |= bool(done.incomplete)
