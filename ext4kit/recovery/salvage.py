"""Writing what was recovered: files under their paths, and a manifest of everything."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ext4kit.errors import OutputError
from ext4kit.output import (
    MANIFEST,
    Manifest,
    RootedOutput,
    UnwritableError,
    Written,
    output_limit,
)
from ext4kit.recovery.deleted import Deleted, DeletedFile, Grade, Moment
from ext4kit.recovery.sources.attributes import Attributes


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
) -> Salvage:
    """Write deleted files below `out`, with a manifest that has a record for each.

    Args:
        deleted: what `find_deleted` gave.
        out: a new or empty folder.
        progress: called with (done, total) as the work goes on.
        evidence: files of the evidence, which `out` must not touch.

    Raises:
        RequestError: `out` is not empty or lies in the evidence.
        OutputError: the folder takes no more; the manifest is valid up to there.
    """
    output = RootedOutput(out, evidence, output_limit(deleted.fs.blocks))
    result = Salvage()
    try:
        with Manifest(out) as manifest:
            for done, file in enumerate(deleted):
                if progress is not None and done % 64 == 0:
                    progress(done, len(deleted))
                _recover_one(file, output, manifest, result)
    except OSError as error:
        raise OutputError(f"{out / MANIFEST}: {error.strerror}; free some space") from error
    if progress is not None:
        progress(len(deleted), len(deleted))
    return result


def _recover_one(
    file: DeletedFile, output: RootedOutput, manifest: Manifest, result: Salvage
) -> None:
    """Write one file and its record; a record is written also when the file fails."""
    written, failure, told = None, "", manifest.count
    try:
        try:
            written = _write(file, output)
        except UnwritableError as error:
            failure = str(error)
        manifest.append(record(file, written, failure))
    except (OutputError, KeyboardInterrupt) as error:
        manifest.release()
        if manifest.count == told:
            reason = f"not finished: {str(error) or 'interrupted'}"
            manifest.append(record(file, written, failure if written else reason))
        raise
    result.grades[str(grade_of(file, written))] += 1
    if written is None:
        result.recorded += 1
        result.incomplete += bool(failure)
        return
    result.written += 1
    result.bytes += written.size
    result.incomplete += bool(written.lost)


def _write(file: DeletedFile, output: RootedOutput) -> Written | None:
    content = file.content()
    if content is None or file.grade == "overwritten":
        return None
    mark, unnamed = _unnamed(file)
    parts = unnamed
    if file.path is not None:
        parts = [b"files", *file.path.strip(b"/").split(b"/")]
    elif file.below is not None:
        parts = [b"unnamed", *file.below.split(b"/")]
    times = None if file.inode is None else (file.inode.atime, file.inode.mtime)
    try:
        return output.write(parts, content.chunks(), mark, times)
    except UnwritableError:
        if parts is unnamed:
            raise
        return output.write(unnamed, content.chunks(), mark, times)


def _unnamed(file: DeletedFile) -> tuple[str, list[bytes]]:
    """(what tells the file from others of its name, where it goes without a name)."""
    extension = file.format.extension if file.format else ""
    if file.inode is None:
        mark = f"block-{file.first_block}"
        return mark, [b"carved", (mark + extension).encode()]
    mark = f"inode-{file.inode.number}-{file.inode.generation}"
    return mark, [b"unnamed", (mark + extension).encode()]


def grade_of(file: DeletedFile, written: Written | None) -> Grade:
    """The grade, no more than partial where reading the content showed a loss."""
    has_lost = written is not None and bool(written.lost)
    return Grade.PARTIAL if has_lost and file.grade is Grade.INTACT else file.grade


def record(file: DeletedFile, written: Written | None, failure: str = "") -> dict[str, Any]:
    """A file's manifest record: plain JSON values, times in integer ns."""
    problems, format, attributes = list(file.problems), file.format, file.attributes()
    if attributes is not None and attributes.missing:
        problems.append(f"extended attributes: {attributes.missing}")
    if failure:
        problems.append(failure)
    lost = [
        {"offset": piece.offset, "length": piece.length, "owner": piece.owner}
        for piece in file.lost
    ]
    for offset, length, reason in written.lost if written else ():
        problems.append(f"unreadable at {offset} for {length} bytes: {reason}")
    return {
        "output": written.path if written else None,
        **text_and_bytes("path", file.path),
        **text_and_bytes("name", file.name),
        "inode": file.number,
        "generation": file.generation,
        "type": file.kind,
        "size": file.size,
        "sha256": written.sha256 if written else None,
        "mode": file.mode,
        "uid": file.uid,
        "gid": file.gid,
        "atime": file.atime,
        "mtime": file.mtime,
        "ctime": file.ctime,
        "crtime": file.crtime,
        "dtime": file.dtime,
        "deleted_between": [_moment(moment) for moment in file.deleted_between],
        "grade": str(grade_of(file, written)),
        "superseded": file.superseded,
        "blocks": file.blocks,
        "blocks_reused": file.blocks_reused,
        "lost": lost,
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
