"""Exit codes, and which error means which."""

from __future__ import annotations

from ext4kit.errors import Ext4kitError, OutputError, RequestError

DONE = 0
INCOMPLETE = 1  # done, and the result is bad or not all there
USAGE = 2
UNREADABLE = 3  # the evidence cannot be opened or is not ext2/3/4
INTERRUPTED = 130


class IncompleteError(Ext4kitError):
    """The command began and could not be finished: evidence behind the opening is bad."""


def exit_code(error: Ext4kitError) -> int:
    """The exit code that an error means."""
    if isinstance(error, OutputError | IncompleteError):
        return INCOMPLETE
    return USAGE if isinstance(error, RequestError) else UNREADABLE
