"""Output of recovered files below their paths, with a manifest of all files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ext4kit.errors import OutputError
from ext4kit.output import (
    MANIFEST,
    Manifest,
    OutputDirectory,
    UnwritableError,
    Written,
    interrupts_wait,
    output_limit,
)
from ext4kit.reasons import WRITE_INTERRUPTED, Reason
from ext4kit.recovery.manifest import final_grade, manifest_record
from ext4kit.recovery.model import DeletedFile, DeletedFiles, Grade


@dataclass(slots=True)
class RecoveryResult:
    """Counts of a recovery.

    Attributes:
        written: files written; recorded: records without a file.
        incomplete: files that failed or have unreadable parts.
        bytes: bytes of the files written; grades: records by grade.
    """

    written: int = 0
    recorded: int = 0
    incomplete: int = 0
    bytes: int = 0
    grades: Counter[str] = field(default_factory=Counter)


def recover(
    deleted: DeletedFiles,
    out: Path,
    progress: Callable[[int, int], None] | None = None,
    evidence: tuple[Path, ...] = (),
) -> RecoveryResult:
    """Write deleted files below `out`, with a manifest record for each.

    Args:
        deleted: result of `find_deleted`.
        out: a new or empty folder.
        progress: called with (done, total) files.
        evidence: files of the evidence; `out` must be outside them.

    Raises:
        RequestError: `out` is not empty or is in the evidence.
        OutputError: writing failed; the manifest is valid up to the last record.
    """
    output = OutputDirectory(out, evidence, output_limit(deleted.fs.blocks))
    result = RecoveryResult()
    try:
        with Manifest(out) as manifest:
            for done, file in enumerate(deleted):
                if progress is not None and done % 64 == 0:
                    progress(done, len(deleted))
                with interrupts_wait():
                    _restore_one(file, output, manifest, result)
    except OSError as error:
        raise OutputError(f"{out / MANIFEST}: {error.strerror}; free some space") from error
    if progress is not None:
        progress(len(deleted), len(deleted))
    return result


def _restore_one(
    file: DeletedFile, output: OutputDirectory, manifest: Manifest, result: RecoveryResult
) -> None:
    """Write one file and its record, which is written even if the file fails."""
    failure: Reason | None = None
    written, count_before = None, manifest.count
    try:
        try:
            written = _write_file(file, output)
        except UnwritableError as error:
            failure = error.reason
        manifest.append(manifest_record(file, written, failure))
    except (OutputError, KeyboardInterrupt) as error:
        manifest.release()
        if manifest.count == count_before:
            reason = WRITE_INTERRUPTED.filled(why=str(error) or "interrupted")
            manifest.append(manifest_record(file, written, failure if written else reason))
        raise
    result.grades[final_grade(file, written)] += 1
    if written is None:
        result.recorded += 1
        result.incomplete += failure is not None
        return
    result.written += 1
    result.bytes += written.size
    result.incomplete += bool(written.lost)


def is_written(file: DeletedFile) -> bool:
    """Whether `recover` writes a file; of others, only the record is written."""
    return file.content() is not None and file.grade is not Grade.OVERWRITTEN


def _write_file(file: DeletedFile, output: OutputDirectory) -> Written | None:
    content, inode = file.content(), file.inode
    if content is None or not is_written(file):
        return None
    is_inferred = file.grade is Grade.CARVED and inode is not None
    if file.path is not None:
        folder, _, name = file.path.strip(b"/").rpartition(b"/")
        parts = (*_output_parts(b"inferred" if is_inferred else b"files", folder), name)
    elif file.partial_path is not None:
        parts = (b"inferred" if is_inferred else b"unnamed", *file.partial_path.split(b"/"))
    else:
        parts = _unnamed_parts(file)
    times = None if inode is None else (inode.atime, inode.mtime)
    try:
        return output.write(parts, content.chunks(), _disambiguator(file), times)
    except UnwritableError:
        unnamed = _unnamed_parts(file)
        if parts == unnamed:
            raise
        return output.write(unnamed, content.chunks(), _disambiguator(file), times)


def _disambiguator(file: DeletedFile) -> str:
    """Text that distinguishes files of equal names."""
    inode = file.inode
    if inode is None:
        return f"block-{file.first_block}"
    return f"inode-{inode.number}-{inode.generation}"


@lru_cache(maxsize=16)
def _output_parts(top: bytes, folder: bytes) -> tuple[bytes, ...]:
    """Output path of a directory's files, cached because these are consecutive."""
    return (top, *folder.split(b"/")) if folder else (top,)


def _unnamed_parts(file: DeletedFile) -> tuple[bytes, ...]:
    """Output path of a file without a name."""
    extension = file.file_type.extension if file.file_type else ""
    folder = b"carved" if file.inode is None else b"unnamed"
    return folder, (_disambiguator(file) + extension).encode()
