"""`ext4kit logs`."""

from __future__ import annotations

import os
import re

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.selecting import SelectionOptions, log_selection
from ext4kit.cli.session import opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.cli.values import TIME_HELP, TypedTime, moment
from ext4kit.cli.zones import zone_of_lines
from ext4kit.logs import FAMILIES, LogFilter, LogKind, find_log_lines
from ext4kit.report.logs import log_lines, log_records

_EXAMPLE = """\b
Examples:
  ext4kit logs disk.img
  ext4kit logs disk.img /var/log/auth.log --removed
  ext4kit logs disk.img --kind sshd --kind logins --since yesterday
  ext4kit logs disk.img --grep 'Accepted .* for root' --json
"""
_CHOICES = list(dict.fromkeys((*FAMILIES, *map(str, LogKind))))


def _pattern(
    context: click.Context, option: click.Parameter, value: str | None
) -> re.Pattern[bytes] | None:
    try:
        return None if value is None else re.compile(os.fsencode(value))
    except re.error as error:
        text = f"{value!r} is not a valid regular expression: {error}"
        raise click.BadParameter(text, context, option) from error


@click.command("logs", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(times=True)
@log_selection
@click.option("--kind", "log_kinds", type=click.Choice(_CHOICES), multiple=True, metavar="KIND",
              help="Select a family or a kind of logs; may be given several times. One of: "
              + ", ".join(_CHOICES) + ".")  # fmt: skip
@click.option("--since", callback=moment, metavar="TIME",
              help=f"Select lines of this time or later: {TIME_HELP}.")  # fmt: skip
@click.option("--until", callback=moment, metavar="TIME",
              help="Select lines of this time or earlier.")  # fmt: skip
@click.option("--all", "with_live", is_flag=True, help="Include the lines of live logs.")
@click.option("--removed", is_flag=True, help="Select only lines whose removal is proven.")
@click.option("--grep", "pattern", callback=_pattern, metavar="REGEX",
              help="Select lines in which this regular expression is found.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Show at most N lines.")
def command(
    options: CommonOptions,
    chosen: SelectionOptions,
    log_kinds: tuple[str, ...],
    since: TypedTime | None,
    until: TypedTime | None,
    with_live: bool,
    removed: bool,
    pattern: re.Pattern[bytes] | None,
    limit: int | None,
) -> None:
    """List the log lines of IMAGE that are no longer in its logs, by time.

    They come from deleted logs, earlier versions of logs, slack, journal copies and unallocated
    blocks. Lines of text logs, records of logins (wtmp, btmp, utmp, lastlog) and entries of the
    journal of systemd are read; rotated and compressed live logs count as logs. With PATHs or
    --artifact, only lines of these files, whatever their names.

    A line is marked removed where the state of a log has it, the next state does not, and no
    rotation explains that; the transactions between which that happened are at the end.
    """
    with opened(options) as session:
        zone = zone_of_lines(session.fs)
        selection = chosen.selection(session)
        files = selection if selection.by_path else None
        found = find_log_lines(session.workspace, zone, files, with_live, session.step)
        wanted = LogFilter(
            selection, _kinds(log_kinds), session.time_of(since),
            session.time_of(until), removed, pattern, limit,
        )  # fmt: skip
        records, lines = log_records(found, wanted), log_lines(found, wanted, str(zone))
        if show(options, records, lines) == 1:  # the totals alone
            session.answers.tell_no_lines(wanted, found)


def _kinds(given: tuple[str, ...]) -> frozenset[LogKind]:
    return frozenset(kind for name in given for kind in FAMILIES.get(name) or (LogKind(name),))
