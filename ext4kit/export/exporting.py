"""One pass over a file system that feeds all requested formats."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ext4kit.export.bodyfile import Bodyfile
from ext4kit.export.case_uco import CaseUco
from ext4kit.export.database import Database
from ext4kit.export.dfxml import Dfxml
from ext4kit.export.format import Format, Subject, TextFormat
from ext4kit.export.rows import Batch, RowState, gone_batches, live_batches
from ext4kit.export.tabular import CsvTable, JsonLines
from ext4kit.export.timesketch import TimesketchCsv, TimesketchJsonl
from ext4kit.known.digests import Digester
from ext4kit.output.new_file import new_text, unfinished_file
from ext4kit.problems import Problem
from ext4kit.recovery import DeletedFile, DeletedFiles, Grade
from ext4kit.selection import Selection
from ext4kit.timeline import EventKind, Timeline
from ext4kit.triage import Indicator
from ext4kit.triage.rules.reading import own_rules
from ext4kit.triage.suspicions import SignOptions, find_signs
from ext4kit.units import Progress, ProgressStep
from ext4kit.verify import Verification
from ext4kit.workspace import Workspace

TEXT_FORMATS: dict[str, type[TextFormat]] = {
    "bodyfile": Bodyfile,
    "timesketch-csv": TimesketchCsv,
    "timesketch-jsonl": TimesketchJsonl,
    "dfxml": Dfxml,
    "case-uco": CaseUco,
    "csv": CsvTable,
    "jsonl": JsonLines,
}
DATABASE = "db"
PARTS = ("live", "deleted", "events", "findings", "signs")
_EVENTS_AT_ONCE = 4096
_MOST_SIGHTINGS = 1_000_000  # most sightings per rule


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of a format.

    Attributes:
        format: a name in `TEXT_FORMATS`, or `DATABASE`.
        path: a new file; None for standard output.
    """

    format: str
    path: Path | None


