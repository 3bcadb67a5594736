"""`ext4kit timeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.progress import progress
from ext4kit.cli.selecting import SelectionOptions, event_selection
from ext4kit.cli.session import Session, opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.cli.telling import tell_line
from ext4kit.cli.values import TIME_HELP, TypedTime, moment
from ext4kit.cli.zones import zone_of_lines
from ext4kit.errors import RequestError
from ext4kit.report.event_bursts import burst_lines, burst_record
from ext4kit.report.timeline import timeline_lines, timeline_records
from ext4kit.timeline import EventFilter, EventKind
from ext4kit.timeline.event_bursts import event_bursts

if TYPE_CHECKING:
    from ext4kit.report.timeline_logs import LinesAmongEvents

_EXAMPLE = """\b
Examples:
  ext4kit timeline disk.img
  ext4kit timeline disk.img /home --kind deleted --kind moved
  ext4kit timeline disk.img '*.odt' --since yesterday
  ext4kit timeline disk.img --since 2026-03-01T18:00 --until 2026-03-02 --json
  ext4kit timeline disk.img --inode 4711
  ext4kit timeline server.img --root web --since yesterday
"""


@click.command("timeline", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(times=True, root=True)
@event_selection
@click.option("--path", metavar="GLOB", help="Select events by old or new path; * also matches /.")
@click.option(
    "--since",
    callback=moment,
    metavar="TIME",
    help=f"Select events committed at this time or later: {TIME_HELP}.",
)
@click.option(
    "--until",
    callback=moment,
    metavar="TIME",
    help="Select events committed at this time or earlier.",
)
@click.option(
    "--kind",
    "event_kinds",
    type=click.Choice([str(kind) for kind in EventKind]),
    multiple=True,
    metavar="KIND",
    help="Select a kind of event; may be given several times. One of: "
    + ", ".join(EventKind)
    + ".",
)
@click.option("--no-hints", is_flag=True, help="Omit hints.")
@click.option("--bursts", is_flag=True, help="Group the events of many files by folder and time.")
@click.option("--all-hints", is_flag=True, help="List each hint on a separate line.")
@click.option(
    "--logs",
    "with_logs",
    is_flag=True,
    help="Show log lines that are no longer in the logs among the events.",
)
@click.option("--all-logs", is_flag=True, help="Show the lines of live logs too.")
def command(
    options: CommonOptions,
    chosen: SelectionOptions,
    path: str | None,
    since: TypedTime | None,
    until: TypedTime | None,
    event_kinds: tuple[str, ...],
    no_hints: bool,
    bursts: bool,
    all_hints: bool,
    with_logs: bool,
    all_logs: bool,
) -> None:
    """List events in IMAGE, from successive states of inodes and directories in the journal.

    PATHs select the events of files and of all files below them, by old or new path. In a PATH, *
    and ? match within a name and ** matches directories; a PATH without a slash is a name in any
    directory.

    With --root, list only events at paths in this Linux root: in one of its layers or its
    directory, or, for the system of IMAGE itself, in no other root. PATHs are paths in the root;
    --path and the events have paths in IMAGE. Events without a known path are left out, and a note
    counts them.

    Each event has the commit time of its transaction, the transaction, the inode, its owner after
    the event and the path at that time. Times are in UTC without --tz. `<=` before a transaction
    means that the event was in this transaction or in an earlier one that is no longer in the
    journal. Several changes of one inode within a transaction appear as one change, their result.

    With --bursts, the events of many files in one folder are one line: how many files were created,
    changed or deleted, when, who owns them, and the usual cause of such a burst (the removal of a
    whole folder, package management, log rotation, caches, an editor), judged by names alone.

    Hints follow at the end: they name contradictions and are not a verdict. The hints of one inode
    are on one line. Copying and unpacking tools leave times that are older than the creation of the
    inode, or in whole seconds; files with only such hints are counted by directory. --all-hints and
    --json list each hint.

    With --logs, the lines that `logs` finds are shown at their own times; with --all-logs, those of
    live logs too. --since, --until, PATHs, --path, --name, --inode, --type and --owner select them
    by their time and their log; --kind selects events alone. Lines without a time are counted.
    """
    wanted_kinds = _kinds(event_kinds, no_hints, all_hints)
    if bursts and (with_logs or all_logs):
        raise RequestError("--bursts groups events; it cannot be combined with log lines")
    with opened(options) as session:
        period = session.time_of(since), session.time_of(until)
        selection = session.in_root(chosen.selection(session))
        wanted = EventFilter(selection, path, *period, wanted_kinds)
        with progress(options.quiet, "reading the journal") as tell:
            timeline = session.workspace.timeline(tell)
        if bursts:
            found = event_bursts(timeline, wanted)
            show(options, map(burst_record, found), burst_lines(found))
            is_empty = not found
        else:
            logs = _lines(session, wanted, all_logs) if with_logs or all_logs else None
            records = timeline_records(timeline, wanted, logs)
            lines = timeline_lines(timeline, wanted, all_hints, logs)
            is_empty = show(options, records, lines) == 1  # only the summary
        if options.root is not None and not options.quiet and (count := timeline.pathless(wanted)):
            tell_line(f"note: {count:,} further events have no known path and may be of any root")
        if is_empty:
            session.answers.tell_no_events(wanted, timeline)
            session.is_incomplete |= any(map(session.inode_text, chosen.numbers)) or any(
                not session.has_path(path) for path in chosen.paths
            )
            for text in filter(None, map(session.inode_text, chosen.numbers)):
                tell_line(f"ext4kit: {text}")


def _lines(session: Session, wanted: EventFilter, with_live: bool) -> LinesAmongEvents:
    """The log lines to show among the events."""
    from ext4kit.logs import find_log_lines
    from ext4kit.report.timeline_logs import LinesAmongEvents

    zone = zone_of_lines(session.fs)
    found = find_log_lines(session.workspace, zone, None, with_live, session.step)
    return LinesAmongEvents(found, wanted, str(zone))


def _kinds(kinds: tuple[str, ...], no_hints: bool, all_hints: bool) -> tuple[EventKind, ...]:
    """The requested kinds, all if none are given.

    Raises:
        RequestError: hints are both omitted and requested.
    """
    if no_hints and (all_hints or EventKind.HINT in kinds):
        other = "--all-hints" if all_hints else "--kind hint"
        raise RequestError(f"--no-hints cannot be combined with {other}")
    wanted = tuple(map(EventKind, kinds)) or tuple(EventKind)
    return tuple(kind for kind in wanted if not (no_hints and kind is EventKind.HINT))
