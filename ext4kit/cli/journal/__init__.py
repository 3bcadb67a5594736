"""`ext4kit journal`: the journal as evidence."""

from __future__ import annotations

import click

from ext4kit.cli.lazy import LazyGroup

_SUMMARIES = {
    "list": "The transactions and what each touched.",
    "audit": "A verdict on every block of the log.",
    "replay": "What a recovery would do; with -o, a replayed copy.",
    "history": "Every version of a block, an inode or a path.",
}


@click.group(
    "journal",
    cls=LazyGroup,
    package="ext4kit.cli.journal",
    summaries=_SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Read, check and replay the journal of a file system."""