class Export:
    """Open formats, and the numbers of records written to them.

    Attributes:
        counts: number of files by state, of events, hints, findings and signs.
        grades: number of deleted files by grade, without earlier versions.
        contents: number of contents without an inode, which `grades` counts too.
    """

    def __init__(self, subject: Subject, formats: dict[str, Format]) -> None:
        self.fs, self.image, self._rules = subject.fs, subject.image, subject.rules or own_rules()
        self.formats = formats
        self.counts: Counter[str] = Counter()
        self.grades: Counter[Grade] = Counter()
        self.contents = 0
        self._digester = Digester(subject.hashes, self.fs.blocks) if subject.hashes else None
        self._ranges = self._any(lambda each: each.takes_ranges)

    def _any(self, wants: Callable[[Format], bool]) -> bool:
        return any(map(wants, self.formats.values()))

    @property
    def wants_events(self) -> bool:
        """Whether a format takes the timeline."""
        return self._any(lambda each: each.takes_events)

    @property
    def wants_findings(self) -> bool:
        """Whether a format takes the findings of verify."""
        return self._any(lambda each: each.takes_findings)

    @property
    def wants_signs(self) -> bool:
        """Whether a format takes the signs of tampering and intrusion."""
        return self._any(lambda each: each.takes_signs)

    def live(self, progress: Progress | None = None, selection: Selection | None = None) -> None:
        """Write the selected names below the root."""
        for batch in live_batches(self.fs, self._ranges, self._digester, progress, selection):
            self._give(batch)

    def gone(self, files: Sequence[DeletedFile], progress: Progress | None = None) -> None:
        """Write the deleted files, including earlier versions."""
        types = self._any(lambda each: each.takes_types)
        for batch in gone_batches(files, self._ranges, self._digester, progress, types):
            self._give(batch)
            self.contents += sum(bool(row.gone and row.gone.inode is None) for row in batch.rows)
            self.grades.update(
                row.gone.grade for row in batch.rows if row.gone and row.state is RowState.DELETED
            )

    def _give(self, batch: Batch) -> None:
        self.counts.update(row.state.value for row in batch.rows)
        for each in self.formats.values():
            each.files(batch)

    def events(self, timeline: Timeline) -> None:
        """Write the timeline."""
        takers = [each for each in self.formats.values() if each.takes_events]
        events = iter(timeline)
        while some := list(islice(events, _EVENTS_AT_ONCE)):
            for each in takers:
                each.events(some)
            for event in some:
                self.counts["hints" if event.kind is EventKind.HINT else "events"] += 1
                self.counts["undated"] += event.time is None

    def findings(self, result: Verification | None, problems: Sequence[Problem]) -> None:
        """Write findings and problems."""
        for each in self.formats.values():
            each.findings(result, problems)
        found = result.findings.kept if result else ()
        self.counts["findings"] += len(found) + len(problems)

    def everything(
        self,
        workspace: Workspace,
        parts: Collection[str],
        deleted: Callable[[], DeletedFiles],
        selection: Selection,
        step: ProgressStep,
        is_whole: bool,
    ) -> None:
        """Write all parts one after the other, keeping only the data for the signs in memory.

        Args:
            workspace: workspace of the file system.
            parts: names of parts in `PARTS`.
            deleted: function that finds the deleted files.
            selection: conditions of the live files.
            step: called with a title before each long step; returns the progress callback for it.
            is_whole: whether all files of each part are written; if not, signs are not searched.
        """
        with_signs = is_whole and self.wants_signs and {*PARTS} <= {*parts, "findings"}
        if "live" in parts:
            with step("exporting files") as show:
                self.live(show, selection)
        if "deleted" in parts:
            found = deleted()
            with step("exporting deleted files") as show:
                self.gone(found.files, show)
            if not with_signs:
                del found
        if "events" in parts and self.wants_events:
            with step("reading the journal") as show:
                timeline = workspace.timeline(show)
            self.events(timeline)
        if self.wants_signs:
            signs = None
            if with_signs:
                options = SignOptions(self._rules, _MOST_SIGHTINGS, self.image.evidence.disguises)
                signs = find_signs(workspace, found, timeline, options, step)
                del found, timeline
            self.signs(signs)
        if self.wants_findings:
            with step("checking"):
                result = workspace.verification() if "findings" in parts else None
            self.findings(result, [*self.image.problems, *self.fs.problems])

    def signs(self, found: Sequence[Indicator] | None) -> None:
        """Write the signs of tampering and intrusion; None if they were not searched."""
        for each in self.formats.values():
            each.signs(found)
        self.counts["signs"] += sum(len(one.sightings) for one in found or ())


@contextmanager
def exporting(
    subject: Subject, targets: Sequence[Target], evidence: tuple[Path, ...]
) -> Iterator[Export]:
    """Open all formats; each is finished at the end, or marked incomplete after an error.

    Args:
        subject: the export.
        targets: one or more, each format once.
        evidence: files that must not be outputs.

    Raises:
        RequestError: a file exists already.
        OutputError: a file could not be written; it is still named `*.incomplete`.
    """
    with ExitStack() as stack:
        formats = {each.format: _opened(each, subject, evidence, stack) for each in targets}
        for each in formats.values():
            each.begin()
        yield Export(subject, formats)
        for each in formats.values():
            each.end()


def _opened(
    target: Target, subject: Subject, evidence: tuple[Path, ...], stack: ExitStack
) -> Format:
    if target.format == DATABASE:
        assert target.path is not None
        os.environ.setdefault("SQLITE_TMPDIR", str(target.path.absolute().parent))
        made = stack.enter_context(unfinished_file(target.path, evidence))
        return stack.enter_context(closing(Database(subject, made.path)))
    if target.path is None:
        return TEXT_FORMATS[target.format](subject, sys.stdout)
    stream = stack.enter_context(new_text(target.path, evidence))
    return TEXT_FORMATS[target.format](subject, stream)
