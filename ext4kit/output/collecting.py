"""Copies files of several views, live, deleted and earlier, with a manifest of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypedDict

from ext4kit import fields, reasons
from ext4kit.errors import AccessError, OutputError, path_text
from ext4kit.fields import json_name, of_root
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.view import FileState, Node
from ext4kit.grades import Grade
from ext4kit.output import (
    MANIFEST,
    Manifest,
    OutputDirectory,
    UnwritableError,
    Written,
    output_limit,
)
from ext4kit.output.restoring import (
    DEFAULT_PARTS,
    NOTHING,
    Attributes,
    RestoredFacts,
    RestoredParts,
)
from ext4kit.output.writing import Parts, TreeWriter, grade_as_written, read_errors
from ext4kit.problems import Severity
from ext4kit.reasons import Reason, coded, texts


class CollectedItem(NamedTuple):
    """A file to copy.

    Attributes:
        node: the file.
        hits: of a search in it; None without a search.
        root: name of the Linux root within the image that has it; "" for the image itself.
        inside: its path in this root; None for that of the node.
    """

    node: Node
    hits: int | None = None
    root: str = ""
    inside: bytes | None = None

    @property
    def path(self) -> bytes:
        """Its path."""
        return self.node.path if self.inside is None else self.inside

    @property
    def folder(self) -> list[bytes]:
        """Its path below the output folder."""
        root = [b"roots", self.root.encode("utf-8", "surrogateescape")] if self.root else []
        names = filter(None, self.path.split(b"/"))
        return [*root, self.node.file_state.encode(), *names]


class _RootFacts(fields.OfRoot, total=False):
    """What the record of a file of a Linux root has beside that of another one."""

    layer_path: Annotated[str, "Path in the image of the file, in its layer."]


@dataclass(slots=True)
class CollectionResult:
    """Result of copying.

    Attributes:
        written: number of files.
        recorded: number of directories, links, devices and files without bytes: a record each.
        incomplete: number of files that could not be written or have unreadable parts.
        bytes: total size of the files written.
    """

    written: int = 0
    recorded: int = 0
    incomplete: int = 0
    bytes: int = 0


class CollectedFile(fields.PathText, RestoredFacts, _RootFacts):
    """A record of the manifest of a command that copies files of several states."""

    output: fields.Output | None
    state: FileState
    inode: fields.Inode | None
    generation: fields.Generation | None
    type: fields.Kind
    sha256: fields.Sha256 | None
    size: fields.Size | None
    mode: int | None
    uid: int | None
    gid: int | None
    atime: fields.Moment | None
    mtime: fields.Moment | None
    ctime: fields.Moment | None
    crtime: fields.Moment | None
    deleted: Annotated[fields.Moment | None, "Time of the deletion."]
    grade: Annotated[Grade | None, "Of a deleted file or an earlier version."]
    hits: Annotated[int | None, "Number of hits of a search in it."]
    problems: fields.Reasons
    reasons: fields.CodedReasons


class CollectionRecord(TypedDict):
    """Files of several states that were written (`search -o`, `artifacts -o`)."""

    record: Literal["collection"]
    output: Annotated[str, "The output folder."]
    written: fields.Count
    recorded: fields.Count
    incomplete: fields.Count
    bytes: int


def collect(
    fs: FileSystem,
    items: Iterable[CollectedItem],
    out: Path,
    evidence: tuple[Path, ...],
    parts: RestoredParts = DEFAULT_PARTS,
) -> CollectionResult:
    """Copy files to `out/STATE/PATH`, with `out/manifest.jsonl`.

    Those of a Linux root within the image go to `out/roots/NAME/STATE/PATH`.

    Args:
        fs: the file system.
        items: each file once.
        out: a new or empty folder.
        evidence: files of the evidence; `out` must be outside them.
        parts: what to restore beside the bytes.

    Raises:
        RequestError: `out` cannot be used.
        OutputError: `out` cannot be written further; the manifest is valid up to that point.
    """
    output = OutputDirectory(out, evidence, output_limit(fs.blocks), parts)
    result = CollectionResult()
    try:
        with output.manifest() as manifest:
            _Collection(fs, output, manifest, result).write_all(items)
            output.report(fs.problems)
    except OSError as error:
        raise OutputError(f"{out / MANIFEST}: {error.strerror}") from error
    return result


class _Collection(TreeWriter[CollectedItem]):
    """Writes files of views."""

    def __init__(
        self, fs: FileSystem, output: OutputDirectory, manifest: Manifest, result: CollectionResult
    ) -> None:
        super().__init__(output, manifest)
        self._fs, self._result = fs, result

    def take(self, item: CollectedItem) -> None:
        """Write a file, or its record alone."""
        self.put(item, item.folder, self._write)

    def _write(self, item: CollectedItem, path: Parts) -> Written | None:
        node, inode = item.node, item.node.inode
        if node.kind != "file":
            return None
        try:
            content = node.content()
        except AccessError as error:
            raise UnwritableError(reasons.CONTENT_UNREADABLE.filled(why=error)) from error
        if content is None:
            return None
        attributes = None if inode is None else Attributes.of(inode, node.xattrs)
        mark = str(node.id).replace(":", "-")
        return self.output.write(path, content.chunks(), mark, attributes, content.size)

    def doubts(self, item: CollectedItem, written: Written | None) -> Iterable[Reason]:
        """Bytes that could not be read, and why the kernel refuses a live file."""
        yield from read_errors(written)
        if written is not None and item.node.grade is None:
            yield from item.node.reasons

    def record(
        self, item: CollectedItem, written: Written | None, found: list[Reason]
    ) -> CollectedFile:
        """The record of a file."""
        node, inode = item.node, item.node.inode
        grade = None if node.grade is None else grade_as_written(Grade(node.grade), written)
        told = [*(node.reasons if grade is not None else ()), *found]
        return {
            "output": written.path if written else None,
            **json_name(item.path),
            **_root_facts(item),
            "state": node.file_state,
            "inode": node.number,
            "generation": None if inode is None else inode.generation,
            "type": node.kind,
            "sha256": written.sha256 if written else None,
            "size": node.size,
            "mode": None if inode is None else inode.mode,
            "uid": node.uid,
            "gid": None if inode is None else inode.gid,
            "atime": None if inode is None else inode.atime,
            "mtime": node.mtime,
            "ctime": None if inode is None else inode.ctime,
            "crtime": None if inode is None else inode.crtime,
            "deleted": node.deletion_time,
            "grade": grade,
            "hits": item.hits,
            **(written.outcome.record() if written else NOTHING),
            "problems": texts(told),
            "reasons": coded(told),
        }

    def count(self, item: CollectedItem, written: Written | None, found: list[Reason]) -> None:
        """Count a file, and tell its problems."""
        result, node = self._result, item.node
        where = item.path.decode("utf-8", "backslashreplace")
        if node.inode is not None and node.inode.is_encrypted and written is not None:
            self._fs.problems.add(where, "is encrypted: ciphertext", Severity.WARNING)
        for each in found:
            self._fs.problems.add(where, each.text)
        result.incomplete += bool(found)
        if written is None:
            result.recorded += not found
            return
        result.written += 1
        result.bytes += written.size


def _root_facts(item: CollectedItem) -> _RootFacts:
    if not item.root:
        return {}
    return {**of_root(item.root), "layer_path": path_text(item.node.layer_path or item.node.path)}


def collection_record(result: CollectionResult, out: str) -> CollectionRecord:
    """Result of copying, as a record."""
    return {
        "record": "collection",
        "output": out,
        "written": result.written,
        "recorded": result.recorded,
        "incomplete": result.incomplete,
        "bytes": result.bytes,
    }


def collection_lines(result: CollectionResult, out: str) -> list[str]:
    """Result of copying, as sentences."""
    files = f"{result.written:,} file{'s' * (result.written != 1)}"
    lines = [f"{files} written to {out} ({result.bytes:,} bytes)"]
    if result.recorded:
        lines.append(f"{result.recorded:,} without bytes recorded in the manifest")
    if result.incomplete:
        lines.append(f"{result.incomplete:,} incomplete; the manifest says why")
    return lines
