"""README.txt and report.html: an output folder of `recover` that explains itself."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from ext4kit import __version__
from ext4kit.cli.session import Session
from ext4kit.errors import OutputError, write_advice
from ext4kit.evidence.locator import NOW
from ext4kit.output import MANIFEST
from ext4kit.output.case import Case
from ext4kit.output.manifest import README, REPORT
from ext4kit.output.new_file import whole_file
from ext4kit.output.own import free_name
from ext4kit.output.pouring import write_all
from ext4kit.problems import Severity
from ext4kit.recovery import RecoveryResult
from ext4kit.recovery.placing import PartialFiles
from ext4kit.report.recovery_page import recovery_page
from ext4kit.report.recovery_readme import readme_text
from ext4kit.report.recovery_summary import RecoverySummary
from ext4kit.report.safe import printable_text


def write_reports(
    session: Session,
    case: Case,
    out: Path,
    partial: PartialFiles,
    salvage: RecoveryResult,
    unreached: str,
    is_all: bool,
) -> None:
    """Write both, from the manifest of the folder.

    Args:
        session: the file system.
        case: has the command.
        out: the folder.
        partial: where damaged files were written.
        salvage: the counts.
        unreached: tells of files that the selection could not reach.
        is_all: whether everything that was found was to be written.

    Raises:
        OutputError: one could not be written.
    """
    summary = RecoverySummary(
        image=printable_text(session.image.evidence.path.name),
        address=printable_text(_address(session)),
        command=printable_text(shlex.join(["ext4kit", *case.command])),
        made=time.time_ns(),
        version=__version__,
        partial=partial,
        kept=salvage.kept,
        is_complete=not salvage.incomplete,
        is_selection=not is_all,
        unreached=unreached,
        has_explanations=not session.options.lost,
    )
    path = out / MANIFEST
    try:
        summary.read(path)
        readme, summary.page = (free_name(out, name) for name in (README, REPORT))
        for name, text in (
            (readme, readme_text(summary)),
            (summary.page, recovery_page(summary)),
        ):
            path = out / name
            with whole_file(path) as handle:
                write_all(handle, "".join(text).encode())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; {write_advice(error)}") from error
    others = [
        (name, ours) for name, ours in ((README, readme), (REPORT, summary.page)) if name != ours
    ]
    if others:
        theirs, ours = (" and ".join(names) for names in zip(*others, strict=True))
        text = f"not of this recovery, left as it is: {theirs}; see {ours}"
        session.image.problems.add("output folder", text, Severity.WARNING)


def _address(session: Session) -> str:
    """What stands for the image in a command: its path, or the locator of one of several."""
    locator, options = session.locator, session.options
    is_plain = locator.state == NOW and not (
        options.volume or options.offset is not None or locator.superblock or locator.journal
    )
    return shlex.quote(locator.path if is_plain and not locator.form else str(locator))
