"""What is below marked directories: live files and deleted ones, as the filter lets through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ext4kit.browse.actions import MarkedFile
from ext4kit.browse.background import Task
from ext4kit.browse.commands import file_of
from ext4kit.browse.filters import FileFilter
from ext4kit.browse.sources import FILES, Sources
from ext4kit.browse.tree import RowCondition
from ext4kit.errors import NotFoundError, RequestError
from ext4kit.filesystem.live_view import LiveNode, LiveView
from ext4kit.filesystem.view import Node
from ext4kit.views.together import own_node
from ext4kit.workspace import Workspace

if TYPE_CHECKING:
    from ext4kit.views.deleted import DeletedView


def is_expanded(mark: MarkedFile) -> bool:
    """Whether a mark stands for the live and the deleted files below a directory."""
    return mark.root is FILES and mark.transaction is None and mark.node.kind == "directory"


def with_below(
    sources: Sources, workspace: Workspace, marks: Sequence[MarkedFile], wanted: FileFilter,
    task: Task,
) -> list[MarkedFile]:  # fmt: skip
    """The marked files, and those below marked directories, each once.

    Without a filter a live directory stays as it is, because `extract` copies what is below it.

    Args:
        sources: the readers.
        workspace: of the reader of deleted files.
        marks: the marks.
        wanted: the filter.
        task: the task.

    Raises:
        RequestError: nothing is left to write.
    """
    condition = sources.condition(workspace, wanted)
    found: dict[tuple[str, bytes], MarkedFile] = {}
    for mark in marks:
        some = _below(sources, workspace, mark, condition, task) if is_expanded(mark) else [mark]
        for each in some:
            found.setdefault(each.key, each)
    if not found:
        hidden = " that the filter lets through" if wanted.text else ""
        raise RequestError(f"nothing is below the marks{hidden}")
    return _without_covered(list(found.values()), bool(wanted.text))


def _below(
    sources: Sources, workspace: Workspace, mark: MarkedFile, condition: RowCondition, task: Task
) -> Iterator[MarkedFile]:
    own = own_node(mark.node)
    above = mark.path if condition.is_everything else None
    if own.file_state == "live" and isinstance(own, LiveNode):
        yield from _live(workspace, own, condition, task)
    for node in _deleted(sources.deleted_view(workspace), own):
        task.progress(0, 0)
        if file_of(node) is not None and condition.selects(node):
            yield MarkedFile(node, node.path, FILES, above=above)


def _live(
    workspace: Workspace, top: LiveNode, condition: RowCondition, task: Task
) -> Iterator[MarkedFile]:
    if condition.is_everything:
        yield MarkedFile(top, top.path, FILES)
        return
    if condition.deleted_only:
        return
    for batch in LiveView(workspace.fs).walk(condition.selection, top):
        task.progress(batch.end, batch.total)
        for node in batch.nodes:
            if node.kind != "directory" and condition.selects(node):
                yield MarkedFile(node, node.path, FILES)


def _deleted(view: DeletedView, own: Node) -> Iterator[Node]:
    """The deleted files below a directory, and the directory itself if it was deleted."""
    from ext4kit.recovery.tree_paths import CARVED

    try:
        top = own if own.file_state != "live" else view.lookup(own.path)
    except NotFoundError:
        return
    if top.kind != "directory":
        return  # a file that had the name of the directory is beside it
    if own.file_state != "live":
        yield top
    for node in top.children():
        if node.path != CARVED:
            yield node
            if node.kind == "directory":
                for batch in view.walk(start=node):
                    yield from batch.nodes


def _without_covered(found: list[MarkedFile], is_filtered: bool) -> list[MarkedFile]:
    """Without the live files that are copied with a marked directory above them."""
    if is_filtered:
        return found
    folders = {mark.path.rstrip(b"/") for mark in found if is_expanded(mark) and _is_live(mark)}
    return [mark for mark in found if not (_is_copied(mark) and _is_below(mark.path, folders))]


def _is_copied(mark: MarkedFile) -> bool:
    """Whether a mark is a live file of the tree of all files as they are now."""
    return _is_live(mark) and mark.root is FILES and mark.transaction is None


def _is_live(mark: MarkedFile) -> bool:
    return file_of(mark.node) is None


def _is_below(path: bytes, folders: set[bytes]) -> bool:
    parts = path.rstrip(b"/").split(b"/")
    return any(b"/".join(parts[:end]) in folders for end in range(1, len(parts)))
