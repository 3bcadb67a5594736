"""Nodes of a view as lines and as records."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.errors import AccessError, CorruptError
from ext4kit.fields import json_name
from ext4kit.filesystem.view import Node
from ext4kit.known.files import KnownFiles
from ext4kit.reasons import coded, texts
from ext4kit.report.inode_facts import TIMES
from ext4kit.report.known_marks import known_text
from ext4kit.report.listing import mode_text
from ext4kit.report.overlay_text import overlay_texts
from ext4kit.report.safe import shown
from ext4kit.report.superblock_facts import Fact, fact_lines
from ext4kit.report.tables import TableText, human_size
from ext4kit.report.times import exact_time, time_text
from ext4kit.selection import known_key

_HEADINGS = ("grade", "mode", "uid", "gid", "size", "modified", "name")
_FOLDER_MODE = stat.S_IFDIR | 0o755


class NodeRecord(fields.KnownFact, fields.PathText, fields.InodeFacts):
    """A file or directory of a view (`ls --view`, `stat --view`)."""

    record: Literal["node"]
    id: Annotated[str, "Identity of the node, the same in every run on the same evidence."]
    type: fields.FileType
    inode: fields.Inode | None
    generation: fields.Generation | None
    size: fields.Size | None
    grade: Annotated[str | None, "Grade of the content; null for a live file."]
    deleted_at: fields.Moment | None
    further_paths: Annotated[list[str], "Other full paths of the file."]
    target: Annotated[str | None, "Target of the symlink."]
    layer_path: NotRequired[Annotated[str, "With layers of overlayfs: its path in the image."]]
    problems: fields.Reasons
    reasons: fields.CodedReasons


class _LayerText(TypedDict):
    """Where a file of a layer is."""

    layer_path: str


def node_record(node: Node, known: KnownFiles | None = None) -> NodeRecord:
    """A node as a record, with the list of known files that has it; times in nanoseconds."""
    inode, target = node.inode, _target(node)
    asked: fields.KnownFact = {} if known is None else {"known": _source(node, known) or None}
    layer: _LayerText | fields.Nothing = {}
    if node.layer_path is not None:
        layer = {"layer_path": shown(node.layer_path)}
    return {
        "record": "node",
        **json_name(node.path),
        "id": str(node.id),
        "type": node.kind,
        "inode": node.number,
        "generation": None if inode is None else inode.generation,
        "size": node.size,
        "mode": None if inode is None else inode.mode,
        "uid": None if inode is None else inode.uid,
        "gid": None if inode is None else inode.gid,
        "atime": None if inode is None else inode.atime,
        "mtime": None if inode is None else inode.mtime,
        "ctime": None if inode is None else inode.ctime,
        "crtime": None if inode is None else inode.crtime,
        "grade": node.grade,
        "deleted_at": node.deletion_time,
        "further_paths": [shown(path) for path in node.further_paths],
        "target": None if target is None else shown(target),
        **layer,
        "problems": texts(list(node.reasons)),
        "reasons": coded(list(node.reasons)),
        **asked,
    }


def node_lines(
    nodes: Iterable[Node],
    with_paths: bool,
    is_long: bool,
    human: bool,
    numbered: bool,
    known: KnownFiles | None = None,
) -> Iterator[str]:
    """A line for each node.

    Args:
        nodes: the nodes.
        with_paths: show full paths, not names.
        is_long: add grade, mode, owner, size and time.
        human: show sizes in the largest fitting unit.
        numbered: begin with the inode number.
        known: lists of known files, whose files are marked.
    """

    def mark(node: Node) -> str:
        source = _source(node, known) if known is not None else ""
        return f"  [{known_text(source)}]" if source else ""

    if not is_long:
        for node in nodes:
            number = f"{node.number or '-':>8} " if numbered else ""
            yield number + _name(node, with_paths) + mark(node)
        return
    table = TableText(("inode", *_HEADINGS) if numbered else _HEADINGS, right={2, 3, 4, 5})
    for node in nodes:
        mode = _FOLDER_MODE if node.inode is None and node.kind == "directory" else None
        mode = node.inode.mode if node.inode is not None else mode
        size = "?" if node.size is None else human_size(node.size) if human else str(node.size)
        target = _target(node)
        arrow = "" if target is None else f" -> {shown(target)}"
        row = (
            node.grade or "-",
            "?" if mode is None else mode_text(mode),
            *("?" if one is None else str(one) for one in (node.uid, _gid(node))),
            "-" if node.kind == "directory" else size,
            time_text(node.mtime),
            _name(node, with_paths) + arrow + mark(node),
        )
        table.add((str(node.number or "-"), *row) if numbered else row)
    yield from table.lines()


def node_facts(node: Node) -> list[str]:
    """All facts of a node, one per line."""
    return fact_lines(iter(node_rows(node)))


def node_rows(node: Node) -> list[Fact]:
    """(label, value) of each fact of a node; None for a value that is left out."""
    inode, target = node.inode, _target(node)
    facts: list[Fact] = [
        ("Path", shown(node.path)),
        ("Identity", str(node.id)),
        *(("Former path", shown(path)) for path in node.further_paths),
        ("Inode", str(node.number) if node.number else None),
        ("Generation", None if inode is None else str(inode.generation)),
        ("Type", node.kind),
        ("Size", "unknown" if node.size is None else str(node.size)),
    ]
    if inode is not None:
        facts.append(("Mode", f"{stat.S_IMODE(inode.mode):04o} ({mode_text(inode.mode)})"))
        facts.append(("Owner", f"uid {inode.uid}, gid {inode.gid}"))
        for label, name in TIMES.items():
            time = getattr(inode, name)
            facts.append((label, "no room in this inode" if time is None else exact_time(time)))
    facts.append(("Target", None if target is None else shown(target)))
    facts.append(
        ("Deleted", None if node.deletion_time is None else exact_time(node.deletion_time))
    )
    facts.append(("Grade", node.grade))
    if node.layer_path is not None:
        facts.append(("Layer", shown(node.layer_path)))
    facts += [("Overlay", text) for text in overlay_texts(_attributes(node))]
    return facts + [("Reason", reason.text) for reason in node.reasons]


def _name(node: Node, with_path: bool) -> str:
    text = shown(node.path if with_path else node.name or b"/")
    return text + "/" * (node.kind == "directory" and not text.endswith("/"))


def _source(node: Node, known: KnownFiles) -> str:
    """The list that has the content of a node, "" for none."""
    match = known.match(*known_key(node))
    return match.source if match else ""


def _gid(node: Node) -> int | None:
    return None if node.inode is None else node.inode.gid


def _attributes(node: Node) -> Mapping[bytes, bytes]:
    """Extended attributes; none where they cannot be read."""
    try:
        return node.xattrs()
    except (AccessError, CorruptError):
        return {}


def _target(node: Node) -> bytes | None:
    """The target of a symlink; None for other nodes and for an unreadable target."""
    try:
        return node.link_target()
    except (AccessError, CorruptError):
        return None
