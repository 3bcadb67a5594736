"""What is done with files: finding, searching, signs, owners of blocks, writing, bookmarks.

Every function is called by the thread that reads the file system, and returns plain text and paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.browse.background import Task
from ext4kit.browse.commands import ShellCommands, file_of
from ext4kit.browse.filters import FileFilter
from ext4kit.browse.sources import CONTENTS, FILES, UNALLOCATED, UNATTACHED, Sources
from ext4kit.browse.tree import RowCondition, TreeRoot
from ext4kit.errors import RequestError
from ext4kit.evidence import Evidence, Volume
from ext4kit.fields import Record
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node, NodeId
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable, printable_text, shown
from ext4kit.report.times import time_text
from ext4kit.search.hits import Hit
from ext4kit.selection import Places, Selection
from ext4kit.units import Progress
from ext4kit.views.together import own_node
from ext4kit.workspace import Workspace

if TYPE_CHECKING:
    from ext4kit.output.case import Case
    from ext4kit.recovery import DeletedFile
    from ext4kit.search.hits import Hit
    from ext4kit.views.deleted import DeletedView

MOST_FOUND = 20_000  # results of one search


@dataclass(frozen=True)
class FoundLine:
    """A result: a line of a list, and the file that it is about.

    Attributes:
        text: what is shown.
        path: of the file in the tree of all files; None for none.
        id: identity of the file, which counts if the path has another file.
        root: the tree.
        transaction: stored tid of the state that has it; None for the present.
        is_heading: whether it is a line between results.
    """

    text: str
    path: bytes | None = None
    id: NodeId | None = None
    root: TreeRoot = FILES
    transaction: int | None = None
    is_heading: bool = False


# -- finding ------------------------------------------------------------------------------------


def find_names(
    sources: Sources, workspace: Workspace, expression: str, wanted: FileFilter, task: Task
) -> list[FoundLine]:
    """The files of the tree whose name has a regular expression.

    Args:
        sources: the readers.
        workspace: of the reader of deleted files.
        expression: the regular expression; upper and lower case are the same.
        wanted: further conditions.
        task: the task.

    Raises:
        RequestError: the expression is not valid.
    """
    try:
        pattern = re.compile(os.fsencode(expression), re.IGNORECASE)
    except re.error as error:
        text = f"{expression!r} is not a valid regular expression: {error}"
        raise RequestError(text) from error
    condition = sources.condition(workspace, wanted)
    selection = condition.selection
    if not selection.names:
        selection = replace(selection, names=(pattern,))
    condition = replace(condition, selection=selection)
    found = _deleted_names(sources.deleted_view(workspace), condition, pattern, task)
    if not condition.deleted_only:
        found = chain(_live_names(workspace, condition, pattern, task), found)
    return list(islice(found, MOST_FOUND))


def _live_names(
    workspace: Workspace, condition: RowCondition, pattern: re.Pattern[bytes], task: Task
) -> Iterator[FoundLine]:
    for batch in LiveView(workspace.fs).walk(condition.selection):
        task.progress(batch.end, batch.total)
        in_time = compress(batch.paths, condition.rows_in_time(batch.table))
        named = (path for path in in_time if pattern.search(path.rpartition(b"/")[2]))
        yield from (FoundLine(shown(path), path) for path in named)


def _deleted_names(
    view: DeletedView, condition: RowCondition, pattern: re.Pattern[bytes], task: Task
) -> Iterator[FoundLine]:
    for node in _deleted_nodes(view, condition, pattern, task):
        yield FoundLine(f"{shown(node.path)}  (deleted, {node.grade})", node.path, node.id)


def _deleted_nodes(
    view: DeletedView, condition: RowCondition, pattern: re.Pattern[bytes], task: Task
) -> Iterator[Node]:
    """The deleted files; those without an inode are in another tree."""
    from ext4kit.recovery.tree_paths import CARVED

    for node in view.root.children():
        if node.path == CARVED:
            continue
        for each in (node, *_below(view, node)):
            task.progress(0, 0)
            is_found = file_of(each) is not None and pattern.search(each.name)
            if is_found and condition.selects(each):
                yield each


def list_deleted(
    sources: Sources, workspace: Workspace, wanted: FileFilter, task: Task
) -> list[FoundLine]:
    """The deleted files of the tree, those deleted last first; those of unknown time at the end.

    Args:
        sources: the readers.
        workspace: of the reader of deleted files.
        wanted: further conditions.
        task: the task.
    """
    condition = sources.condition(workspace, wanted)
    every = re.compile(b"")
    found = list(_deleted_nodes(sources.deleted_view(workspace), condition, every, task))
    found.sort(key=lambda node: (-(node.deletion_time or 0), node.path))
    return [FoundLine(f"{time_text(node.deletion_time):<20}  {node.grade or '-':<11}  "
                      f"{shown(node.path)}{'/' * (node.kind == 'directory')}", node.path, node.id)
            for node in found[:MOST_FOUND]]  # fmt: skip


def list_changes(
    workspace: Workspace, path: bytes, wanted: FileFilter, task: Task
) -> list[FoundLine]:
    """The events of a file and of all below it, oldest first: when, whose file it is, and what.

    Args:
        workspace: of the reader of long work.
        path: of the file or directory.
        wanted: its times limit those of the events.
        task: the task.

    Raises:
        RequestError: a time is none, or the file system has no journal.
    """
    from ext4kit.report.timeline import event_text
    from ext4kit.timeline import EventFilter, EventKind

    own = re.compile(re.escape(path.rstrip(b"/")) + rb"(?:/.*)?", re.DOTALL)
    times, kinds = wanted.times(workspace), tuple(set(EventKind) - {EventKind.HINT})
    selection = Selection(places=Places(own, own))
    chosen = EventFilter(selection, None, times.least, times.most, kinds)
    found = list[FoundLine]()
    for event in islice(workspace.timeline(task.progress).select(chosen), MOST_FOUND):
        task.progress(0, 0)
        uid = "-" if event.uid is None else str(event.uid)
        what = f"{time_text(event.time):<20}  uid {uid:<5}  {event.kind:<17}  {event_text(event)}"
        found.append(FoundLine(what, event.path))
    return found


def _below(view: DeletedView, node: Node) -> Iterator[Node]:
    if node.kind == "directory":
        for batch in view.walk(start=node):
            yield from batch.nodes


def search_content(workspace: Workspace, text: str, task: Task) -> list[FoundLine]:
    """The places where a text stands, in upper or lower case.

    Raises:
        RequestError: the text is refused.
        UnsupportedError: it needs the extra `search`.
    """
    from ext4kit.search.patterns import text_patterns
    from ext4kit.search.search import search

    result = search(workspace, text_patterns(text, ignores_case=True), progress=task.progress)
    hits, found = result.hits, list[FoundLine]()
    last: tuple[str, str] | None = None
    for row in range(min(len(hits), MOST_FOUND)):
        if row % 256 == 0:
            task.progress(row, len(hits))
        hit = hits[row]
        if hit.node is not None and last != (hit.area, str(hit.node.path)):
            last = hit.area, str(hit.node.path)
            found.append(replace(_found_hit(hit), text=f"{hit.area} {shown(hit.node.path)}",
                                 is_heading=True))  # fmt: skip
        found.append(_found_hit(hit))
    return found


def _found_hit(hit: Hit) -> FoundLine:
    span = hit.around(24)
    text = printable(bytes(span.before)) + "»" + printable(span.own) + "«" + printable(span.after)
    node = hit.node
    if node is None:
        return FoundLine(f"{hit.area} block {hit.block}: {text}")
    identity = None if hit.area in ("live", "slack") else node.id
    return FoundLine(f"  byte {hit.offset}: {text}", node.path, identity)


def find_signs(workspace: Workspace, task: Task) -> list[FoundLine]:
    """The signs of `report`: each rule with what it rests on, then its files."""
    from ext4kit.triage import TriageOptions, triage

    options = TriageOptions(verify=False, names=False)

    def step(title: str) -> AbstractContextManager[Progress]:
        task.title = f"signs: {title}"
        task.progress(0, 0)
        return nullcontext(task.progress)

    found = list[FoundLine]()
    for sign in triage(workspace, options, step).suspicions:
        count = count_text(sign.count, "file")
        found.append(FoundLine(f"{sign.rule.title}  ({count})", is_heading=True))
        for each in sign.sightings:
            name = "the image" if each.path is None else shown(each.path)
            what = ", ".join(each.seen)
            note = printable_text(each.note)
            found.append(FoundLine(f"  {name}  {what}  {note}".rstrip(), each.path))
    return found


def block_owners(
    workspace: Workspace, block: int, commands: ShellCommands, volume: Volume, task: Task
) -> list[FoundLine]:
    """Whose a block is, and whose it was.

    Raises:
        RequestError: there is no such block.
    """
    from ext4kit.owners.answers import who
    from ext4kit.report.who import BlockTexts

    count = workspace.fs.superblock.blocks_count
    if not 0 <= block < count:
        raise RequestError(f"block {block}: this file system has blocks 0 to {count - 1:,}")
    answer = who(workspace, np.array([block], np.int64), progress=task.progress)[0]
    texts = BlockTexts(workspace, commands.image, volume.offset, volume.frame)
    lines = chain.from_iterable(text.splitlines() for text in texts.lines(answer, None))
    found = [FoundLine(line) for line in lines]
    for present in answer.present:
        found += [FoundLine(f"now: {shown(path)}", path) for path in present.paths]
    for use in answer.earlier:
        file = use.file
        for path in use.paths:
            identity = None if file is None or file.superseded else file.identity
            found.append(FoundLine(f"before: {shown(path)}", path, identity))
    return found


# -- writing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarkedFile:
    """A file to write.

    Attributes:
        node: the file.
        path: its path in the tree.
        root: the tree.
        transaction: stored tid of the state that has it; None for the present.
        above: the marked directory that it is below, all of which is written; None for none.
    """

    node: Node
    path: bytes
    root: TreeRoot
    transaction: int | None = None
    above: bytes | None = None

    @property
    def key(self) -> tuple[str, bytes]:
        """Tells it apart from all other files."""
        return str(self.node.id), self.path

    @property
    def target(self) -> bytes:
        """What `extract` is given for a live file."""
        if self.root is UNATTACHED:
            return b"<%d>" % self.node.id.inode
        return own_node(self.node).path


@dataclass(frozen=True)
class MarkedGroup:
    """Marked files that are written together, by one command.

    Attributes:
        name: of the folder, if there are several groups.
        marks: the files.
        transaction: of live files of an earlier time.
    """

    name: str
    marks: tuple[MarkedFile, ...]
    transaction: int | None = None

    @property
    def files(self) -> list[DeletedFile]:
        """The records of deleted files; empty for live files."""
        found = (file_of(mark.node) for mark in self.marks)
        return [file for file in found if file is not None]

    def command(self, commands: ShellCommands, out: Path) -> list[str]:
        """The words of the command that does the same."""
        if self.files:
            folders = {mark.above for mark in self.marks}
            return commands.recover(self.files, str(out), folders)
        return commands.extract([mark.target for mark in self.marks], str(out), self.transaction)


def groups_of(marks: Iterable[MarkedFile]) -> list[MarkedGroup]:
    """The groups of marked files.

    Raises:
        RequestError: one is a run of unallocated blocks.
    """
    each = list(marks)
    if any(mark.root is UNALLOCATED for mark in each):
        text = "unallocated blocks are written by `cat --view unallocated`, as c shows; unmark them"
        raise RequestError(text)
    found: dict[tuple[str, int | None], list[MarkedFile]] = {}
    for mark in each:
        name = "deleted" if file_of(mark.node) is not None else "live"
        name = "carved" if mark.root is CONTENTS else name
        if mark.transaction is not None:
            name = f"transaction-{mark.transaction}"
        found.setdefault((name, mark.transaction), []).append(mark)
    return [
        MarkedGroup(name, tuple(some), tid) for (name, tid), some in sorted(found.items(), key=str)
    ]


def check_marked(node: Node, root: TreeRoot) -> None:
    """Refuse to mark what has nothing to write.

    Raises:
        RequestError: it is a folder of another tree than that of all files, and of the tree alone.
    """
    own = own_node(node)
    if root is not FILES and own.kind == "directory" and file_of(own) is None and own.inode is None:
        raise RequestError("this folder is of the tree alone; mark what is in it")


@dataclass(frozen=True)
class BrowsedEvidence:
    """What the case record of an output folder says of the evidence.

    Attributes:
        evidence: the image.
        files: its files.
        volume: number of the volume.
        locator: address of the file system.
    """

    evidence: Evidence
    files: tuple[Path, ...]
    volume: int
    locator: str


@dataclass(frozen=True)
class WrittenGroup:
    """What was written of a group.

    Attributes:
        name: of the group.
        written, incomplete: numbers of files.
        without_bytes: number of deleted files of which only the record was written.
    """

    name: str
    written: int
    incomplete: int = 0
    without_bytes: int = 0


def written_text(groups: Sequence[WrittenGroup], out: Path) -> str:
    """What was written, in a sentence: `3 live, 3 deleted files written into OUT`."""
    order = ("live", "deleted")
    found = sorted(groups, key=lambda one: order.index(one.name) if one.name in order else 2)
    counts = ", ".join(f"{one.written:,} {one.name}" for one in found)
    is_one = sum(one.written for one in found) == 1
    text = f"{counts} file{'' if is_one else 's'} written into {printable_text(str(out))}"
    for count, what in (
        (sum(one.without_bytes for one in found), "deleted without bytes, in the manifest alone"),
        (sum(one.incomplete for one in found), "incomplete; the manifest says why"),
    ):
        text += f"; {count:,} {what}" if count else ""
    return text


def write_group(
    workspace: Workspace,
    group: MarkedGroup,
    out: Path,
    words: Sequence[str],
    facts: BrowsedEvidence,
    task: Task,
) -> WrittenGroup:
    """Write marked files into a new or empty folder, with manifest and case record.

    Args:
        workspace: of the state that has the files.
        group: the files.
        out: the folder.
        words: the command that does the same.
        facts: of the evidence.
        task: the task.

    Returns:
        what was written.

    Raises:
        RequestError: the folder cannot be used.
        OutputError: writing failed.
    """
    from ext4kit.output.case import Case
    from ext4kit.output.lock import lock, locked

    case = Case(tuple(words[1:]), facts.evidence, facts.files, facts.volume, facts.locator)
    with locked(out):
        try:
            done = _written(workspace, group, out, facts.files, task, case)
        except RequestError:
            raise
        except BaseException as error:
            _write_case(case, workspace, out, f"{type(error).__name__}: {error}")
            raise
        lock(out)
        _write_case(case, workspace, out, "")
    return done


def _written(
    workspace: Workspace, group: MarkedGroup, out: Path, evidence: tuple[Path, ...], task: Task,
    case: Case,
) -> WrittenGroup:  # fmt: skip
    from ext4kit.output.extraction import extract
    from ext4kit.recovery import DeletedFiles, recover

    files = group.files
    if files:
        done = recover(DeletedFiles(workspace.fs, files), out, task.progress, evidence)
        case.counts = {"written": done.written, "incomplete": done.incomplete, **done.grades}
        return WrittenGroup(group.name, done.written, done.incomplete, done.recorded)
    targets = [mark.target for mark in group.marks]
    copied = extract(workspace.fs, targets, out, evidence, task.progress)
    counts: Record = asdict(copied)
    case.counts = {name: value for name, value in counts.items() if name != "grades"}
    return WrittenGroup(group.name, copied.written, copied.incomplete)


def _write_case(case: Case, workspace: Workspace, out: Path, reason: str) -> None:
    from ext4kit.output.case import write_case
    from ext4kit.output.manifest import CASE

    if not out.is_dir():
        return
    problems = workspace.fs.problems
    write_case(out / CASE, case.record(list(problems), problems.errors, reason))


@dataclass
class MarkedFiles:
    """The marked files, in the order of marking."""

    _by_key: dict[tuple[str, bytes], MarkedFile] = field(default_factory=dict)

    def toggle(self, mark: MarkedFile) -> bool:
        """Mark a file, or take its mark away; whether it is marked now."""
        if self._by_key.pop(mark.key, None) is not None:
            return False
        self._by_key[mark.key] = mark
        return True

    def has(self, node: Node, path: bytes) -> bool:
        """Whether a file is marked."""
        return bool(self._by_key) and (str(node.id), path) in self._by_key

    def clear(self) -> None:
        """Take all marks away."""
        self._by_key.clear()

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[MarkedFile]:
        return iter(list(self._by_key.values()))


CheckOutput = Callable[[Path], None]
