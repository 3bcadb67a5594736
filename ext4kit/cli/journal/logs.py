"""Opens the journal of the file system of a command."""

from __future__ import annotations

from ext4kit.cli.session import Session
from ext4kit.errors import RequestError
from ext4kit.journal import Log
from ext4kit.parsers.features import Compat
from ext4kit.report.phrases import command_text


def need_journal(session: Session) -> None:
    """Reject a file system that has no journal.

    Raises:
        RequestError: the file system has no journal.
    """
    if Compat.HAS_JOURNAL not in session.fs.superblock.features:
        text = f"{session.options.image}: the file system has no journal"
        if not session.options.quiet:
            command = command_text("deleted", session.options.image)
            text += f"; {command} lists deleted files all the same"
        raise RequestError(text)


def opened_log(session: Session) -> Log | None:
    """The journal; if it is unreadable, None, and the result of the command counts as incomplete.

    Raises:
        RequestError: the file system has no journal.
    """
    need_journal(session)
    log = Log.open(session.fs)
    session.is_incomplete |= log is None
    return log
