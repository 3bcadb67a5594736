"""Log lines among the events of a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ext4kit.logs import LogFilter, LogFindings, LogLine
from ext4kit.logs.sources import LogSource
from ext4kit.report.logs import LineCounts, LogLineRecord, inferred, line_text, log_record
from ext4kit.report.phrases import count_text
from ext4kit.timeline import Event, EventFilter


@dataclass(frozen=True)
class LinesAmongEvents:
    """The log lines that a timeline shows.

    Attributes:
        findings: all lines that were found.
        wanted: conditions of the timeline; those on events alone select no lines.
        zone: of times in lines without one, for people.
        counts: of the lines that were shown.
    """

    findings: LogFindings
    wanted: EventFilter
    zone: str
    counts: LineCounts = field(default_factory=LineCounts)

    def merge(self, events: Iterable[Event]) -> Iterator[Event | LogLine]:
        """Events in their order, each after the lines up to its commit time."""
        lines = map(self._counted, self.findings.select(self._filter))
        line = next(lines, None)
        for event in events:
            while line is not None and _is_before(line, event):
                yield line
                line = next(lines, None)
            yield event
        yield from () if line is None else (line,)
        yield from lines

    def _counted(self, line: LogLine) -> LogLine:
        self.counts.add(line)
        return line

    def text(self, line: LogLine) -> str:
        """A line as the timeline shows it."""
        return line_text(line, with_kind=True)

    def record(self, line: LogLine) -> LogLineRecord:
        """A line as a record."""
        return log_record(line)

    @property
    def _filter(self) -> LogFilter:
        wanted = self.wanted
        return LogFilter(since=wanted.since, until=wanted.until, takes=self._takes, is_timed=True)

    def _takes(self, source: LogSource) -> bool:
        """Whether a log meets the conditions on files."""
        wanted, chosen = self.wanted, self.wanted.selection
        return (
            (not chosen.numbers or source.inode in chosen.numbers)
            and (not chosen.types or "file" in chosen.types)
            and (not chosen.owners or source.uid in chosen.owners)
            and wanted.matches_paths(source.path)
        )

    @property
    def untimed(self) -> int:
        """Number of the lines without a time, which are in no place of a timeline."""
        if self.wanted.since is not None or self.wanted.until is not None:
            return 0
        every = replace(self._filter, is_timed=False)
        return self.findings.count(every) - self.findings.count(self._filter)

    def notes(self) -> Iterator[str]:
        """What the times of the lines rest on, and how many have none."""
        yield from inferred(self.counts, self.zone)
        if untimed := self.untimed:
            yield f"{count_text(untimed, 'log line')} without a time: `logs` lists them"


def _is_before(line: LogLine, event: Event) -> bool:
    return event.time is None or (line.time is not None and line.time <= event.time)
