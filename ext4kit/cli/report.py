"""`ext4kit report`."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ext4kit import __version__
from ext4kit.cli.custody import Custody, custody, keeping
from ext4kit.cli.finding import sources_option
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.rule_files import rules_option
from ext4kit.cli.selecting import KnownOptions, known_bad_option, known_files, known_options
from ext4kit.cli.session import Session, opened
from ext4kit.cli.several import for_each_volume, left_for_end
from ext4kit.cli.telling import tell_line
from ext4kit.cli.zones import zone_of_lines
from ext4kit.errors import RequestError
from ext4kit.memory import look_for_no_cycles, return_large_blocks
from ext4kit.output.case import Case
from ext4kit.problems import Severity, worst_first
from ext4kit.recovery.search_sources import JOURNAL_ONLY, SearchSource
from ext4kit.report.records import write_records
from ext4kit.report.safe import printable_text
from ext4kit.report.triage import TriageReport
from ext4kit.selection import Selection
from ext4kit.triage import Rule, Triage, TriageOptions, triage

if TYPE_CHECKING:
    from ext4kit.known.lists import KnownList
    from ext4kit.report.case_page import VolumeEntry

_EXAMPLE = """\b
Examples:
  ext4kit report disk.img
  ext4kit report disk.img --html report.html
  ext4kit report disk.img --quick
  ext4kit report disk.E01 --html report.html --verify-evidence
  ext4kit report disk.img --json > report.jsonl
  ext4kit report web.img db.E01 mail.qcow2 --all-volumes --html lab.html
"""


def _entry(case: TriageReport, session: Session, html: Path) -> VolumeEntry:
    from ext4kit.report.case_page import entry_of
    from ext4kit.report.triage.records import summary_records
    from ext4kit.roots.host import host_name

    problems = [
        f"{one.where}: {one.what}" for one in case.problems if one.severity == Severity.ERROR
    ]
    return entry_of(summary_records(case), session.options.image.name, case.volume.index,
                    printable_text(host_name(session.fs)), html.name, problems)  # fmt: skip


def _index(values: Mapping[str, object], entries: list[VolumeEntry], failed: list[str]) -> None:
    """Write the page that names all volumes, beside their own pages."""
    path = values["html"]
    if not isinstance(path, Path):
        return
    from ext4kit.output.new_file import new_text
    from ext4kit.report.case_page import VolumeEntry, case_page

    unread = [VolumeEntry(name, problems=("could not be read; stderr has why",)) for name in failed]
    with new_text(path) as stream:
        stream.writelines(case_page(f"{len(entries):,} volumes", [*entries, *unread]))
    tell_line(f"written: {path}")


@click.command("report", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(more=True, scan=True, end=_index)
@click.option(
    "--quick",
    is_flag=True,
    help="Read only the journal and the inode tables, and do not check the structures.",
)
@sources_option
@known_options
@known_bad_option
@rules_option
@click.option("--no-verify", is_flag=True, help="Do not check the structures.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page to one HTML file that needs no network, instead of the terminal.",
)
@click.option(
    "--attack-navigator",
    "navigator",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the techniques of the signs as a layer for the MITRE ATT&CK Navigator.",
)
@click.option(
    "--rows",
    type=click.IntRange(10, 100_000),
    default=1000,
    show_default=True,
    help="Maximum number of rows of each table on the page and in JSON.",
)
@custody
def command(
    options: CommonOptions,
    quick: bool,
    sources: frozenset[SearchSource],
    known: KnownOptions,
    known_bad: tuple[KnownList, ...],
    rules: tuple[Rule, ...],
    no_verify: bool,
    html: Path | None,
    navigator: Path | None,
    rows: int,
    custody: Custody,
) -> None:
    """Summarise IMAGE for triage on one page.

    The page shows signs of tampering and intrusion with their reasons, deletions and how much can
    be recovered, recent activity, the map of the disk, the state of file system and journal, and
    the evidence. Times are in UTC without --tz. A sign is not a verdict; other commands show all
    details.

    With several images or --all-volumes, --html writes a page for each volume, and FILE has a row
    for each with its host, signs, deletions and the span of its journal. `case` does the same for
    many images, and goes on after an interrupt.

    The page lists the parts that were left out. It shows the hashes that the evidence stores and,
    with --verify-evidence, computed hashes.
    """
    extent = _extent(quick, sources, not no_verify, rows)
    look_for_no_cycles()
    return_large_blocks()
    files = [path for path in (html, navigator) if path is not None]
    with opened(options, files=files) as session:
        lists = known.files(session.fs)
        extent = replace(
            extent,
            lists=lists,
            selection=known.restrict(Selection(), lists),
            bad=known_files(known_bad, session.fs),
            rules=rules,
            zone=zone_of_lines(session.fs),
        )
        case = _case(session, extent, custody, known.left_out)
        _show(case, options, html)
        if html is not None:
            from ext4kit.report.triage.page import page_pieces

            _write(page_pieces(case), session, html)
            if (left := left_for_end()) is not None:
                left.append(_entry(case, session, html))
        if navigator is not None:
            from ext4kit.report.triage.navigator import navigator_layer

            name = f"ext4kit: {options.image.name}"
            _write([navigator_layer(case.summary.suspicions, name)], session, navigator)


def _extent(
    quick: bool, sources: frozenset[SearchSource], checks: bool, rows: int
) -> TriageOptions:
    """The extent of the facts to collect.

    Raises:
        RequestError: --quick was combined with sources.
    """
    if not quick:
        return TriageOptions(sources, checks, rows=rows, packages=True)
    origin = click.get_current_context().get_parameter_source("sources")
    if origin is not ParameterSource.DEFAULT:
        raise RequestError("--quick reads the journal alone; give either --quick or --sources")
    return TriageOptions(JOURNAL_ONLY, verify=False, names=False, rows=rows)


def _case(
    session: Session, extent: TriageOptions, given: Custody, left_out: tuple[str, ...]
) -> TriageReport:
    """Collect the facts."""
    with keeping(given, session, None) as kept:
        disguises = session.image.evidence.disguises
        summary = triage(session.workspace, extent, session.step, disguises)
        was_another = session.has_former
    return _report(session, summary, kept, was_another, left_out)


def _report(
    session: Session, summary: Triage, kept: Case, was_another: bool, left_out: tuple[str, ...]
) -> TriageReport:
    problems = [problem for each in session.problems for problem in each]
    return TriageReport(
        evidence=session.image.evidence,
        volume=session.volume.facts,
        summary=summary,
        problems=tuple(worst_first(problems)),
        problems_total=sum(map(len, session.problems)),
        command=shlex.join(["ext4kit", *sys.argv[1:]]),
        made=time.time_ns(),
        version=__version__,
        was_another=was_another,
        operator=kept.operator,
        case_number=kept.case_number,
        check=kept.check,
        not_counted=left_out,
    )


def _show(case: TriageReport, options: CommonOptions, html: Path | None) -> None:
    if options.json:
        from ext4kit.report.triage.records import summary_records

        write_records(summary_records(case))
    elif html is None:
        from ext4kit.report.triage.terminal import print_report

        print_report(case)


def _write(pieces: Iterable[str], session: Session, path: Path) -> None:
    from ext4kit.output.new_file import new_text

    with new_text(path, session.evidence_files) as stream:
        stream.writelines(pieces)
    if not session.options.quiet:
        tell_line(f"written: {path}")
