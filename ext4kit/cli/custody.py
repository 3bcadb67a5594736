"""Custody: common options of commands that write, and the case record in the output folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ext4kit.cli.options import packed
from ext4kit.cli.outputs import check_places
from ext4kit.cli.progress import progress
from ext4kit.cli.session import Session
from ext4kit.errors import OutputError, RequestError
from ext4kit.output.lock import lock
from ext4kit.report.records import write_record
from ext4kit.report.safe import printable_text

if TYPE_CHECKING:
    from ext4kit.output.case import Case

_OPTIONS = (
    click.option("--operator", metavar="NAME", help="Name of the examiner, for the case record."),
    click.option("--case-number", metavar="TEXT", help="Case number, for the case record."),
    click.option(
        "--verify-evidence",
        is_flag=True,
        help="Hash the evidence before and after the work and report whether the hashes match.",
    ),
)


@dataclass(frozen=True, slots=True)
class Custody:
    """Values of the custody options."""

    operator: str | None = None
    case_number: str | None = None
    verify_evidence: bool = False


custody = packed(Custody, "custody", _OPTIONS)


@contextmanager
def keeping(given: Custody, session: Session, folder: Path | None) -> Iterator[Case]:
    """Context manager that writes the record of a command's work, which is the body of the `with`.

    The record is written at the end, even if the work fails or is interrupted. A rejected request
    gets no record.

    Args:
        given: values of the options.
        session: the opened file system.
        folder: the output folder, which gets `case.json`; None for a command without one.

    Raises:
        OutputError: the record cannot be written.
    """
    from ext4kit.output.case import Case

    case = Case(
        command=click.get_current_context().find_root().obj or (),
        evidence=session.image.evidence,
        files=session.evidence_files,
        volume=session.volume.facts.index,
        locator=str(session.locator),
        operator=given.operator,
        case_number=given.case_number,
    )
    if given.verify_evidence:
        with progress(session.options.quiet, "hashing the evidence") as show:
            case.hash_before(show)
    try:
        yield case
        _end(case, session, folder)
    except RequestError:
        raise
    except BaseException as error:
        reason = str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        with suppress(OSError):
            _write(case, session, folder, f"{type(error).__name__}: {reason}")
        raise


def begin(case: Case, session: Session, folder: Path, is_resumed: bool = False) -> None:
    """Record before anything is written what the folder is of, and that it is unfinished.

    Raises:
        RequestError: the folder is not empty, and nothing is gone on with, or another run writes
            into it.
        OutputError: it cannot be written.
    """
    check_places(folder, (), is_resumed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock(folder)
        check_places(folder, (), is_resumed)  # another run may have been faster
        _write(case, session, folder, "unfinished")
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}; choose another folder") from error


def _end(case: Case, session: Session, folder: Path | None) -> None:
    """Hash the evidence again, report the result, and write the record."""
    if case.check is not None:
        with progress(session.options.quiet, "hashing the evidence") as show:
            case.hash_after(show)
        for text in case.complaints():
            session.image.problems.add("evidence", text)
        _tell(case, session)
    try:
        _write(case, session, folder, "")
    except OSError as error:
        raise OutputError(f"{folder}: case record: {error.strerror}") from error


def _tell(case: Case, session: Session) -> None:
    """Report whether the hashes of the evidence match, in either case."""
    from ext4kit.report.hashes import comparison_texts

    assert case.check is not None
    record = case.check.record(case.evidence.hashes)
    if session.options.json:
        write_record(case.check.as_record(case.evidence.hashes))
    elif not case.check.changed:
        many = len(case.check.before)
        files = f"{many:,} file{'s' * (many != 1)}"
        stored = "; the contained disk matches the stored hashes" if record["as_stored"] else ""
        click.echo(f"evidence unchanged: {files}, hashed before and after{stored}")
        for path, hashes in case.check.before.items():
            click.echo(f"  SHA-256 {hashes.digests['sha256']}  {printable_text(str(path))}")
        for text in comparison_texts(case.check.recorded, case.check.unproved):
            click.echo(f"  {text}")


def _write(case: Case, session: Session, folder: Path | None, reason: str) -> None:
    """Write the record if there is a folder for it.

    Raises:
        OSError: the record cannot be written.
    """
    from ext4kit.output.case import write_case
    from ext4kit.output.manifest import CASE

    if folder is None or not folder.is_dir():
        return
    problems = [problem for each in session.problems for problem in each]
    errors = sum(each.errors for each in session.problems)
    write_case(folder / CASE, case.record(problems, errors, reason))
