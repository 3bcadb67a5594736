"""Exit codes, and the code of each error."""

from __future__ import annotations

from ext4kit.errors import Ext4kitError, OutputError, RequestError

DONE = 0
INCOMPLETE = 1  # done, but the result is bad or incomplete
USAGE = 2
UNREADABLE = 3  # the evidence cannot be opened or is not ext2/3/4
INTERRUPTED = 130


class IncompleteError(Ext4kitError):
    """The command started and could not finish: evidence read after the opening is bad."""


def exit_code(error: Ext4kitError) -> int:
    """The exit code of an error."""
    if isinstance(error, OutputError | IncompleteError):
        return INCOMPLETE
    return USAGE if isinstance(error, RequestError) else UNREADABLE
