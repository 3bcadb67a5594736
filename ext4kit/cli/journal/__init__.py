"""`ext4kit journal`: the journal as evidence."""

from __future__ import annotations

import click

from ext4kit.cli.lazy import LazyGroup


class _Journal(LazyGroup):
    """The group of the journal commands."""

    package = "ext4kit.cli.journal"
    summaries = {
        "list": "List the transactions and the blocks that each wrote.",
        "audit": "Check every block of the journal.",
        "replay": "Show what a recovery would do; with -o, write a replayed copy.",
        "history": "Show every version of a block, an inode or a path.",
    }


@click.group("journal", cls=_Journal, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Read, check and replay the journal of a file system."""
