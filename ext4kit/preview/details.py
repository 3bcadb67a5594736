"""What is known of a node, as sections of names and values.

Each function says what it costs. Errors in the evidence become rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.evidence import Volume
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.filesystem.live_view import LiveNode, LiveView
from ext4kit.filesystem.view import Node
from ext4kit.grades import Grade
from ext4kit.preview.capabilities import NAME as CAPABILITY
from ext4kit.preview.capabilities import capability_text
from ext4kit.preview.model import Section
from ext4kit.preview.nodes import state_text
from ext4kit.preview.parts import NodeContent, read_error
from ext4kit.recovery import DeletedFile
from ext4kit.report.deleted import GRADE_MEANINGS, deletion_text
from ext4kit.report.explanation import Explanation
from ext4kit.report.inode_facts import acl_entries, flag_names, inode_facts
from ext4kit.report.nodes import node_rows
from ext4kit.report.safe import printable_text, shown
from ext4kit.report.superblock_facts import Fact
from ext4kit.report.who import transaction_text
from ext4kit.views.records import own_node, record_of
from ext4kit.workspace import Workspace

MOST_RUNS = 64
_MOST_PATHS = 16
_MOST_VALUE = 200  # characters of an attribute
_MOST_NAMES = 1 << 20  # bytes of a passwd or group file
_MOST_LOST = 16  # ranges
_PROBLEM = "cannot be read"
_ABOVE = ("Path", "Identity", "Former path", "Grade", "Reason")  # labels that other sections have
Rows = Iterable[tuple[str, str]]


def details(workspace: Workspace, node: Node) -> tuple[Section, ...]:
    """Paths, inode, attributes, extents and grade of a node.

    Costs the reading of its inode, its map and its attributes, and of the passwd and group files of
    the image. The grade of a file as of a transaction costs a search of the journal for the first
    such file.

    Args:
        workspace: of the file system as it is now.
        node: of any view.
    """
    sections = (
        _section("Node", _paths(node)),
        _section("Inode", _inode(workspace, node)),
        _section("Attributes", _attributes(node)),
        _section("Extents", _extents(node)),
        _section("Grade", _grade(node)),
    )
    return tuple(section for section in sections if section.rows)


def explanation(workspace: Workspace, node: Node, volume: Volume) -> Section:
    """The sentences of `ext4kit explain` for a deleted file, numbered; no rows for other nodes.

    Costs the reading of the whole content for its hash, and of the log.

    Args:
        workspace: of the file system.
        node: of any view.
        volume: of the file system; its byte offsets count from there.
    """
    file = record_of(node)
    if file is None:
        return Section("Evidence", ())

    def sentences() -> Iterator[tuple[str, str]]:
        found = Explanation.of(workspace.fs, volume, file).sentences()
        yield from ((str(number), text) for number, text in enumerate(found, 1))

    return _section("Evidence", sentences())


def _section(title: str, rows: Rows) -> Section:
    """The rows up to an error, and the error."""
    found = list[tuple[str, str]]()
    try:
        found.extend(rows)  # keeps the rows before the error
    except (Ext4kitError, OSError) as error:
        found.append((_PROBLEM, printable_text(read_error(error))))
    return Section(title, tuple(found))


def _paths(node: Node) -> Iterator[tuple[str, str]]:
    yield "Path", shown(node.path)
    further = node.further_paths
    yield from (("Other path", shown(path)) for path in further[:_MOST_PATHS])
    if len(further) > _MOST_PATHS:
        yield "Other paths", f"{len(further) - _MOST_PATHS:,} more"
    yield "State", state_text(node)
    own = own_node(node)
    if isinstance(own, LiveNode) and own.fs.as_of is not None:
        yield "As of", f"transaction {own.fs.as_of}"
    yield "Identity", str(node.id)


def _inode(workspace: Workspace, node: Node) -> Iterator[tuple[str, str]]:
    """The fields of the inode, as `stat` prints them."""
    own, inode = own_node(node), node.inode
    if inode is None:
        yield "Inode", "none" if node.number is None else f"{node.number}: its state is not known"
        return
    facts: Iterable[Fact]
    if isinstance(own, LiveNode):
        facts = inode_facts(own.fs, inode, own.path)
    else:
        flags = f"0x{inode.flags:x} ({' '.join(flag_names(inode.flags)) or 'none'})"
        facts = [
            *node_rows(own),
            ("Links", str(inode.links_count)),
            ("Space", f"{inode.blocks} sectors of 512 bytes"),
            ("Device", "{}, {}".format(*inode.device) if inode.device else None),
            ("Flags", flags),
        ]
    for label, value in facts:
        if value is not None and label not in _ABOVE:
            yield label, value
        if label == "Owner":
            yield from _owner_names(workspace, inode.uid, inode.gid)


def _owner_names(workspace: Workspace, uid: int, gid: int) -> Iterator[tuple[str, str]]:
    """The names of owner and group in the image."""
    user = _name_of(workspace, b"/etc/passwd", uid)
    group = _name_of(workspace, b"/etc/group", gid)
    if user is not None or group is not None:
        yield "Owner names", f"{user or 'uid not listed'}, {group or 'gid not listed'}"


def _name_of(workspace: Workspace, path: bytes, number: int) -> str | None:
    """The name of an id in a passwd or group file of the image as it is now."""
    try:
        content = LiveView(workspace.fs).lookup(path).content()
        data = b"" if content is None else content.read(0, _MOST_NAMES)
    except Ext4kitError:
        return None
    for line in data.split(b"\n"):
        name, *fields = line.split(b":")
        if len(fields) > 1 and fields[1] == b"%d" % number:
            return shown(name)
    return None


def _attributes(node: Node) -> Iterator[tuple[str, str]]:
    for name, value in node.xattrs().items():
        entries = acl_entries(name, value)
        text = ", ".join(entries) if entries else None
        if name == CAPABILITY:
            text = capability_text(value)
        text = shown(value) if text is None else text
        yield shown(name), text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}..."


def _extents(node: Node) -> Iterator[tuple[str, str]]:
    """The runs of the content: where each file block is."""
    if node.kind not in ("file", "directory", "symlink") or node.inode is None is node.grade:
        return
    content = node.content()
    if content is None:
        yield "Content", "nothing is left" if node.grade == Grade.OVERWRITTEN else "none"
        return
    if content.runs is None:
        yield "Content", f"{min(len(content.inline), content.size):,} bytes in the inode"
        return
    runs = content.runs
    yield "Runs", f"{len(runs):,}"
    some = runs.take(slice(0, MOST_RUNS))
    columns = (some.logical, some.length, some.physical, some.unwritten)
    for logical, count, first, unwritten in zip(*(c.tolist() for c in columns), strict=True):
        where = f"block {first:,}" if count == 1 else f"blocks {first:,} to {first + count - 1:,}"
        at = f"{logical:,}" if count == 1 else f"{logical:,} to {logical + count - 1:,}"
        yield f"File block {at}", where + ", never written" * unwritten
    if len(runs) > MOST_RUNS:
        yield "Further runs", f"{len(runs) - MOST_RUNS:,}"
    yield from lost_rows(node)


def lost_rows(node: Node) -> Iterator[tuple[str, str]]:
    """The ranges of a file that are known to be lost, and to whom.

    Raises:
        Ext4kitError: its map cannot be read.
    """
    lost = NodeContent(node).lost_ranges
    for offset, length, why in lost[:_MOST_LOST]:
        yield f"Bytes {offset:,} to {offset + length - 1:,}", f"lost: {printable_text(why)}"
    if len(lost) > _MOST_LOST:
        yield "Further lost ranges", f"{len(lost) - _MOST_LOST:,}"


def _grade(node: Node) -> Iterator[tuple[str, str]]:
    """The grade with each of its reasons, and what the facts rest on."""
    grade, file = node.grade, record_of(node)
    if grade is not None:
        yield "Grade", f"{grade}: {GRADE_MEANINGS[Grade(grade)]}"
    elif node.id.state == LIVE and node.kind == "file":
        yield "Grade", "none: the file as it is"
    yield from (("Reason", reason.text) for reason in node.reasons)
    if file is not None:
        yield from _record_rows(file)


def _record_rows(file: DeletedFile) -> Iterator[tuple[str, str]]:
    if file.deletion is not None:
        yield "Deleted", f"{deletion_text(file)} ({file.deletion[1].value})"
    labels = ("Last shown linked", "First shown deleted")
    for label, moment in zip(labels, file.deleted_between, strict=True):
        if moment is not None:
            yield label, transaction_text(moment)
    if file.blocks:
        yield "Blocks", f"{file.blocks:,}, of these {file.blocks_reused:,} reused"
    if file.path_ground is not None:
        yield "Path known from", file.path_ground.value
    for name, source in file.sources.items():
        yield f"Source of {name}", printable_text(str(source))
    if file.known:
        yield "Known file", printable_text(file.known)


def path_in_image(node: Node) -> bytes | None:
    """The full path at which a node is or was, without what its view adds; None if unknown."""
    own, file = own_node(node), record_of(node)
    if file is not None:
        return file.path
    if isinstance(own, LiveNode) and own.fs.as_of is not None:
        below = own.path[1:].partition(b"/")[2]  # below a folder of its time, unless at its root
        for path in (own.path, b"/" + below):
            try:
                if own.fs.lookup(path) == own.id.inode:
                    return path
            except RequestError:
                continue
        return None
    return own.path
