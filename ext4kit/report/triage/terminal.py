"""The report as a terminal page."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule as Line
from rich.table import Table
from rich.text import Text

from ext4kit.problems import Severity
from ext4kit.recovery import DeletedFile, Grade
from ext4kit.report.answers import contents_text, folder_line
from ext4kit.report.deleted import GRADE_MEANINGS, deletion_text, display_path
from ext4kit.report.phrases import count_text, duration_text
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import human_size
from ext4kit.report.times import time_text
from ext4kit.report.triage import case as words
from ext4kit.report.triage.case import TriageReport
from ext4kit.report.volumes import description_text, has_offset
from ext4kit.triage import Bins, Indicator, MapCategory, Weight
from ext4kit.triage.facts import DeletionStats
from ext4kit.zones import current_zone

NARROWEST, WIDEST = 20, 132
_NARROW = 64  # in a narrower terminal, a path is on its own line
_NAMES = 26  # largest width of the names of facts
SESSIONS, DEEDS = 5, 15  # the newest sessions; changes of each
SHOWN = 5  # number shown of sightings per rule, of findings, and of problems
GRADE_COLOURS = {
    "intact": "green", "consistent": "blue", "partial": "yellow", "overwritten": "red",
    "carved": "cyan",
}  # fmt: skip
SORT_COLOURS = {
    "made": "green", "written": "blue", "moved": "cyan", "changed": "yellow", "deleted": "red",
}  # fmt: skip
USE_COLOURS = {
    MapCategory.METADATA: "bright_black", MapCategory.FILES: "blue", MapCategory.INTACT: "green",
    MapCategory.CONSISTENT: "bright_green", MapCategory.PARTIAL: "yellow",
    MapCategory.CARVED: "cyan", MapCategory.FREE: "grey30",
}  # fmt: skip
_FILLS = "█▓▒░▚"  # one per series of a chart without colours
_USE_FILLS = "▚▒█▓╱░·"
_SEVERITY = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "bright_black"}
FOLDERS = 5  # number of bursts of deletions that are shown


class Ink:
    """Distinguishes the parts of a chart by colour, or by their fill character without colours."""

    def __init__(
        self, colours: Mapping[Any, str], has_colours: bool = True, fills: str = _FILLS
    ) -> None:
        self.colours, self.has_colours = colours, has_colours
        self._fills = dict(zip(colours, fills, strict=True))

    def fill(self, name: str) -> str:
        """The character that fills a part of a chart."""
        return "█" if self.has_colours else self._fills[name]

    def key(self, name: str) -> str:
        """The character before the name of a part in the legend."""
        return "■" if self.has_colours else self._fills[name]


def print_report(case: TriageReport) -> None:
    """Print the complete report."""
    console = make_console()
    has_colours = console.color_system is not None and not console.no_color
    for part in parts(case, console.width, has_colours):
        console.print(part)


def make_console(**settings: Any) -> Console:
    """A console on stdout with a bounded width and without markup in texts."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, **settings)
    console.width = min(max(console.width, NARROWEST), WIDEST)
    return console


def parts(case: TriageReport, width: int, has_colours: bool = True) -> Iterable[RenderableType]:
    """The parts of the report, from top to bottom."""
    yield Line(Text(f" {case.title} ", "bold"), characters="━", style="blue")
    about = f"{case.about}  ·  volume {case.volume.index}  ·  times in {current_zone()}"
    yield Padding(Text(about, "dim"), (0, 0, 0, 0), expand=True)
    if case.handling:
        yield Text(case.handling, "dim")
    yield Text()
    yield Columns(_tiles(case, width), expand=True, equal=True, padding=(0, 1))
    if case.left_out:
        yield Text()
        yield Text("Left out: " + "; ".join(case.left_out), "yellow")
    yield from _section("Signs", _signs(case, width))
    yield from _section("Signs in the order of time", _sessions(case, width))
    grades, sorts = Ink(GRADE_COLOURS, has_colours), Ink(SORT_COLOURS, has_colours)
    yield from _section("Deleted", _deletions(case, width, grades))
    yield from _section("What happened", _activity(case, width, sorts))
    yield from _section("Lost in the crash", _victims(case, width))
    yield from _section("The disk", _disk(case, width, Ink(USE_COLOURS, has_colours, _USE_FILLS)))
    yield from _section("Journal", [_facts(words.journal_rows(case.summary.log))])
    yield from _section("File system", [_facts(words.identity_rows(case))])
    yield from _section("Health", _check(case, width))
    yield from _section("Evidence", [_facts(words.evidence_rows(case)), _volumes(case, width)])
    yield from _section("Not read", _problems(case))
    yield Line(characters="━", style="blue")
    yield Text(f"ext4kit {case.version}, {time_text(case.made)}", "dim", justify="right")


