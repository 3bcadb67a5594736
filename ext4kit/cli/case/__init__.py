"""`ext4kit case`: many images at once."""

from __future__ import annotations

import click

from ext4kit.cli.lazy import LazyGroup


class _CaseCommands(LazyGroup):
    """The group of the case commands."""

    package = "ext4kit.cli.case"
    summaries = {
        "init": "Make the folder of a new case.",
        "add": "Add images, or all images below a folder.",
        "run": "Run the jobs of all volumes; a killed run goes on where it was.",
        "status": "Show the state of every job.",
        "query": "Ask the database of the case.",
        "report": "Write the page of the case.",
        "seal": "Write the checksums of the case, and sign them.",
    }


@click.group(
    "case",
    cls=_CaseCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `ext4kit case init DIR`, go there, then `add`, `run`, `status`, `report`.",
)
def command() -> None:
    """Examine many images, and ask one database about all of them."""
