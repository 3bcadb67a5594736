"""Writing what was recovered: files under their paths, and a manifest of everything."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ext4kit.errors import OutputError
from ext4kit.output import (
    MANIFEST,
    Manifest,
    RootedOutput,
    UnwritableError,
    Written,
    apart,
    can_be_apart,
    interrupts_wait,
    output_limit,
)
from ext4kit.parsers.inode import Inode
from ext4kit.recovery.deleted import Deleted, DeletedFile, Grade, Moment
from ext4kit.recovery.sources.attributes import Attributes

_MANY = 512  # files from which on a second process is worth while
Outcome = tuple[Written | None, str]  # a file that was written, or why it could not be


@dataclass(slots=True)
class Salvage:
    """What a recovery wrote.

    Attributes:
        written: files written whole; recorded: records without a file.
        incomplete: files that could not be finished or have unreadable parts.
        bytes: bytes of the files written; grades: records by grade.
    """

    written: int = 0
    recorded: int = 0
    incomplete: int = 0
    bytes: int = 0
    grades: Counter[str] = field(default_factory=Counter)


def recover(
    deleted: Deleted,
    out: Path,
    progress: Callable[[int, int], None] | None = None,
    evidence: tuple[Path, ...] = (),
    second_process: bool = False,
) -> Salvage:
    """Write deleted files below `out`, with a manifest that has a record for each.

    Args:
        deleted: what `find_deleted` gave.
        out: a new or empty folder.
        progress: called with (done, total) as the work goes on.
        evidence: files of the evidence, which `out` must not touch.
        second_process: many files may be written by a process of their own, which reads the
            evidence through the same open files; the evidence must be able to do that.

    Raises:
        RequestError: `out` is not empty or lies in the evidence.
        OutputError: the folder takes no more; the manifest is valid up to there.
    """
    output = RootedOutput(out, evidence, output_limit(deleted.fs.blocks))
    result = Salvage()
    is_apart = second_process and len(deleted) >= _MANY and can_be_apart()
    try:
        with Manifest(out, waits=is_apart) as manifest, closing(_outcomes(deleted, output)) as made:
            outcomes = apart(made) if is_apart else made
            with closing(outcomes):
                for done, file in enumerate(deleted):
                    if progress is not None and done % 64 == 0:
                        progress(done, len(deleted))
                    with nullcontext() if is_apart else interrupts_wait():
                        written = _recover_one(file, outcomes, manifest, result)
                    if is_apart and written is not None and written.lost:
                        _read_again(file)
    except OSError as error:
        raise OutputError(f"{out / MANIFEST}: {error.strerror}; free some space") from error
    if progress is not None:
        progress(len(deleted), len(deleted))
    return result


def _outcomes(deleted: Deleted, output: RootedOutput) -> Generator[Outcome, None, None]:
    """Write the files; what came of each."""
    for file in deleted:
        try:
            yield _write(file, output), ""
        except UnwritableError as error:
            yield None, str(error)


def _read_again(file: DeletedFile) -> None:
    """Read what could not be read elsewhere, so that it is told here."""
    content = file.content()
    for _ in content.chunks() if content is not None else ():
        pass


def _recover_one(
    file: DeletedFile, outcomes: Iterator[Outcome], manifest: Manifest, result: Salvage
) -> Written | None:
    """Write one file and its record; a record is written also when the file fails."""
    written, failure, told = None, "", manifest.count
    try:
        written, failure = next(outcomes)
        manifest.append(record(file, written, failure) | {"evidence": file.evidence()})
    except (OutputError, KeyboardInterrupt) as error:
        manifest.release()
        if manifest.count == told:
            reason = f"not finished: {str(error) or 'interrupted'}"
            values = record(file, written, failure if written else reason)
            manifest.append(values | {"evidence": file.evidence()})
        raise
    result.grades[grade_of(file, written)] += 1
    if written is None:
        result.recorded += 1
        result.incomplete += bool(failure)
        return None
    result.written += 1
    result.bytes += written.size
    result.incomplete += bool(written.lost)
    return written


def _write(file: DeletedFile, output: RootedOutput) -> Written | None:
    content, inode = file.content(), file.inode
    if content is None or file.grade is Grade.OVERWRITTEN:
        return None
    if file.path is not None:
        folder, _, name = file.path.strip(b"/").rpartition(b"/")
        parts = (*_folder_parts(folder), name)
    elif file.below is not None:
        parts = (b"unnamed", *file.below.split(b"/"))
    else:
        parts = _unnamed(file)
    times = None if inode is None else (inode.atime, inode.mtime)
    try:
        return output.write(parts, content.chunks(), _mark(file), times)
    except UnwritableError:
        unnamed = _unnamed(file)
        if parts == unnamed:
            raise
        return output.write(unnamed, content.chunks(), _mark(file), times)


def _mark(file: DeletedFile) -> str:
    """What tells the file from others of its name."""
    inode = file.inode
    if inode is None:
        return f"block-{file.first_block}"
    return f"inode-{inode.number}-{inode.generation}"


@lru_cache(maxsize=16)
def _folder_parts(folder: bytes) -> tuple[bytes, ...]:
    """Where the files of a folder go; those of one come after each other."""
    return (b"files", *folder.split(b"/")) if folder else (b"files",)


def _unnamed(file: DeletedFile) -> tuple[bytes, ...]:
    """Where a file goes without a name."""
    extension = file.format.extension if file.format else ""
    folder = b"carved" if file.inode is None else b"unnamed"
    return folder, (_mark(file) + extension).encode()


def grade_of(file: DeletedFile, written: Written | None) -> Grade:
    """The grade, no more than partial where reading the content showed a loss."""
    has_lost = written is not None and bool(written.lost)
    return Grade.PARTIAL if has_lost and file.grade.is_whole else file.grade


def record(file: DeletedFile, written: Written | None, failure: str = "") -> dict[str, Any]:
    """A file's manifest record: plain JSON values, times in integer ns."""
    problems, format, attributes = list(file.problems), file.format, file.attributes()
    if attributes is not None and attributes.missing:
        problems.append(f"extended attributes: {attributes.missing}")
    if failure:
        problems.append(failure)
    for offset, length, reason in written.lost if written else ():
        problems.append(f"unreadable at {offset} for {length} bytes: {reason}")
    before, after = file.deleted_between
    return {
        "output": written.path if written else None,
        **text_and_bytes("path", file.path),
        **text_and_bytes("name", file.name),
        "path_ground": ground_of(file),
        **_of_inode(file, file.inode, written),
        "dtime": file.dtime,
        "deleted_between": [_moment(before), _moment(after)],
        "grade": grade_of(file, written).value,
        "superseded": file.superseded,
        "blocks": file.blocks,
        "blocks_reused": file.blocks_reused,
        "lost": [
            {"offset": piece.offset, "length": piece.length, "owner": piece.owner}
            for piece in file.lost
        ],
        "extents": file.extents,
        "first_block": file.first_block,
        "fragment": file.fragment,
        "mime": format.mime if format else None,
        "encoding": format.encoding or None if format else None,
        "sources": file.sources | _attribute_source(attributes),
        "xattrs": _attribute_records(attributes),
        **text_and_bytes("link_target", file.link_target),
        "device": list(device) if (device := file.device) else None,
        "problems": problems,
    }


