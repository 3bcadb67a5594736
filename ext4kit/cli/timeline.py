"""`ext4kit timeline`."""

from __future__ import annotations

import click

from ext4kit.cli.progress import progress
from ext4kit.cli.session import CONTEXT, CommonOptions, opened, shared
from ext4kit.cli.values import moment
from ext4kit.report.records import write_lines, write_records
from ext4kit.report.timeline import timeline_lines, timeline_records
from ext4kit.timeline import EventFilter, EventKind, build_timeline

_EXAMPLE = """\b
Examples:
  ext4kit timeline disk.img
  ext4kit timeline disk.img --path '/home/*' --kind deleted --kind moved
  ext4kit timeline disk.img --since 2026-03-01T18:00 --until 2026-03-02 --json
  ext4kit timeline disk.img --inode 4711
"""


@click.command("timeline", context_settings=CONTEXT, epilog=_EXAMPLE)
@shared()
@click.option("--path", metavar="GLOB", help="Select events by old or new path; * also matches /.")
@click.option("--inode", type=click.IntRange(1), metavar="N", help="Select events of this inode.")
@click.option(
    "--since",
    callback=moment,
    metavar="TIME",
    help="Select events committed at this time or later.",
)
@click.option(
    "--until",
    callback=moment,
    metavar="TIME",
    help="Select events committed at this time or earlier.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([str(kind) for kind in EventKind]),
    multiple=True,
    metavar="KIND",
    help="Select a kind of event; may be given several times. One of: "
    + ", ".join(EventKind)
    + ".",
)
def command(
    options: CommonOptions,
    path: str | None,
    inode: int | None,
    since: int | None,
    until: int | None,
    kinds: tuple[str, ...],
) -> None:
    """List events in IMAGE, from successive states of inodes and directories in the journal.

    Each event has the commit time of its transaction, the transaction, the inode and the path at
    that time. Times are in UTC. `<=` before a transaction means: in that one or in an earlier one
    that is no longer in the journal. Several changes of one inode within a transaction appear as
    their result. Hints follow at the end: they name contradictions and are no verdict.
    """
    wanted = EventFilter(path, inode, since, until, tuple(map(EventKind, kinds)))
    with opened(options) as session:
        with progress(options.quiet, "reading the journal") as show:
            timeline = build_timeline(session.fs, show)
        if options.json:
            write_records(timeline_records(timeline, wanted))
        else:
            write_lines(timeline_lines(timeline, wanted))
