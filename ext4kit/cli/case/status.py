"""`ext4kit case status`."""

from __future__ import annotations

import sys
import time

import click

from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.ledger import JobState, Ledger
from ext4kit.cases.lines import job_record, status_lines
from ext4kit.cli.case.common import case_option
from ext4kit.cli.options import CONTEXT, json_option
from ext4kit.report.records import write_lines, write_records

_EXAMPLE = """\b
Examples:
  ext4kit case status
  ext4kit case status --watch
  ext4kit case status --json
"""
_PAUSE = 1.0  # seconds between two states


@click.command("status", context_settings=CONTEXT, epilog=_EXAMPLE)
@case_option
@click.option("--watch", is_flag=True, help="Show it again every second until all jobs ended.")
@json_option
def command(case: CaseFolder, watch: bool, json: bool) -> None:
    """Show the state of each job: done with its time, running, waiting or failed.

    `!` marks a job that is done and met problems; its messages.txt and its page name them.
    """
    with Ledger(case.ledger) as ledger:
        if json:
            write_records(map(job_record, ledger.jobs()))
        elif watch and sys.stdout.isatty():
            _watch(ledger)
        else:
            write_lines(_lines(ledger))


def _lines(ledger: Ledger) -> list[str]:
    return list(status_lines(ledger.images(), ledger.volumes(), ledger.jobs(), time.time()))


def _watch(ledger: Ledger) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            live.update(Text("\n".join(_lines(ledger))), refresh=True)
            states = {job.state for job in ledger.jobs()}
            if not states & {JobState.WAITING, JobState.RUNNING}:
                return
            time.sleep(_PAUSE)