def ground_of(file: DeletedFile | None) -> str | None:
    """What the path of a deleted file rests on, as records have it."""
    return file.path_ground.value if file and file.path_ground else None


def _of_inode(file: DeletedFile, inode: Inode | None, written: Written | None) -> dict[str, Any]:
    """What a record says of the inode, with size and hash, in the record's order."""
    return {
        "inode": inode.number if inode else None,
        "generation": inode.generation if inode else None,
        "type": file.kind,
        "size": file.size,
        "sha256": written.sha256 if written else None,
        "mode": inode.mode if inode else None,
        "uid": inode.uid if inode else None,
        "gid": inode.gid if inode else None,
        "atime": inode.atime if inode else None,
        "mtime": inode.mtime if inode else None,
        "ctime": inode.ctime if inode else None,
        "crtime": inode.crtime if inode else None,
    }


def _attribute_source(attributes: Attributes | None) -> dict[str, str]:
    return {"xattrs": attributes.source} if attributes and attributes.source else {}


def _attribute_records(attributes: Attributes | None) -> list[dict[str, Any]]:
    return [
        {**text_and_bytes("name", name), "value_base64": base64.b64encode(value).decode("ascii")}
        for name, value in (attributes.values if attributes else {}).items()
    ]


def text_and_bytes(key: str, value: bytes | None) -> dict[str, Any]:
    """`key` as text, and `key_bytes` in base64 when the bytes are not UTF-8."""
    if value is None:
        return {key: None}
    try:
        return {key: value.decode("utf-8")}
    except UnicodeDecodeError:
        exact = base64.b64encode(value).decode("ascii")
        return {key: value.decode("utf-8", "backslashreplace"), f"{key}_bytes": exact}


def _moment(moment: Moment | None) -> dict[str, int | None] | None:
    return None if moment is None else {"transaction": moment.transaction, "time": moment.time}
