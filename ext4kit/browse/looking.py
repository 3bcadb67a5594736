"""The panes on the right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from textual import on

from ext4kit.browse.actions import (
    FoundLine,
)
from ext4kit.browse.background import ReadPlace, Task
from ext4kit.browse.commands import file_of
from ext4kit.browse.panes import LinePane, Part, TextPane
from ext4kit.browse.screens import VersionsScreen
from ext4kit.browse.shell import SOON, BrowseOptions
from ext4kit.browse.tree import TreeRow
from ext4kit.browse.walking import WalkingApp
from ext4kit.filesystem.live_view import LiveNode, LiveView
from ext4kit.filesystem.view import Node
from ext4kit.preview.model import Preview, Section
from ext4kit.report.safe import printable_text, shown
from ext4kit.views.together import own_node
from ext4kit.workspace import Workspace

if TYPE_CHECKING:
    from ext4kit.recovery.file_versions import FileVersion

_MOST_LINES = 1000  # of a preview at once
_Start = tuple[int, int | None]  # byte and number of a line, None if that is unknown
_TOP: _Start = 0, 1
_MOST_EXPLAINED = 4 << 20  # bytes of a deleted file whose evidence is told at once


@dataclass
class _Shown:
    """The file in the panes.

    Attributes:
        node, row, where: the file, its row, and what reads it.
        kind: of the preview; "" for the usual one.
        kinds: all that make sense; none before the first preview.
        starts: (byte, line) with which the parts of the preview begin, the last one is shown.
        next: the same of the next part; None for none.
    """

    node: Node
    row: TreeRow
    where: ReadPlace
    kind: str = ""
    kinds: tuple[str, ...] = ()
    starts: list[_Start] = field(default_factory=lambda: [_TOP])
    next: _Start | None = None


class LookingApp(WalkingApp):
    """The preview and the facts of the file at the cursor.

    Args:
        options: what is browsed.
    """

    def __init__(self, options: BrowseOptions) -> None:
        super().__init__(options)
        self.shown: _Shown | None = None

    @property
    def preview_pane(self) -> TextPane:
        """The pane of the preview."""
        return self.screen_stack[0].query_one("#preview", TextPane)

    @property
    def details_pane(self) -> TextPane:
        """The pane of the facts."""
        return self.screen_stack[0].query_one("#details", TextPane)

    @on(LinePane.Moved, "#tree")
    def moved(self) -> None:
        """Show the file at the cursor, as soon as no further key comes."""
        self.row_changed()
        found = self._commands()
        if found:
            self.show_line(found[0])

    def row_changed(self) -> None:
        """Show the file at the cursor."""
        row = self.tree_pane.row
        node = None if row is None else row.node
        if row is None:
            return
        where = self._where(row)
        if node is None or where is None:
            self._start("preview", self._show_note, row)
            self.shown = None
            return
        last = self.shown
        if last is not None and last.node == node and last.where == where:
            self.shown = replace(last, row=row)
        else:
            self.shown = _Shown(node, row, where)
        self._start("preview", self._show, self.shown)

    async def _show_note(self, row: TreeRow) -> None:
        """Show a message of the tree in full, and no facts."""
        await asyncio.sleep(SOON)
        note = row.message
        below = row.branch.opened.get(row.at)
        if not note and below is not None:
            note = " ".join(below.notes)
        width = max(self.preview_pane.scrollable_content_region.width, 20)
        role = "warning" if note.startswith("error") else "dim"
        self.preview_pane.show([((piece, role),) for piece in _folded(note, width)])
        self.details_pane.show([])

    def _commands(self) -> list[str]:
        now = self.shown
        root = None if now is None else now.row.root
        if now is None or root is None:
            row = self.tree_pane.row
            where = None if row is None else self._where(row)
            tid = None if where is None else where.transaction
            return [] if tid is None else [self.options.commands.moment(tid)]
        tid = now.where.transaction
        return self.options.commands.show(root.key, self._path(now), now.node, tid)

    def _path(self, now: _Shown) -> bytes:
        """The path of a node as commands take it."""
        return now.node.path

    async def _show(self, now: _Shown) -> None:
        await asyncio.sleep(SOON)
        node = own_node(now.node)
        pane = self.preview_pane
        width = max(pane.scrollable_content_region.width, 20)

        def read(_workspace: Workspace) -> Preview:
            from ext4kit.preview.previews import kinds_for, preview

            of = now.node if node.kind == "directory" else node  # its deleted entries also
            now.kinds = kinds_for(of)
            kind = now.kind if now.kind in now.kinds else now.kinds[0]
            offset, line = now.starts[-1]
            return preview(of, kind, offset, _MOST_LINES, width, line)

        found = await self._ask(now.where.reader, read)
        end = found.next_offset
        now.next = None if end is None else (end, found.next_line)
        pane.show(_preview_lines(found))

        def facts(workspace: Workspace) -> Sequence[Section]:
            from ext4kit.preview.details import details

            return details(workspace, node)

        sections = sorted(await self._ask(now.where.reader, facts), key=_rank)
        self.details_pane.show(_section_lines(sections, width))
        if file_of(node) is None or (node.size or 0) > _MOST_EXPLAINED:
            return

        def sentences(workspace: Workspace) -> Section:
            from ext4kit.preview.details import explanation

            return explanation(workspace, node, self.options.volume)

        told = await self._ask(now.where.reader, sentences)
        lines = _section_lines([*sections, told], width)
        self.details_pane.show(lines, keeps_place=True)

    def action_kind(self, by: int) -> None:
        """Show another kind of preview."""
        now = self.shown
        if now is None or not now.kinds:
            return
        at = now.kinds.index(now.kind) if now.kind in now.kinds else 0
        now.kind, now.starts = now.kinds[(at + by) % len(now.kinds)], [_TOP]
        self._start("preview", self._show, now)

    def action_part(self, by: int) -> None:
        """Show the next or the previous part of a file."""
        now = self.shown
        if now is None:
            return
        if by > 0 and now.next is not None:
            now.starts.append(now.next)
        elif by < 0 and len(now.starts) > 1:
            now.starts.pop()
        else:
            return
        self._start("preview", self._show, now)

    def action_versions(self) -> None:
        """List the versions of the file."""
        if self.shown is not None:
            self._start("versions", self._show_versions, self.shown)

    async def _show_versions(self, now: _Shown) -> None:
        """List the versions; of the chosen one, show how it differs from the one before."""
        node, task = own_node(now.node), Task("versions")
        earlier = now.where.transaction is not None
        reader = now.where.reader if earlier else self.sources.work
        self.show_command(self.options.commands.line("versions", node.path))

        def find(workspace: Workspace) -> tuple[FileVersion, ...]:
            from ext4kit.preview.versions import versions_of

            return versions_of(workspace, node, task.progress)

        found = await self._ask(reader, find, task)
        lines = [FoundLine(_version_text(one)) for one in found]
        screen = VersionsScreen(f"versions of {shown(node.path)}", lines)
        chosen = await self.push_screen_wait(screen)
        at = next((row for row, one in enumerate(lines) if one is chosen), None)
        if at is None:
            return
        shows_content = screen.shows_content or len(found) == 1
        width = max(self.preview_pane.scrollable_content_region.width, 20)

        def read(_workspace: Workspace) -> Preview:
            return _content_of(found[at], width) if shows_content else _compared(found, at)

        self.preview_pane.show(_preview_lines(await self._ask(reader, read)))
        self.preview_pane.focus()

    def action_owners(self) -> None:
        """Show who had the blocks of the file before."""
        if self.shown is not None:
            self._start("owners", self._show_owners, self.shown)

    async def _show_owners(self, now: _Shown) -> None:
        """Tell who had the blocks; a live file is read by the thread of long work."""
        node, task, where = own_node(now.node), Task("earlier owners"), now.where
        is_live = isinstance(node, LiveNode) and where.transaction is None
        number = node.id.inode

        def find(workspace: Workspace) -> Section:
            from ext4kit.preview.versions import earlier_owners

            same = LiveView(workspace.fs).lookup(b"<%d>" % number) if is_live else node
            return earlier_owners(workspace, same, task.progress)

        reader = self.sources.work if is_live else where.reader
        section = await self._ask(reader, find, task)
        self.details_pane.show(_section_lines([section], self.details_pane.size.width))
        self.details_pane.focus()


def _preview_lines(found: Preview) -> list[Sequence[Part]]:
    lines: list[Sequence[Part]] = [((printable_text(found.title), "heading"),)]
    if found.note:
        lines.append(((printable_text(found.note), "warning"),))
    lines += [tuple((span.text, span.role) for span in line.spans) for line in found.lines]
    if found.next_offset is not None:
        lines.append((("> shows more", "dim"),))
    elif found.is_cut:
        lines.append((("there is more", "dim"),))
    return lines


def _section_lines(sections: Sequence[Section], width: int) -> list[Sequence[Part]]:
    """Facts as lines, long ones on several lines."""
    lines = list[Sequence[Part]]()
    for section in sections:
        lines.append(((printable_text(section.title), "heading"),))
        for name, value in section:
            start = f"{name}: " if name else ""
            pieces = _folded(start + value, max(width - 2, 20))
            for at, piece in enumerate(pieces):
                if at == 0 and start:
                    lines.append(((start, "key"), (piece[len(start) :], "plain")))
                else:
                    lines.append(((f"  {piece}" if at else piece, "plain"),))
    return lines


def _rank(section: Section) -> int:
    """The place of a section: what a reader wants to know first."""
    first = ("Node", "Grade")
    return first.index(section.title) if section.title in first else len(first)


def _folded(text: str, width: int) -> list[str]:
    """A text in pieces that fit; the first one is at least as long as the name."""
    from textwrap import wrap

    found = wrap(text, width, subsequent_indent="", break_on_hyphens=False)
    return found or [text]


def _compared(found: Sequence[FileVersion], at: int) -> Preview:
    """How a version differs from the next one; the last one, from the one before it."""
    from ext4kit.preview.versions import difference

    older = min(at, len(found) - 2)
    pair = found[older], found[older + 1]
    title = f"version {pair[0].number} (-) compared with version {pair[1].number} (+)"
    made = difference(*pair)
    return replace(made, title=f"{title}: {made.title}")


def _content_of(version: FileVersion, width: int) -> Preview:
    from ext4kit.preview.previews import preview
    from ext4kit.preview.versions import node_of_version

    made = preview(node_of_version(version), None, 0, _MOST_LINES, width)
    made = replace(made, next_offset=None, is_cut=made.is_cut or made.next_offset is not None)
    return replace(made, title=f"content of version {version.number}: {made.title}")


def _version_text(version: FileVersion) -> str:
    from ext4kit.report.file_versions import committed_text, happened_text

    grade = "as it is" if version.grade is None else str(version.grade)
    what = happened_text(version, version.path or b"")
    text = f"{version.number:>3}  {committed_text(version)}  {version.inode.size:,} bytes  {grade}"
    return printable_text(f"{text}  {what}")
