"""Copies live files and trees out of an image, with a manifest of all items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict

import numpy as np

from ext4kit import fields, reasons
from ext4kit.errors import AccessError, CorruptError, OutputError, RequestError, path_text
from ext4kit.fields import LinkText, Nothing, json_name
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.filesystem.selected import selected_rows
from ext4kit.output import (
    MANIFEST,
    Manifest,
    OutputDirectory,
    UnwritableError,
    Written,
    interrupts_wait,
    output_limit,
)
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Severity
from ext4kit.reasons import Reason, coded, texts
from ext4kit.selection import Selection, is_glob

AT_ONCE = 1 << 14
ZEROS_WRITTEN = "zeros were written instead"


@dataclass(slots=True)
class ExtractionResult:
    """Result of copying.

    Attributes:
        written: number of files; recorded: number of directories, links and devices, which have a
            record and no bytes.
        incomplete: number of files that could not be written or have unreadable parts.
        bytes: total size of the files written.
    """

    written: int = 0
    recorded: int = 0
    incomplete: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ExtractItem:
    """A live file: its requested path, its path below OUT, its inode.

    Attributes:
        runs: its block map; None when it is not read yet.
        is_known: False when the state of the inode is unknown (as of a transaction).
    """

    path: bytes
    parts: list[bytes]
    inode: Inode
    runs: Runs | None = None
    is_known: bool = True


def extract(
    fs: FileSystem,
    targets: list[bytes],
    out: Path,
    evidence: tuple[Path, ...],
    progress: Callable[[int, int], None] | None = None,
    selection: Selection | None = None,
) -> ExtractionResult:
    """Copy targets below `out/files` (by number: `out/unnamed`), with `out/manifest.jsonl`.

    Args:
        fs: the file system.
        targets: paths, globs and inode numbers; all files below a directory are copied.
        out: a new or empty folder.
        evidence: files of the evidence; `out` must be outside them.
        progress: called with (done, total) files of a target.
        selection: copy only these files.

    Raises:
        RequestError: a target does not exist, or `out` cannot be used.
        OutputError: `out` cannot be written further; the manifest is valid up to that point.
    """
    walks = _walks(fs, targets, selection or Selection())
    output = OutputDirectory(out, evidence, output_limit(fs.blocks))
    result = ExtractionResult()
    try:
        with Manifest(out) as manifest:
            for target, number, wanted in walks:
                count_before = manifest.count
                for item in _items(fs, target, number, wanted, progress):
                    with interrupts_wait():
                        if item.is_known:
                            _extract_one(fs, item, output, manifest, result)
                        else:
                            manifest.append(_unknown_record(fs, item))
                            result.incomplete += 1
                if wanted.paths and manifest.count == count_before:
                    patterns = ", ".join(map(path_text, wanted.paths))
                    fs.problems.add(patterns, "no file matches")
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
    root = fs.inode(number)
    by_number = target.startswith(b"<")
    path = target if by_number else b"/".join([b"", *filter(None, target.split(b"/"))])
    top = [b"unnamed", b"inode-%d" % number] if by_number else [b"files"]
    skip = len(path) if by_number else 0  # a target given by number has no path above it

    def parts(of: bytes) -> list[bytes]:
        return top + [part for part in of[skip:].split(b"/") if part]

    top_path = path or b"/"
    if len(selected_rows(fs, selection, [top_path], np.array([number]))):
        yield ExtractItem(top_path, parts(path), root)
    if not root.is_directory:
        return
    tree = fs.tree(number, path)
    for start in range(0, len(tree), AT_ONCE):
        paths = tree.paths_of(slice(start, start + AT_ONCE))
        numbers = tree.inode[start : start + AT_ONCE]
        rows = selected_rows(fs, selection, paths, numbers)
        numbers = numbers[rows]
        table = fs.inode_table(numbers)
        known = fs.inodes_known(numbers)
        runs = fs.block_maps(table)
        for place, row in enumerate(rows.tolist()):
            if progress is not None and place % 64 == 0:
                progress(start + row, len(tree))
            item = parts(paths[row]), table.one(place), runs[place], bool(known[place])
            yield ExtractItem(paths[row], *item)


def _extract_one(
    fs: FileSystem,
    item: ExtractItem,
    output: OutputDirectory,
    manifest: Manifest,
    result: ExtractionResult,
) -> None:
    """Write one file and its record. The record is written even if the file fails."""
    found: list[Reason] = []
    written = None
    try:
        written = _write(fs, item, output)
    except UnwritableError as error:
        found.append(error.reason)
    except CorruptError as error:
        found.append(reasons.CONTENT_UNREADABLE.filled(why=error))
    except (OutputError, KeyboardInterrupt) as error:
        manifest.release()
        reason = reasons.WRITE_INTERRUPTED.filled(why=str(error) or "interrupted")
        manifest.append(_record(fs, item, None, [reason]))
        raise
    for offset, length, why in written.lost if written else ():
        why = f"{why}; {ZEROS_WRITTEN}"
        found.append(reasons.READ_ERROR.filled(length=length, offset=offset, why=why))
    if written and (doubt := fs.content_uncertainty(item.inode)):
        found.append(doubt)
    if item.inode.is_encrypted:
        fs.problems.add(f"inode {item.inode.number}", "is encrypted: ciphertext", Severity.WARNING)
    for each in found:
        fs.problems.add(f"inode {item.inode.number}", each.text)
    manifest.append(_record(fs, item, written, found))
    result.written += written is not None
    result.recorded += written is None
    result.bytes += written.size if written else 0
    result.incomplete += bool(found)


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


def _write(fs: FileSystem, item: ExtractItem, output: OutputDirectory) -> Written | None:
    """Write the file; None for items that are only recorded. Directories are created too."""
    inode = item.inode
    if fs.is_free(inode):
        raise UnwritableError(reasons.INODE_FREE.filled(number=inode.number))
    if inode.is_directory:
        output.make_folder(item.parts)
    if inode.kind != "file":
        return None
    mark, times = f"inode-{inode.number}", (inode.atime, inode.mtime)
    return output.write(item.parts, fs.content(inode, item.runs).chunks(), mark, times)


class ExtractedFile(fields.PathText, fields.LiveInode):
    """A record of the manifest of `extract`."""

    output: fields.Output | None
    sha256: fields.Sha256 | None
    device: fields.Device | None
    problems: fields.Reasons
    reasons: fields.CodedReasons
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
    recorded: fields.Count
    incomplete: fields.Count
    bytes: int


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
        "problems": texts(found),
        "reasons": coded(found),
        **link,
    }


def extraction_record(result: ExtractionResult, out: str) -> ExtractionRecord:
    """Result of copying, as a record."""
    return {
        "record": "extraction",
        "output": out,
        "written": result.written,
        "recorded": result.recorded,
        "incomplete": result.incomplete,
        "bytes": result.bytes,
    }


def extraction_lines(result: ExtractionResult, out: str, size: str) -> list[str]:
    """Result of copying, as sentences."""
    lines = [f"{result.written:,} file{'s' * (result.written != 1)} written to {out} ({size})"]
    if result.recorded:
        lines.append(f"{result.recorded:,} folders, links and devices recorded in the manifest")
    if result.incomplete:
        lines.append(f"{result.incomplete:,} incomplete; the manifest says why")
    return lines
