"""Exit codes, and the line and code of each error."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

from ext4kit import __version__
from ext4kit.cli.telling import tell_line
from ext4kit.errors import Ext4kitError, OutputError, RequestError

DONE = 0
INCOMPLETE = 1  # finished, but the result is bad or incomplete
USAGE = 2
UNREADABLE = 3  # the evidence cannot be opened or is not ext2/3/4
INTERNAL = 70  # an error of the program itself (EX_SOFTWARE of sysexits.h)
INTERRUPTED = 130
_PACKAGE = Path(__file__).parents[1]
_PLACES = 4  # number of innermost code lines named in a report


class IncompleteError(Ext4kitError):
    """The command started and could not finish: evidence read after the opening is bad."""


class NothingSelectedError(RequestError):
    """Nothing is written, as nothing was selected; an output folder stays as it was."""


def exit_code(error: Ext4kitError) -> int:
    """The exit code of an error."""
    if isinstance(error, OutputError | IncompleteError | NothingSelectedError):
        return INCOMPLETE
    return USAGE if isinstance(error, RequestError) else UNREADABLE


def end_of(error: Exception) -> int:
    """One line for an error that a command did not handle, and its exit code."""
    if isinstance(error, Ext4kitError):
        say(str(error))
        return exit_code(error)
    if isinstance(error, OSError):
        is_closed = error.errno == errno.EBADF
        say(f"output: {'it is closed' if is_closed else error.strerror or error}")
        _discard_output()
        return INCOMPLETE
    say(f"internal error: {type(error).__name__}: {error} (EXT4KIT_DEBUG=1 shows the traceback)")
    say(f"please report this line; it has nothing of the evidence: {_report_of(error)}")
    return INTERNAL


def _report_of(error: Exception) -> str:
    """The kind of an internal error, its place in the code, and the versions of all components.

    The message of the error is omitted, because it can quote names from the evidence.
    """
    from traceback import extract_tb

    from ext4kit.versions import version_lines

    places = []
    for frame in extract_tb(error.__traceback__):
        with contextlib.suppress(ValueError):  # the frame belongs to a library
            places.append(f"{Path(frame.filename).relative_to(_PACKAGE)}:{frame.lineno}")
    what = f"{type(error).__name__} at {' > '.join(places[-_PLACES:])}"
    return "; ".join([what, f"ext4kit {__version__}", *version_lines()])


def _discard_output() -> None:
    """Point stdout at the null device, so that buffered output does not fail again."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def say(message: str) -> None:
    """Write an error on one line of stderr."""
    from ext4kit.report.safe import printable_text

    lines = " ".join(message.split("\n"))
    tell_line(f"ext4kit: {printable_text(lines)}")
