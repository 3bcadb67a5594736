"""Linux roots and what containers changed, as lines and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, TypedDict

from ext4kit import fields
from ext4kit.fields import json_name, valid_text
from ext4kit.filesystem.view import Node
from ext4kit.report.phrases import command_text, count_text
from ext4kit.report.safe import printable_text, shown
from ext4kit.report.tables import TableText
from ext4kit.roots.changes import ChangeCounts, ChangeKind, RootChange
from ext4kit.roots.model import LinuxRoot, RootKind
from ext4kit.roots.origins import OriginState

_HEADINGS = ("kind", "layers", "files", "deleted", "name", "distribution", "image", "place")
_CHANGE_HEADINGS = ("change", "type", "grade", "path")
CountedRoot = tuple[LinuxRoot, ChangeCounts | None]


class RootDistribution(TypedDict):
    """What os-release says."""

    id: str
    version: str
    title: str


class RootRecord(TypedDict):
    """A Linux root on the image (`roots`)."""

    record: Literal["root"]
    kind: RootKind
    name: Annotated[str, "No other root of the image has it."]
    place: fields.Path
    layers: Annotated[list[str], "Paths of its layers, the top one first."]
    missing_layers: Annotated[int, ("minimum", 0), "Layers that the image does not have."]
    image: Annotated[str, "Name and tag of the image of a container."]
    id: Annotated[str, "Id of the container or image."]
    distribution: RootDistribution | None
    changed_files: Annotated[int | None, "Files in the upper layer; null without one."]
    whiteouts: Annotated[int | None, "Names that the upper layer hides; null without one."]
    details: Annotated[dict[str, str], "Further facts from its records."]


class OriginFacts(TypedDict):
    """The lower file that overlayfs recorded."""

    inode: int | None
    generation: int | None
    uuid: fields.Uuid
    state: OriginState


class RootChangeRecord(fields.PathText):
    """A change that a container made (`roots IMAGE NAME`)."""

    record: Literal["root change"]
    root: Annotated[str, "Name of the root."]
    change: ChangeKind
    type: fields.FileType
    inode: fields.Inode | None
    size: fields.Size | None
    mtime: fields.Moment | None
    lower_path: Annotated[str | None, "The path in the lower layers that it had."]
    lower_inode: fields.Inode | None
    lower_size: fields.Size | None
    origin: Annotated[OriginFacts | None, "What overlayfs recorded of the lower file."]
    layer_path: Annotated[str | None, "Path in the image; null for a deleted file."]
    grade: Annotated[str | None, "Grade of the content of a deleted inode of the upper layer."]


def root_record(counted: CountedRoot) -> RootRecord:
    """A root as a record."""
    root, counts = counted
    found = root.distribution
    return {
        "record": "root",
        "kind": root.kind,
        "name": valid_text(root.name),
        "place": shown(root.place),
        "layers": [shown(path) for path in root.layers],
        "missing_layers": root.missing,
        "image": valid_text(root.image),
        "id": valid_text(root.identity),
        "distribution": None if found is None else
        {"id": found.id, "version": found.version, "title": found.title},
        "changed_files": None if counts is None else counts.files,
        "whiteouts": None if counts is None else counts.whiteouts,
        "details": {key: valid_text(value) for key, value in root.details.items()},
    }  # fmt: skip


def root_heading(root: LinuxRoot | None) -> str:
    """A line above what is said of one of several roots; None for that of the image itself."""
    if root is None:
        return "== / =="
    return f"== {printable_text(root.name)} ({root.kind}, {shown(root.place)}) =="


def root_lines(roots: Sequence[CountedRoot], image: object) -> Iterator[str]:
    """A table of the roots, and what to type next."""
    if not roots:
        yield "no directory looks like the root of a Linux system"
        return
    table = TableText(_HEADINGS, right={1, 2, 3})
    for root, counts in roots:
        numbers = ("-", "-") if counts is None else (f"{counts.files:,}", f"{counts.whiteouts:,}")
        lacking = f" (+{root.missing} missing)" if root.missing else ""
        title = "-" if root.distribution is None else printable_text(root.distribution.title)
        layers = f"{len(root.layers)}{lacking}"
        named = (printable_text(each) or "-" for each in (root.name, title, root.image))
        table.add((root.kind, layers, *numbers, *named, shown(root.place)))
    yield from table.lines()
    changed = [root for root, counts in roots if counts and counts.files + counts.whiteouts]
    yield ""
    yield count_text(len(roots), "Linux root")
    if changed:
        text = command_text("roots", image, printable_text(changed[0].name))
        yield f"{text} lists what that container changed"
    if any(not root.is_own for root, _ in roots):
        text = command_text("ls", image, "--view", "roots")
        yield f"{text} lists the trees, with their layers merged"


def change_record(root: LinuxRoot, change: RootChange) -> RootChangeRecord:
    """A change as a record."""
    lower, origin, file = change.lower, change.origin, change.file
    node: Node | None = change.node
    place = None if node is None else node.layer_path
    return {
        "record": "root change",
        "root": valid_text(root.name),
        "change": change.kind,
        **json_name(change.path),
        "type": _type(change),
        "inode": file.number if file else None if node is None else node.number,
        "size": file.size if file else None if node is None else node.size,
        "mtime": file.mtime if file else None if node is None else node.mtime,
        "lower_path": None if lower is None else shown(lower.path),
        "lower_inode": None if lower is None else lower.number,
        "lower_size": None if lower is None else lower.size,
        "origin": None if origin is None else {
            "inode": origin.handle.inode, "generation": origin.handle.generation,
            "uuid": origin.handle.uuid, "state": origin.state,
        },
        "layer_path": None if place is None else shown(place),
        "grade": None if file is None else file.grade,
    }  # fmt: skip


def change_lines(root: LinuxRoot, changes: Iterable[RootChange]) -> Iterator[str]:
    """The facts of a root, a table of its changes, and their number."""
    yield f"{root.kind} {printable_text(root.name)}: {shown(root.place)}"
    for key, value in root.details.items():
        yield f"  {key}: {printable_text(value)}"
    table, count = TableText(_CHANGE_HEADINGS), 0
    for change in changes:
        count += 1
        grade = change.file.grade if change.file else "-"
        table.add((change.kind, _type(change), grade, shown(change.path) + _note(change)))
    yield ""
    yield from (*table.lines(), "") if count else ()
    yield count_text(count, "change") if root.has_upper else "it has no layer of its own"


def _type(change: RootChange) -> fields.FileType:
    if change.file is not None:
        return change.file.kind
    node = change.node or change.lower
    return "unknown" if node is None else node.kind


def _note(change: RootChange) -> str:
    """What the file was, and whether that still exists."""
    if change.file is not None:
        return f"  (inode {change.file.number}, deleted from the layer)"
    if change.kind is ChangeKind.MOVED and change.lower is not None:
        return f"  (was {shown(change.lower.path)})"
    origin = change.origin
    if origin is None or origin.state is OriginState.EXISTS:
        return ""
    return f"  (copy of inode {origin.handle.inode}: {origin.state})"
