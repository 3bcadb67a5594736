"""Copies live files and trees out of an image, with a manifest of all items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np

from ext4kit import fields, reasons
from ext4kit.errors import AccessError, CorruptError, OutputError, RequestError, path_text
from ext4kit.fields import LinkText, Nothing, json_name
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.filesystem.inodes import ROOT
from ext4kit.filesystem.live_view import LiveNode, LiveView
from ext4kit.filesystem.selected import selected_rows
from ext4kit.filesystem.view import Node, View
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
    RestoredPart,
    RestoredParts,
)
from ext4kit.output.writing import Parts, TreeWriter, grade_as_written, read_errors
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Severity
from ext4kit.reasons import Reason, coded, texts
from ext4kit.selection import Selection, is_glob

AT_ONCE = 1 << 14


@dataclass(slots=True)
class ExtractionResult:
    """Result of copying.

    Attributes:
        written: number of files; links: number of symbolic and further hard links made.
        recorded: number of directories, devices and links not made, which have a record and no
            bytes.
        incomplete: number of files that could not be written or have unreadable parts.
        bytes: total size of the files written.
        grades: files by grade, as of an earlier moment.
    """

    written: int = 0
    links: int = 0
    recorded: int = 0
    incomplete: int = 0
    bytes: int = 0
    grades: dict[Grade, int] = field(default_factory=dict)


class ExtractItem(NamedTuple):
    """A live file: its requested path, its path below OUT, its inode.

    Attributes:
        runs: its block map; None when it is not read yet.
        is_known: False when the state of the inode is unknown (as of a transaction).
        doubt: why the kernel refuses its content.
        graded: its content as of an earlier moment.
        node: the file in a view; None in the tree of the file system.
    """

    path: bytes
    parts: list[bytes]
    inode: Inode
    runs: Runs | None = None
    is_known: bool = True
    doubt: Reason | None = None
    graded: GradedContent | None = None
    node: Node | None = None

    def content(self, fs: FileSystem) -> Content:
        """Its bytes.

        Raises:
            UnwritableError: no layer of overlayfs has them.
        """
        if self.graded is not None:
            return self.graded.content
        if self.node is None:
            return fs.content(self.inode, self.runs)
        if (content := self.node.content()) is None:
            raise UnwritableError(reasons.OVERLAY_CONTENT_MISSING.filled())
        return content

    def attributes(self, fs: FileSystem) -> Attributes:
        """What its inode has beside the bytes."""
        xattrs = partial(fs.xattrs, self.inode) if self.node is None else self.node.xattrs
        return Attributes.of(self.inode, xattrs)


def extract(
    fs: FileSystem,
    targets: list[bytes],
    out: Path,
    evidence: tuple[Path, ...],
    progress: Callable[[int, int], None] | None = None,
    selection: Selection | None = None,
    parts: RestoredParts = DEFAULT_PARTS,
    begin: Callable[[], None] = lambda: None,
    view: View | None = None,
) -> ExtractionResult:
    """Copy targets below `out/files` (by number: `out/unnamed`), with `out/manifest.jsonl`.

    If nothing is selected, `out` is not made.

    Args:
        fs: the file system.
        targets: paths, globs and inode numbers; all files below a directory are copied.
        out: a new or empty folder.
        evidence: files of the evidence; `out` must be outside them.
        progress: called with (done, total) files of a target.
        selection: copy only these files.
        parts: what to restore beside the bytes; folders are always created.
        begin: called before anything is written.
        view: the tree of the targets, of files of the file system; by default its own tree.

    Raises:
        RequestError: a target does not exist, or `out` cannot be used.
        OutputError: `out` cannot be written further; the manifest is valid up to that point.
    """
    wanted = selection or Selection()
    if view is None:
        walks = _walks(fs, targets, wanted)
        every = chain.from_iterable(_items(fs, *walk, progress) for walk in walks)
    else:
        starts = _starts(view, targets, wanted)
        every = chain.from_iterable(_view_items(fs, view, *start) for start in starts)
    if (first := next(every, None)) is None:
        return ExtractionResult()
    begin()
    output = OutputDirectory(out, evidence, output_limit(fs.blocks), parts)
    result = ExtractionResult()
    try:
        with output.manifest() as manifest:
            _Extraction(fs, output, manifest, result).write_all(chain([first], every))
            output.report(fs.problems)
    except OSError as error:
        raise OutputError(f"{out / MANIFEST}: {error.strerror}") from error
    return result


def _walks(
    fs: FileSystem, targets: list[bytes], selection: Selection
) -> list[tuple[bytes, int, Selection]]:
    """(path, inode number, selection) of each target; all globs are one walk from the root.

    Raises:
        RequestError: a target that is no glob does not exist.
    """
    walks, globs = [], []
    for target in targets:
        try:
            walks.append((target, fs.lookup(target), selection))
        except RequestError:
            if not is_glob(target):
                raise
            globs.append(target)
    if globs:
        walks.append((b"/", ROOT, replace(selection, paths=tuple(globs))))
    return walks


def _items(
    fs: FileSystem,
    target: bytes,
    number: int,
    selection: Selection,
    progress: Callable[[int, int], None] | None,
) -> Iterator[ExtractItem]:
    """The selected ones of the target itself and, if it is a directory, of all files below it."""
    root = None if number == ROOT and fs.root_is_lost else fs.inode(number)
    by_number = target.startswith(b"<")
    path = target if by_number else b"/".join([b"", *filter(None, target.split(b"/"))])
    top = [b"unnamed", b"inode-%d" % number] if by_number else [b"files"]
    skip = len(path) if by_number else 0  # a target given by number has no path above it

    def parts(of: bytes) -> list[bytes]:
        return top + [part for part in of[skip:].split(b"/") if part]

    top_path = path or b"/"
    has_any = bool(root and len(selected_rows(fs, selection, [top_path], np.array([number]))))
    if root and has_any:
        doubt, graded = fs.content_uncertainty(root), fs.graded_content(root)
        yield ExtractItem(top_path, parts(path), root, doubt=doubt, graded=graded)
    if not fs.has_entries(number):
        return
    start = LiveNode.of(fs, path, number, root)
    for some in LiveView(fs).walk(selection, start, AT_ONCE):
        doubts = fs.content_uncertainties(some.table)
        lists = some.places.tolist(), fs.inodes_known(some.table.number).tolist(), doubts
        has_any |= bool(some.paths)
        each = zip(some.paths, some.table.each(), fs.block_maps(some.table), *lists, strict=True)
        for at, (name, inode, runs, place, is_known, doubt) in enumerate(each):
            if progress is not None and at % 64 == 0:
                progress(place, some.total)
            graded = fs.graded_content(inode)
            yield ExtractItem(name, parts(name), inode, runs, is_known, doubt, graded)
    if selection.paths and not has_any:
        fs.problems.add(", ".join(map(path_text, selection.paths)), "no file matches")


def _starts(view: View, targets: list[bytes], selection: Selection) -> list[tuple[Node, Selection]]:
    """(file, selection) of each target in a view; all globs are one walk from the root.

    Raises:
        RequestError: a target that is no glob does not exist.
    """
    starts, globs = [], []
    for target in targets:
        try:
            starts.append((view.lookup(target), selection))
        except RequestError:
            if not is_glob(target):
                raise
            globs.append(target)
    if globs:
        starts.append((view.root, replace(selection, paths=tuple(globs))))
    return starts


def _view_items(
    fs: FileSystem, view: View, start: Node, selection: Selection
) -> Iterator[ExtractItem]:
    """The selected ones of a file of a view and, if it is a directory, of all files below it."""
    walk = view.walk(selection, start) if start.kind == "directory" else ()
    below = (some.nodes for some in walk)
    found = [start] if selection.selects(start) else []
    has_any = False
    for node in chain(found, chain.from_iterable(below)):
        has_any = True
        inode = node.inode or fs.inode_table(np.array([node.id.inode], np.int64)).one(0)
        parts = [b"files", *filter(None, node.path.split(b"/"))]
        numbers = node.content_inodes if node.kind == "file" else ()
        graded = fs.graded_content(fs.inode(numbers[-1])) if numbers else None
        doubt = next(iter(node.reasons), None)
        is_known = node.inode is not None
        yield ExtractItem(node.path, parts, inode, None, is_known, doubt, graded, node)
    if selection.paths and not has_any:
        fs.problems.add(", ".join(map(path_text, selection.paths)), "no file matches")


class _Extraction(TreeWriter[ExtractItem]):
    """Writes live files."""

    def __init__(
        self, fs: FileSystem, output: OutputDirectory, manifest: Manifest, result: ExtractionResult
    ) -> None:
        super().__init__(output, manifest)
        self._fs, self._result = fs, result
        self._first: dict[int, Written] = {}

    def take(self, item: ExtractItem) -> None:
        """Write an item, or keep it until all files are written."""
        if not item.is_known:
            self.manifest.append(_unknown_record(self._fs, item))
            self._result.incomplete += 1
        elif item.inode.is_directory and not self._fs.is_free(item.inode):
            self.let_folder_wait(item, item.parts, is_made=True)
        elif item.inode.kind == "symlink" and RestoredPart.LINKS in self.output.parts:
            self.let_link_wait(item, item.parts)
        else:
            self.put(item, item.parts, self._write)

    def record(
        self, item: ExtractItem, written: Written | None, found: list[Reason]
    ) -> ExtractedFile:
        """The record of an item."""
        return _record(self._fs, item, written, found)

    def doubts(self, item: ExtractItem, written: Written | None) -> Iterator[Reason]:
        """Bytes that could not be read, and why the content is not whole."""
        yield from read_errors(written)
        if item.graded is not None:
            yield from () if item.graded.grade.is_whole else item.graded.reasons
        elif written is not None and item.inode.kind == "file" and item.doubt is not None:
            yield item.doubt

    def count(self, item: ExtractItem, written: Written | None, found: list[Reason]) -> None:
        """Count an item, and tell its problems."""
        problems, result = self._fs.problems, self._result
        if item.inode.is_encrypted or found:
            where = item.path.decode("utf-8", "backslashreplace")
            if item.inode.is_encrypted:
                problems.add(where, "is encrypted: ciphertext", Severity.WARNING)
            for each in found:
                problems.add(where, each.text)
        has_content = written is not None and item.inode.kind == "file"
        is_link = written is not None and (written.hard_link is not None or not has_content)
        is_link &= not item.inode.is_directory
        result.links += is_link
        result.written += has_content and not is_link
        result.recorded += not is_link and not has_content and item.graded is None
        if item.graded is not None and not is_link:
            grade = grade_as_written(item.graded.grade, written)
            result.grades[grade] = result.grades.get(grade, 0) + 1
        result.bytes += written.size if written and has_content and not is_link else 0
        result.incomplete += bool(found)

    def _write(self, item: ExtractItem, parts: Parts) -> Written | None:
        """Write a file, or link to it what has its inode; None for items that are only recorded."""
        inode, mark = item.inode, f"inode-{item.inode.number}"
        if self._fs.is_free(inode):
            raise UnwritableError(reasons.INODE_FREE.filled(number=inode.number))
        if inode.kind != "file":
            return None
        graded, why = item.graded, ""
        if graded is not None and graded.grade is Grade.OVERWRITTEN:
            return None
        if (first := self._first.get(inode.number)) is not None:
            try:
                return self.output.make_hard_link(parts, first, mark)
            except UnwritableError as error:
                why = error.reason.text
        content = item.content(self._fs)
        attributes = item.attributes(self._fs)
        written = self.output.write(parts, content.chunks(), mark, attributes, content.size)
        if why:
            written.outcome.miss(RestoredPart.LINKS, why)
        elif inode.links_count > 1 and RestoredPart.LINKS in self.output.parts:
            self._first[inode.number] = written
        return written

    def make_link(self, item: ExtractItem, parts: Parts) -> Written:
        """Make a symbolic link, or a further name of it."""
        inode, mark = item.inode, f"inode-{item.inode.number}"
        if (first := self._first.get(inode.number)) is not None:
            with suppress(UnwritableError):
                return self.output.make_hard_link(parts, first, mark)
        if inode.is_encrypted:
            raise UnwritableError(reasons.LINK_TARGET_UNREADABLE.filled(why="it is encrypted"))
        try:
            target = self._fs.link_target(inode, item.runs)
        except (AccessError, CorruptError) as error:
            raise UnwritableError(reasons.LINK_TARGET_UNREADABLE.filled(why=error)) from error
        written = self.output.make_link(parts, target, mark, item.attributes(self._fs))
        if inode.links_count > 1:
            self._first[inode.number] = written
        return written

    def complete_folder(self, item: ExtractItem, parts: Parts) -> Written:
        """Give a folder what its inode had."""
        path = self.output.make_folder(parts)
        outcome = self.output.restore_folder(parts, item.attributes(self._fs))
        return Written(path, 0, None, (), outcome, refusal=self.output.refusal_of(path))


def _unknown_record(fs: FileSystem, item: ExtractItem) -> UnknownFile:
    """The record of a file whose inode is unknown as of the requested transaction."""
    reason = reasons.AS_OF_INODE_UNKNOWN.filled(tid=fs.as_of)
    return {
        "output": None,
        **json_name(item.path),
        "inode": item.inode.number,
        "type": "unknown",
        "problems": texts([reason]),
        "reasons": coded([reason]),
    }


class _Graded(TypedDict, total=False):
    """What the record of a file as of an earlier moment has beside that of a live one."""

    grade: Annotated[Grade, "With --as-of, of files: how far the content is known."]


class _Layered(TypedDict, total=False):
    """What the record of a file of a Linux root has beside that of another one."""

    layer_path: Annotated[str, "With --root: path in the image of the file in its layer."]


class ExtractedFile(_Graded, _Layered, fields.PathText, fields.LiveInode, RestoredFacts):
    """A record of the manifest of `extract`."""

    output: fields.Output | None
    sha256: fields.Sha256 | None
    device: fields.Device | None
    problems: fields.Reasons
    reasons: fields.CodedReasons
    hard_link: Annotated[str | None, "The output of which this output is a further name."]
    link_target: NotRequired[fields.Target]
    link_target_bytes: NotRequired[fields.Exact]


class UnknownFile(fields.PathText):
    """A record of the manifest of `extract --as-of`, of a file whose state is unknown."""

    output: None
    inode: fields.Inode
    type: Literal["unknown"]
    problems: fields.Reasons
    reasons: fields.CodedReasons


class ExtractionRecord(TypedDict):
    """Result of `extract`."""

    record: Literal["extraction"]
    output: Annotated[str, "The output folder."]
    written: fields.Count
    links: Annotated[
        int, "Number of links created: symbolic links, and hard links for further names of a file."
    ]
    recorded: fields.Count
    incomplete: fields.Count
    bytes: int
    grades: NotRequired[Annotated[dict[Grade, int], "With --as-of: files by grade."]]


def _record(
    fs: FileSystem, item: ExtractItem, written: Written | None, found: list[Reason]
) -> ExtractedFile:
    """A manifest record: plain JSON values, times in integer ns."""
    inode = item.inode
    link: LinkText | Nothing = {}
    if inode.kind == "symlink":
        try:
            link = json_name(fs.link_target(inode, item.runs), "link_target")
        except (AccessError, CorruptError) as error:
            found.append(reasons.LINK_TARGET_UNREADABLE.filled(why=error))
    graded: _Graded = {}
    if item.graded is not None:
        graded = {"grade": grade_as_written(item.graded.grade, written)}
        found = [*item.graded.reasons, *found] if item.graded.grade.is_whole else found
    layered: _Layered = {}
    if item.node is not None and item.node.layer_path is not None:
        layered = {"layer_path": path_text(item.node.layer_path)}
    return {
        "output": written.path if written else None,
        **json_name(item.path),
        "inode": inode.number,
        "type": inode.kind,
        "sha256": written.sha256 if written else None,
        "generation": inode.generation,
        "size": inode.size,
        "mode": inode.mode,
        "uid": inode.uid,
        "gid": inode.gid,
        "atime": inode.atime,
        "mtime": inode.mtime,
        "ctime": inode.ctime,
        "crtime": inode.crtime,
        "device": inode.device,
        **(written.outcome.record() if written else NOTHING),
        "hard_link": written.hard_link if written else None,
        "problems": texts(found),
        "reasons": coded(found),
        **link,
        **graded,
        **layered,
    }


def extraction_record(result: ExtractionResult, out: str) -> ExtractionRecord:
    """Result of copying, as a record."""
    record: ExtractionRecord = {
        "record": "extraction",
        "output": out,
        "written": result.written,
        "links": result.links,
        "recorded": result.recorded,
        "incomplete": result.incomplete,
        "bytes": result.bytes,
    }
    if result.grades:
        record["grades"] = {grade: result.grades.get(grade, 0) for grade in Grade}
    return record


def extraction_lines(result: ExtractionResult, out: str, size: str) -> list[str]:
    """Result of copying, as sentences."""
    lines = [f"{result.written:,} file{'s' * (result.written != 1)} written to {out} ({size})"]
    if result.links:
        lines.append(f"{result.links:,} link{'s' * (result.links != 1)} made")
    if result.recorded:
        what = "folders and devices" if result.links else "folders, links and devices"
        lines.append(f"{result.recorded:,} {what} recorded in the manifest")
    if result.grades:
        counts = (f"{result.grades[one]:,} {one}" for one in Grade if one in result.grades)
        lines.append(", ".join(counts))
    if result.incomplete:
        lines.append(f"{result.incomplete:,} incomplete; the manifest says why")
    return lines
