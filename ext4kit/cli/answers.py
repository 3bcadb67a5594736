"""Messages for empty answers: what exists, how far the evidence reaches, what to type next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ext4kit.cli.options import CommonOptions
from ext4kit.cli.telling import tell_line
from ext4kit.errors import Ext4kitError
from ext4kit.filetypes.categories import Category, category_of_name
from ext4kit.recovery import DeletedFiles
from ext4kit.recovery.nearest import Near, nearest_paths
from ext4kit.recovery.search_sources import ALL_SOURCES, WITH_INODES
from ext4kit.recovery.summary import DeletedOverview, Unselected
from ext4kit.report.answers import contents_text, reach_text
from ext4kit.report.phrases import command_text, count_text
from ext4kit.report.safe import shown
from ext4kit.report.times import time_text
from ext4kit.selection import Limits, Selection
from ext4kit.timeline import EventFilter, Timeline
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.units import NANOSECONDS, ProgressStep
from ext4kit.workspace import Workspace

if TYPE_CHECKING:
    from ext4kit.logs import LogFilter, LogFindings

_EXISTS, _MOST_NEAR = "exists", 3
_FOR_DELETED = {"deleted", "recover", "explain", "versions"}  # commands, by what they answer
_FOR_LIVE, _FOR_LIVE_FILES = {"ls", "stat", "extract"}, {"cat", "versions"}
_WRITING = {"recover", "extract"}
_MOST_CARVED = 16 << 30  # most bytes of unallocated space searched for a message
_MOST_CARVED_BESIDE = 1 << 30  # the same for a message beside a result
_INODES_AT_ONCE, _MOST_OWNERS = 1 << 14, 8


@dataclass(frozen=True, slots=True)
class Answers:
    """Messages about one file system.

    Attributes:
        workspace: workspace of the file system.
        options: options of the command.
        step: shows the progress of a step.
        has_former: whether the volume held another file system before.
    """

    workspace: Workspace
    options: CommonOptions
    step: ProgressStep
    has_former: Callable[[], bool] = lambda: False

    def tell_empty(self, selection: Selection, every: DeletedFiles) -> None:
        """Print why no deleted file was selected, and what to type next.

        Args:
            selection: the requested conditions.
            every: all deleted files that were found.
        """
        if self.options.quiet:
            return
        for line in self._empty_lines(selection, every):
            tell_line(f"note: {line[0].lower()}{line[1:]}")

    def _empty_lines(self, selection: Selection, every: DeletedFiles) -> Iterator[str]:
        image, overview = self.options.image, DeletedOverview.of(every.files)
        if self.options.lost and not overview.total:
            yield "No earlier file system with files was found under this one"
        if overview.total:
            which = "" if selection.is_everything else ", none of them selected"
            latest = overview.newest
            newest = f"; the latest known deletion is {time_text(latest)}" if latest else ""
            yield f"{count_text(overview.total, 'deleted file')} found{which}{newest}"
        if overview.newest is not None and selection.deleted != Limits():
            since = time_text((overview.newest // NANOSECONDS - 3600) * NANOSECONDS)
            command = command_text("deleted", image, "--deleted-since", since)
            yield f"{command} lists the last hour of them"
        if not self.options.lost:
            yield reach_text(self.workspace)
            yield from self._contents_lines(selection, overview)

    def _contents_lines(self, selection: Selection, overview: DeletedOverview) -> Iterator[str]:
        """Counts of the content without a name, and the command that recovers it."""
        image, found = self.options.image, overview
        if not overview.contents and not overview.fragments and selection.content is None:
            carved = self._carved()
            if carved is None:
                command = command_text("deleted", image, "--sources", "all")
                yield f"{command} counts carved files without a name"
                return
            found = carved
        text = contents_text(found)
        if not text:
            words = ("ls", image, "-r", "--lost") if self.has_former() else ("timeline", image)
            yield f"no content without a name is left; {command_text(*words)} shows what the "
            "image records"
            return
        yield f"{text}; {command_text('recover', image, '-o', 'OUT')} recovers them"
        for kind in _kinds_of(selection):
            command = command_text("recover", image, "--kind", kind, "-o", "OUT")
            yield f"{command} recovers only the {kind}"

    def unreached_text(self, selection: Selection, found: Unselected) -> str:
        """The number of files that no path or name selects, as a sentence; "" for none."""
        if not (selection.by_path or selection.names) or self.options.lost:
            return ""
        contents: int | None = found.contents
        if not contents:
            carved = self._carved(_MOST_CARVED_BESIDE)
            contents = None if carved is None else carved.total
        parts = []
        if found.pathless:
            more = count_text(found.pathless, "more deleted file")
            parts.append(f"{more} {'has' if found.pathless == 1 else 'have'} no known path")
        if contents:
            parts.append(f"{count_text(contents, 'content')} without a name")
        if contents is None:
            parts.append("contents without a name were not counted")
        if not parts:
            return ""
        if contents:
            parts[-1] += f" {'is' if contents == 1 else 'are'} left"
        return f"{' and '.join(parts)}; some may belong here"

    def nothing_text(self, wanted: Selection, out: Path) -> str:
        """That no live file was selected, and which owners there are if one was asked for."""
        text = f"nothing was selected, so nothing was written to {out}"
        if wanted.owners:
            return text + self.owners_text()
        return f"{text}; {command_text('ls', self.options.image, '-r')} lists what exists"

    def owners_text(self) -> str:
        """The owners of live files, as the end of a message."""
        counts: Counter[int] = Counter()
        for tree in self.workspace.fs.tree_pieces():
            for some in tree.batches(_INODES_AT_ONCE):
                counts.update(self.workspace.fs.inode_table(tree.inode[some]).uid.tolist())
        listed = ", ".join(f"{uid} ({count:,})" for uid, count in counts.most_common(_MOST_OWNERS))
        more = f" and {len(counts) - _MOST_OWNERS:,} more" if len(counts) > _MOST_OWNERS else ""
        return f"; owners of the live files: {listed}{more}"

    def _carved(self, most: int = _MOST_CARVED) -> DeletedOverview | None:
        """Counts of the content in unallocated space; None if it is too large to search here."""
        space = UnallocatedSpace(self.workspace.history()).runs_with_data
        size = self.workspace.fs.superblock.block_size
        if int(space.length.sum()) * size > most:
            return None
        with self.step("searching unallocated space") as tell:
            found = self.workspace.deleted(sources=ALL_SOURCES, progress=tell)
        return DeletedOverview.of(file for file in found if file.inode is None)

    def tell_no_events(self, wanted: EventFilter, timeline: Timeline) -> None:
        """Print why no event was selected, and what to type next."""
        if self.options.quiet:
            return
        image, count = self.options.image, len(timeline)
        for path in wanted.selection.paths:
            near = "" if self.options.root is not None else self.nearest_text(path)
            tell_line(f"note: no event of {shown(path)}{near}")
        text = f"the journal shows {count_text(count, 'event')} and hints"
        if count:
            text += f"; {command_text('timeline', image)} lists them"
        else:
            text += f"; {command_text('deleted', image)} lists deleted files, with their times"
        reach = reach_text(self.workspace)
        tell_line(f"note: {text}\nnote: {reach[0].lower()}{reach[1:]}")

    def tell_no_lines(self, wanted: LogFilter, found: LogFindings) -> None:
        """Tell why no log line was selected, and what to type next."""
        if self.options.quiet:
            return
        image = self.options.image
        text = f"{count_text(len(found), 'line')} found that no live log has"
        words: tuple[object, ...] = ("logs", image, "--all")
        what = "lists the lines of live logs"
        if len(found):
            text, words, what = f"{text}, none of them selected", ("logs", image), "lists them"
        elif not found.live_logs:
            text, words = "no log was found, live or deleted", ("deleted", image, "--kind", "logs")
            what = "lists deleted files that look like logs"
        reach = reach_text(self.workspace)
        notes = [f"note: {text}; {command_text(*words)} {what}"]
        notes += [f"note: {reach[0].lower()}{reach[1:]}"]
        for path in wanted.selection.paths:
            if not any(each.path == path for each in found.sources):
                notes.append(f"note: no log {shown(path)}{self.nearest_text(path)}")
        for line in notes:
            tell_line(line)

    def nearest_text(self, wanted: bytes) -> str:
        """The paths nearest to a missing one, as the end of a message; "" if quiet."""
        return self.near_text(self.nearest(wanted))

    def near_text(self, found: Sequence[tuple[bytes, str]]) -> str:
        """The result of `nearest` as the end of a message; "" if quiet."""
        image = self.options.image
        if self.options.quiet:
            return ""
        if not found:
            there, gone = command_text("ls", image, "-r"), command_text("deleted", image)
            return f"; {there} lists existing files, {gone} lists deleted files"
        listed = ", ".join(f"{shown(path)} ({state})" for path, state in found)
        path, state = found[0]
        name = self._command_for(path, state)
        words: tuple[object, ...] = (name, image, path.decode("utf-8", "replace"))
        words += ("-o", "OUT") if name in _WRITING else ()
        return f"; nearest: {listed}: {command_text(*words)}"

    def _command_for(self, path: bytes, state: str) -> str:
        """The command to try with a path: the one that was given, if it has an answer for it."""
        given = click.get_current_context().command.name or ""
        if not state.startswith(_EXISTS):
            return given if given in _FOR_DELETED else "recover"
        is_file = self.workspace.fs.inode(self.workspace.fs.lookup(path)).kind == "file"
        if given in _FOR_LIVE or (is_file and given in _FOR_LIVE_FILES):
            return given
        if is_file:
            return "versions"
        if state == _EXISTS:
            return "ls"
        return given if given == "recover" else "deleted"

    def nearest(self, wanted: bytes, prefers_deleted: bool = False) -> list[tuple[bytes, str]]:
        """(path, state) of the files nearest to a path: existing, or deleted with a grade."""
        if self.options.quiet:
            return []
        try:
            grades = self._deleted_states()
            near = nearest_paths(wanted, grades)
            for tree in self.workspace.fs.tree_pieces():
                near += nearest_paths(wanted, tree.paths)
        except Ext4kitError:
            return []
        states = {one.path: self._state_of(one.path, grades) for one in near}

        def order(one: Near) -> tuple[int, bool, int, bytes]:
            is_other = prefers_deleted and states[one.path] == _EXISTS
            return one.likeness, is_other, -len(one.path), one.path

        best = sorted(set(near), key=order)[:_MOST_NEAR]
        return [(one.path, states[one.path]) for one in best]

    def _state_of(self, path: bytes, grades: Mapping[bytes, str]) -> str:
        """Whether a path exists, how many deleted files are below it, or that it is deleted."""
        try:
            self.workspace.fs.lookup(path)
        except Ext4kitError:
            return grades.get(path, "deleted")
        below = sum(each.startswith(path + b"/") for each in grades)
        return f"{_EXISTS}; {count_text(below, 'deleted file')} below it" if below else _EXISTS

    def _deleted_states(self) -> dict[bytes, str]:
        """The grade of each deleted file by path, or by name if the path is unknown."""
        if self.options.as_of is not None or self.options.lost:
            return {}
        with self.step("searching for a near path") as tell:
            files = self.workspace.deleted(False, WITH_INODES, tell)
        states: dict[bytes, str] = {}
        for file in files:
            for path in (file.path or file.name, *file.further_paths):
                if path is not None:
                    states.setdefault(path, f"deleted, {file.grade}")
        return states


def _kinds_of(selection: Selection) -> list[Category]:
    """The file categories that the extensions of the wanted names indicate."""
    names = (path.rpartition(b"/")[2] for path in selection.paths)
    found = (category_of_name(name) for name in names if b"." in name)
    return sorted({kind for kind in found if kind is not None})