def _section(title: str, parts: Iterable[RenderableType]) -> Iterable[RenderableType]:
    """A heading and its content; nothing if the content is empty."""
    held = list(parts)
    if not held:
        return
    yield Text()
    yield Line(Text(f"{title} ", "bold blue"), align="left", style="blue dim")
    for part in held:
        yield Padding(part, (0, 0, 0, 2))


def _tiles(case: TriageReport, width: int) -> list[RenderableType]:
    summary, log = case.summary, case.summary.log
    strong = sum(one.rule.weight is Weight.STRONG for one in summary.suspicions)
    grades = summary.deletions.grades
    whole = grades[Grade.INTACT] + grades[Grade.CONSISTENT]
    verdict, good = words.check_text(case)
    reach = duration_text(log.until_ns - log.since_ns) if log.until_ns and log.since_ns else "none"
    tiles = [
        (str(count := len(summary.suspicions)),
         f"sign{'s' * (count != 1)}, {strong}\N{NO-BREAK SPACE}strong",
         "red" if strong else "green"),
        (f"{words.files_deleted(summary.deletions):,}", "deleted files", "default"),
        (f"{grades[Grade.INTACT]:,} + {grades[Grade.CONSISTENT]:,}", "intact + consistent",
         "green" if whole else "default"),
        (reach, "in the journal", "default"),
        (("sound" if good else verdict) if good is not None else "-", "metadata",
         {True: "green", False: "yellow", None: "default"}[good]),
    ]  # fmt: skip
    widest = max(len(part) for value, label, _ in tiles for part in (value, *label.split(" ")))
    room = min(max((width - 2 * len(tiles)) // len(tiles), 11, widest + 2), width)
    held = [(_wrapped(value, room - 2), _wrapped(label, room - 2), colour)
            for value, label, colour in tiles]  # fmt: skip
    height = max(len(value) + len(label) for value, label, _ in held)
    return [
        Panel(
            Group(*(Text(line, f"bold {colour}", justify="center") for line in value),
                  *(Text(line, "dim", justify="center") for line in label)),
            box=box.ROUNDED, border_style="blue dim", width=room, height=height + 2,
            padding=(0, 0),
        )
        for value, label, colour in held
    ]  # fmt: skip


def _wrapped(text: str, width: int) -> list[str]:
    """A text wrapped to lines; words joined by a no-break space stay on one line."""
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in textwrap.wrap(text, width)]


def _facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", max_width=_NAMES, overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


def _table(headings: Sequence[str], right: Sequence[int] = (), is_narrow: bool = False) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for place, heading in enumerate(headings):
        is_last = place == len(headings) - 1
        table.add_column(
            heading, justify="right" if place in right else "left",
            no_wrap=not (is_last or is_narrow), overflow="fold",
        )  # fmt: skip
    return table


def _signs(case: TriageReport, width: int) -> Iterable[RenderableType]:
    found = case.summary.suspicions
    if not found:
        yield Text("no rule matched", "green")
    for number, one in enumerate(found):
        yield from [Text()] * (number > 0)
        yield from _sign(one, width)


def _sign(one: Indicator, width: int) -> Iterable[RenderableType]:
    strong = one.rule.weight is Weight.STRONG
    title = Text().append("● " if strong else "○ ", "bold red" if strong else "yellow")
    title.append(one.rule.title, "bold").append(f"  {one.count:,}", "dim")
    title.append("".join(f"  {technique}" for technique in one.rule.attack), "dim")
    yield title
    yield Padding(Text(one.rule.reason, "dim"), (0, 0, 0, 2))
    rows = []
    for seen in one.sightings[:SHOWN]:
        line = Text(words.sighting_path(seen)).append(f"  {words.sighting_text(seen)}", "dim")
        for text in words.line_texts(seen):
            line.append(f"\n{text}")
        if seen.story:
            line.append(f"\n{words.story_text(seen.story)}", "dim italic")
        rows.append((Text(time_text(seen.when), "dim"), line))
    yield Padding(_pairs(rows, width), (0, 0, 0, 2))
    if one.count > SHOWN:
        note = words.truncation_note(one.count, SHOWN, "report IMAGE --json")
        yield Padding(Text(note, "dim"), (0, 0, 0, 2))


def _sessions(case: TriageReport, width: int) -> Iterable[RenderableType]:
    sessions = case.summary.sessions
    for number, one in enumerate(sessions[-SESSIONS:]):
        yield from [Text()] * (number > 0)
        yield Text(words.session_text(one), "bold")
        rows = [
            (Text(time_text(deed.time), "dim"), Text(words.deed_text(deed)))
            for deed in one.deeds[:DEEDS]
        ]
        yield Padding(_pairs(rows, width), (0, 0, 0, 2))
        if len(one.deeds) > DEEDS:
            note = words.truncation_note(len(one.deeds), DEEDS, "report IMAGE --json")
            yield Padding(Text(note, "dim"), (0, 0, 0, 2))
    if len(sessions) > SESSIONS:
        before = count_text(len(sessions) - SESSIONS, "earlier group")
        yield Text(f"{before}: `ext4kit report IMAGE --json`", "dim")


def _pairs(rows: Iterable[tuple[Text, Text]], width: int) -> RenderableType:
    """Rows in two columns; in a narrow terminal, the second cell is below the first."""
    if width < _NARROW:
        return Group(*(Group(first, Padding(second, (0, 0, 0, 2))) for first, second in rows))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for first, second in rows:
        table.add_row(first, second)
    return table


def _deletions(case: TriageReport, width: int, ink: Ink) -> Iterable[RenderableType]:
    found = case.summary.deletions
    if not found.total:
        yield Text("no known deleted files")
    if names := words.removed_names(found):
        yield Text(names)
    if not found.total:
        return
    yield _grades(case, width, ink)
    yield Text(words.path_grounds(found), "dim")
    if found.when is not None:
        undated = f"; {found.undated:,} without a time" if found.undated else ""
        yield from _histogram(found.when, ink, width, f"deletions{undated}", None)
    yield from _together(found)
    for title, files in (("Latest", found.latest), ("Largest", found.largest)):
        if not files:
            continue
        yield Text(f"\n{title}", "bold")
        yield _files(files, width)
    if note := words.truncation_note(found.total, len(found.latest), "deleted IMAGE --sources all"):
        yield Text(note, "dim")


def _together(found: DeletionStats) -> Iterable[Text]:
    """Files that were deleted together, and counts of the content found without a name."""
    if found.folders:
        yield Text("\nDeleted together", "bold")
        yield from (Text(folder_line(each)) for each in found.folders[:FOLDERS])
    if contents := contents_text(found):
        yield Text(f"{contents}; `ext4kit recover IMAGE -o OUT` recovers them")


def _grades(case: TriageReport, width: int, ink: Ink) -> RenderableType:
    found = case.summary.deletions
    counts = [(str(grade), count) for grade, count in found.grades.items()]
    table = Table.grid(padding=(0, 2))
    for grade, count in found.grades.items():
        if count:
            numbers = (f"{count:,}", human_size(found.sizes[grade]))
            table.add_row(
                Text(f"{ink.key(str(grade))} {grade}", ink.colours[str(grade)]),
                *(Text(number, justify="right") for number in numbers),
                Text(GRADE_MEANINGS[grade], "dim"),
            )
    return Group(map_strip(counts, width - 2, ink), table)


def _files(files: Sequence[DeletedFile], width: int) -> RenderableType:
    if width < _NARROW:
        return Group(*map(_file_on_lines, files))
    table = _table(("deleted", "grade", "size", "path"), right=(2,))
    for file in files:
        colour = GRADE_COLOURS[str(file.grade)]
        kind = "" if file.kind == "file" else f"  {file.kind}"
        size = "?" if file.size is None else human_size(file.size)
        table.add_row(
            Text(deletion_text(file)), Text(str(file.grade), colour), Text(size),
            Text(display_path(file)).append(kind, "dim"),
        )  # fmt: skip
    return table


def _file_on_lines(file: DeletedFile) -> RenderableType:
    """A file in a narrow terminal, with its path on a second line."""
    head = Text(str(file.grade), GRADE_COLOURS[str(file.grade)])
    head.append(f"  {'?' if file.size is None else human_size(file.size)}", "default")
    head.append(f"  {deletion_text(file)}", "dim")
    path = Text(display_path(file), overflow="fold")
    path.append("" if file.kind == "file" else f"  {file.kind}", "dim")
    return Group(head, Padding(path, (0, 0, 0, 2)))


def _histogram(
    bins: Bins, ink: Ink, width: int, what: str, marked: TriageReport | None
) -> Iterable[RenderableType]:
    """A chart and its legend; if a report is given, its signs are marked."""
    bins = bins.merged(width - 2 - _LABEL)
    signs = () if marked is None else words.sightings_per_bin(marked, bins)
    yield Text()
    yield column_chart(bins, ink, width - 2, signs)
    legend = Text()
    for name, counts in bins.series.items():
        if any(counts):
            legend.append(f"{ink.key(name)} ", ink.colours[name]).append(
                f"{name} {sum(counts):,}   ", "dim"
            )
    if any(signs):
        legend.append("▾ ", "bold red").append(f"signs {sum(signs):,}   ", "dim")
    legend.append(f"{what}{words.elsewhere(bins)}, a column is {words.bin_width(bins)}", "dim")
    yield legend


def _activity(case: TriageReport, width: int, ink: Ink) -> Iterable[RenderableType]:
    found = case.summary.activity
    if found.span is None:
        yield Text("the journal shows no change")
        return
    events, hints = (found.events, "event"), (found.hints, "hint")
    yield Text(f"{count_text(*events)} and {count_text(*hints)} in the journal")
    yield from _histogram(found.span, ink, width, "all events", case)
    if found.hours is not None and words.has_hours(case):
        what = f"the last {count_text(len(found.hours), 'hour')}"
        yield from _histogram(found.hours, ink, width, what, case)


def _victims(case: TriageReport, width: int) -> Iterable[RenderableType]:
    count, victims = case.summary.victims
    if not count:
        return
    yield Text(
        f"{count_text(count, 'file')} of size 0, written shortly before the shutdown: with "
        "delayed allocation the content had no blocks yet. Earlier states may be in the "
        "journal.", "dim",
    )  # fmt: skip
    rows = []
    for one in victims[: 2 * SHOWN]:
        path = Text(words.zero_length_path(one)).append(f"  {words.zero_length_text(one)}", "dim")
        rows.append((Text(time_text(one.written)), Text(str(one.inode)), path))
    if width < _NARROW:
        for when, number, path in rows:
            yield Group(when.append(f"  inode {number}"), Padding(path, (0, 0, 0, 2)))
        return
    table = _table(("written", "inode", "path"), right=(1,))
    for row in rows:
        table.add_row(*row)
    yield table
    if note := words.truncation_note(count, 2 * SHOWN, "report IMAGE --json"):
        yield Text(note, "dim")


def _disk(case: TriageReport, width: int, ink: Ink) -> Iterable[RenderableType]:
    disk, size = case.summary.disk, case.summary.superblock.block_size
    rows, per_row, uses = 4, width - 2, tuple(disk.counts)
    cells = len(disk.counts[uses[0]])
    edges = [cells * place // (rows * per_row) for place in range(rows * per_row + 1)]
    text = Text(no_wrap=True)
    for place, (first, last) in enumerate(pairwise(edges)):
        last = max(last, first + 1)
        sums = [int(disk.counts[use][first:last].sum()) for use in uses]
        use = _dominant_use(uses, sums)
        text.append(ink.fill(use), ink.colours[use])
        if place % per_row == per_row - 1 and place + 1 < rows * per_row:
            text.append("\n")
    yield text
    table = Table.grid(padding=(0, 2))
    for use, blocks in disk.totals.items():
        if blocks:
            table.add_row(Text(f"{ink.key(use)} {words.MAP_WORDS[use]}", ink.colours[use]),
                          Text(human_size(blocks * size), justify="right"))  # fmt: skip
    yield table


def _dominant_use(uses: Sequence[MapCategory], sums: Sequence[int]) -> MapCategory:
    """The use that a cell shows: recoverable if it has such blocks, else the most frequent use."""
    counts, total = dict(zip(uses, sums, strict=True)), sum(sums)
    for use in words.RECOVERABLE:
        if counts[use] * 5 >= total > 0:
            return use
    return max(uses, key=counts.__getitem__)


def _check(case: TriageReport, width: int) -> Iterable[RenderableType]:
    verdict, good = words.check_text(case)
    yield Text(verdict, {True: "green", False: "yellow", None: "dim"}[good])
    rows = words.check_rows(case)
    if not rows:
        return
    table = _table(("count", "finding", "what it means"), right=(0,), is_narrow=width < _NARROW)
    for code, severity, count, meaning in rows[: 2 * SHOWN]:
        table.add_row(Text(f"{count:,}"), Text(code, _SEVERITY[severity]), Text(meaning, "dim"))
    yield table
    if len(rows) > 2 * SHOWN:
        yield Text(f"and {len(rows) - 2 * SHOWN:,} more kinds", "dim")
    yield Text("`ext4kit verify IMAGE` gives the locations", "dim")


def _volumes(case: TriageReport, width: int) -> RenderableType:
    rows = []
    for volume in case.evidence.volumes[: 8 * SHOWN]:
        mark = "▸" if volume.index == case.volume.index else ""
        offset = f"{volume.offset:,}" if has_offset(volume) else ""
        values = (
            mark, str(volume.index), human_size(volume.size), offset, volume.format,
            volume.label, f"{volume.scheme} {description_text(volume)}",
        )  # fmt: skip
        rows.append([printable_text(value.strip()) for value in values])
    note = Text(
        words.truncation_note(len(case.evidence.volumes), 8 * SHOWN, "volumes IMAGE"), "dim"
    )
    if width < _NARROW:
        return Group(Text(), *(Text("  ".join(filter(None, row))) for row in rows), note)
    table = _table(("", "volume", "size", "offset", "kind", "label", "what"), right=(1, 2, 3))
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(Text(), table, note)


def _problems(case: TriageReport) -> Iterable[RenderableType]:
    for problem in case.problems[: 2 * SHOWN]:
        word = Text().append(f"{problem.severity}  ", _SEVERITY[problem.severity])
        yield word.append(printable_text(str(problem)))
    if case.problems_total > 2 * SHOWN:
        yield Text(f"and {case.problems_total - 2 * SHOWN:,} more", "dim")


CHART_HEIGHT = 6
WIDEST_COLUMN = 3
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LABEL = 7  # characters of the scale on the left


def map_strip(parts: Sequence[tuple[str, int]], width: int, ink: Ink) -> Text:
    """(name, count) pairs as one line of characters; each count above 0 gets at least one."""
    total = sum(count for _, count in parts)
    text, used, seen = Text(no_wrap=True), 0, 0
    for name, count in parts:
        seen += count
        end = max(width * seen // max(total, 1), used + (count > 0))
        text.append(ink.fill(name) * (min(end, width) - used), ink.colours[name])
        used = max(min(end, width), used)
    return text


def column_chart(bins: Bins, ink: Ink, width: int, signs: Sequence[int] = ()) -> Text:
    """Stacked columns over time, with a scale on the left and the first and last time below.

    `signs`, the number of sightings per bin, are marked above the columns.
    """
    wide = max(min((width - _LABEL) // max(len(bins), 1), WIDEST_COLUMN), 1)
    gap = 1 if wide > 1 else 0
    top = max(bins.totals)
    stacks = list(zip(*bins.series.values(), strict=True))
    text = Text(no_wrap=True)
    if any(signs):
        marks = (("▾" if count else " ") * (wide - gap) + " " * gap for count in signs)
        text.append(" " * _LABEL).append("".join(marks) + "\n", "bold red")
    for row in reversed(range(CHART_HEIGHT)):
        scale = f"{top:,}" if row == CHART_HEIGHT - 1 else "0" if row == 0 else ""
        text.append(f"{scale:>{_LABEL - 1}} ", "dim")
        for stack in stacks:
            character, colour = _cell(stack, ink, top, row)
            text.append(character * (wide - gap) + " " * gap, colour)
        text.append("\n")
    cut = 11 if bins.width % 86_400_000_000_000 == 0 else 16
    times = (bins.start, bins.end)
    first, last = (time_text(time)[:cut].strip() for time in times)
    room = max(len(bins) * wide - len(first) - len(last), 2)
    if _LABEL + len(first) + room + len(last) > width:
        return text.append(f"{' ' * _LABEL}{first}\n{' ' * _LABEL}to {last}", "dim")
    return text.append(" " * _LABEL + first + " " * room + last, "dim")


def _cell(stack: Sequence[int], ink: Ink, top: int, row: int) -> tuple[str, str]:
    """The character of one row of a column, and the colour of the topmost series in it."""
    unit = 8 * CHART_HEIGHT
    total = sum(stack)
    height = -(-total * unit // top) if total else 0
    eighths = min(max(height - 8 * row, 0), 8)
    level, seen, found = min(8 * row + max(eighths // 2, 1), max(height, 1)), 0, ""
    for count, name in zip(stack, ink.colours, strict=True):
        seen += count
        if count and seen * unit >= level * top or (count and seen == total):
            found = name
            break
    if not eighths or not found:
        return " ", "default"
    if ink.has_colours:
        return _EIGHTHS[eighths], ink.colours[found]
    return (ink.fill(found) if eighths >= 4 or not row else " "), "default"
