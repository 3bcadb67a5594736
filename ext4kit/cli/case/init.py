"""`ext4kit case init`."""

from __future__ import annotations

from pathlib import Path

import click

from ext4kit.cases.folder import CaseFolder
from ext4kit.cli.options import CONTEXT, quiet_option
from ext4kit.cli.telling import tell_line
from ext4kit.report.safe import printable_text

_EXAMPLE = """\b
Examples:
  ext4kit case init harbour
  ext4kit case init harbour --operator 'R. Roe' --case-number 2026-117
"""


@click.command("init", context_settings=CONTEXT, epilog=_EXAMPLE)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--name", metavar="TEXT", help="Name of the case; by default that of the folder.")
@click.option("--operator", metavar="NAME", help="Name of the examiner, for all records.")
@click.option("--case-number", metavar="TEXT", help="Case number, for all records.")
@quiet_option
def command(
    folder: Path, name: str | None, operator: str | None, case_number: str | None, quiet: bool
) -> None:
    """Make DIR the folder of a new case; it must be new or empty.

    Everything about the case is in this folder: the ledger of the jobs, their outputs, and the
    database. Images stay where they are.
    """
    given = {"name": name or folder.absolute().name, "operator": operator or "",
             "case_number": case_number or ""}  # fmt: skip
    CaseFolder.create(folder, given)
    if not quiet:
        where = printable_text(str(folder))
        tell_line(f"note: {where} is a case; `ext4kit case add --case {where} IMAGE` adds images")
