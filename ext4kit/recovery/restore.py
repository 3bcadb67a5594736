"""Output of recovered files below their paths, with a manifest of all files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ext4kit.errors import OutputError, write_advice
from ext4kit.fields import Record
from ext4kit.filesystem.content import Content
from ext4kit.output import (
    MANIFEST,
    Manifest,
    OutputDirectory,
    UnwritableError,
    Written,
    output_limit,
)
from ext4kit.output.earlier import Expected, holds_only
from ext4kit.output.manifest import encoded
from ext4kit.output.restoring import DEFAULT_PARTS, Attributes, RestoredPart, RestoredParts
from ext4kit.output.writing import Parts, TreeWriter
from ext4kit.reasons import READ_ERROR, Reason
from ext4kit.recovery.deleted_files import DeletedFiles
from ext4kit.recovery.manifest import (
    RecoveredFile,
    file_facts,
    file_identity,
    final_grade,
    manifest_record,
)
from ext4kit.recovery.model import DeletedFile, Grade
from ext4kit.recovery.placing import (
    OutputPath,
    PartialFiles,
    disambiguator,
    nameless_path,
    output_path,
    partial_path,
)


@dataclass(slots=True)
class RecoveryResult:
    """Counts of a recovery.

    Attributes:
        written: files written; recorded: records without a file.
        kept: those of the written ones that an earlier run wrote.
        links: symbolic and hard links made; folders: deleted directories made or completed.
        incomplete: files that failed or have unreadable parts.
        bytes: bytes of the files written; grades: records by grade.
    """

    written: int = 0
    kept: int = 0
    links: int = 0
    folders: int = 0
    recorded: int = 0
    incomplete: int = 0
    bytes: int = 0
    grades: Counter[str] = field(default_factory=Counter)


def recover(
    deleted: DeletedFiles,
    out: Path,
    progress: Callable[[int, int], None] | None = None,
    evidence: tuple[Path, ...] = (),
    parts: RestoredParts = DEFAULT_PARTS,
    partial: PartialFiles = PartialFiles.APART,
    resume: bool = False,
) -> RecoveryResult:
    """Write deleted files below `out`, with a manifest record for each.

    Args:
        deleted: result of `find_deleted`.
        out: a new or empty folder.
        progress: called with (done, total) files.
        evidence: files of the evidence; `out` must be outside them.
        parts: what to restore beside the bytes.
        partial: where to write files that are graded partial.
        resume: go on with what an earlier run with the same arguments wrote into `out`.

    Raises:
        RequestError: `out` is not empty or is in the evidence.
        OutputError: writing failed; the manifest is valid up to the last record.
    """
    output = OutputDirectory(out, evidence, output_limit(deleted.fs.blocks), parts, resume)
    result = RecoveryResult()
    try:
        with output.manifest() as manifest:
            work = _Recovery(output, manifest, result, partial)
            work.write_all(_counted(deleted, progress))
            output.report(deleted.problems)
    except OSError as error:
        raise OutputError(f"{out / MANIFEST}: {error.strerror}; {write_advice(error)}") from error
    if progress is not None:
        progress(len(deleted), len(deleted))
    return result


def _counted(
    deleted: DeletedFiles, progress: Callable[[int, int], None] | None
) -> Iterator[DeletedFile]:
    for done, file in enumerate(deleted):
        if progress is not None and done % 64 == 0:
            progress(done, len(deleted))
        yield file


class _Recovery(TreeWriter[DeletedFile]):
    """Writes deleted files.

    Of several files of one path the one that was deleted last, which comes first, has this path.
    The others are below `earlier`: they were not in the tree when it was deleted.
    """

    def __init__(
        self,
        output: OutputDirectory,
        manifest: Manifest,
        result: RecoveryResult,
        partial: PartialFiles,
    ) -> None:
        super().__init__(output, manifest)
        self._result, self._partial = result, partial
        self._taken: set[OutputPath] = set()

    def take(self, file: DeletedFile) -> None:
        """Write a file, or keep it until all files are written."""
        wanted = self.output.parts
        if file.kind == "directory":
            is_made = RestoredPart.FOLDERS in wanted
            self.let_folder_wait(file, self._path_of(file), is_made)
        elif (
            file.kind == "symlink" and file.link_target is not None and RestoredPart.LINKS in wanted
        ):
            self.let_link_wait(file, self._path_of(file))
        elif is_written(file):
            self.put(file, self._path_of(file), self._write)
        else:
            self.put(file, (), lambda *_: None)

    def _path_of(self, file: DeletedFile) -> OutputPath:
        """Output path of a file, which no other file has yet."""
        path = output_path(file)
        if path in self._taken and file.inode is not None:
            path = (b"earlier", *path[1:])
        self._taken.add(path)
        return path

    def record(
        self, file: DeletedFile, written: Written | None, found: list[Reason]
    ) -> RecoveredFile:
        """The record of a file."""
        return manifest_record(file, written, found[0] if found else None)

    def count(self, file: DeletedFile, written: Written | None, found: list[Reason]) -> None:
        """Count a file."""
        result = self._result
        result.grades[final_grade(file, written)] += 1
        if written is None:
            result.recorded += 1
            result.incomplete += bool(found)
            return
        result.links += len(written.further) + (file.kind == "symlink")
        result.folders += file.kind == "directory"
        if file.kind == "file":
            result.written += 1
            result.kept += written.is_kept
            result.bytes += written.size
            result.incomplete += bool(written.lost)

    def _write(self, file: DeletedFile, path: Parts) -> Written:
        """Write a file and its further names."""
        try:
            written = self._write_at(file, path)
        except UnwritableError as error:
            nameless = nameless_path(file, path[-1])
            if path == nameless or not error.why:
                raise
            path, written = nameless, self._write_at(file, nameless)
            self.output.refusals[error.why] += 1
            written = replace(written, refusal=error.why)
        else:
            if self.output.earlier is not None and not written.is_kept:  # it may have failed twice
                other = "/".join(map(os.fsdecode, nameless_path(file, path[-1])))
                self.output.drop_unfinished(other, self._expected(file, file.content()))
        return self._with_further_names(file, path[0], written)

    def _write_at(self, file: DeletedFile, path: Parts) -> Written:
        """Write a file at a path, or where a damaged one of this path lies."""
        content, mark = file.content(), disambiguator(file)
        assert content is not None
        place, inode = self._placed(path, file.grade), _attributes(file)
        expected = self._expected(file, content)
        written = self.output.write(place, content.chunks(), mark, inode, content.size, expected)
        final = self._placed(path, final_grade(file, written))
        return written if final == place else self.output.move(written, final, mark, expected)

    def _expected(self, file: DeletedFile, content: Content | None) -> Expected | None:
        """What an earlier run may have left of a file; None without such a run."""
        if self.output.earlier is None or content is None:
            return None
        is_part = partial(holds_only, content.chunks, content.size)
        return Expected(is_part, content.size, partial(_is_record_of, file))

    def _placed(self, path: Parts, grade: Grade) -> Parts:
        """A path, or that of a damaged file instead of it."""
        return partial_path(tuple(path), self._partial) if grade is Grade.PARTIAL else path

    def _with_further_names(self, file: DeletedFile, top: bytes, written: Written) -> Written:
        """Link to a file under the other names that it had when it was deleted.

        Args:
            file: the file.
            top: the folder of the output that it would be below if it were whole.
            written: what was written.
        """
        if not file.other_paths or RestoredPart.LINKS not in self.output.parts:
            return written
        further, grade = [], final_grade(file, written)
        expected = self._expected(file, file.content())
        for path in file.other_paths:
            other = self._placed((top, *path.strip(b"/").split(b"/")), grade)
            try:
                link = self.output.make_hard_link(other, written, disambiguator(file), expected)
            except UnwritableError as error:
                written.outcome.miss(RestoredPart.LINKS, error.reason.text)
            else:
                further.append(link.path)
        if further:
            written.outcome.restored.append(RestoredPart.LINKS)
        return replace(written, further=tuple(further))

    def make_link(self, file: DeletedFile, path: Parts) -> Written:
        """Make a symbolic link and its further names."""
        target, attributes = file.link_target, _attributes(file)
        assert target is not None and attributes is not None
        place = self._placed(path, file.grade)
        written = self.output.make_link(place, target, disambiguator(file), attributes)
        return self._with_further_names(file, path[0], written)

    def complete_folder(self, file: DeletedFile, path: Parts) -> Written | None:
        """Give a folder what its inode had; None where it was neither made nor to be made."""
        attributes, is_wanted = _attributes(file), RestoredPart.FOLDERS in self.output.parts
        if attributes is None or not (is_wanted or self.output.has_folder(path)):
            return None
        made = self.output.make_folder(path)
        outcome = self.output.restore_folder(path, attributes)
        if is_wanted:
            outcome.restored.append(RestoredPart.FOLDERS)
        return Written(made, 0, None, (), outcome, refusal=self.output.refusal_of(made))


def is_written(file: DeletedFile) -> bool:
    """Whether `recover` writes a file; of others, only the record is written."""
    return file.content() is not None and file.grade is not Grade.OVERWRITTEN


def _is_record_of(file: DeletedFile, record: Record) -> bool:
    """Whether a record of an earlier run tells the same of a file, and that it could be read.

    Grade and reasons depend on how it was written.
    """
    facts: Record = {**file_identity(file), **file_facts(file, None)}
    same = {name: facts[name] for name in facts.keys() - {"grade", "problems", "reasons"}}
    is_same = json.loads(encoded(same)).items() <= record.items()
    return is_same and READ_ERROR.code not in json.dumps(record.get("reasons"))


def _attributes(file: DeletedFile) -> Attributes | None:
    """What the inode of a file had beside the bytes; None without an inode."""
    inode = file.inode
    if inode is None:
        return None

    def xattrs() -> Mapping[bytes, bytes]:
        found = file.xattrs()
        return {} if found is None else found.values

    return Attributes.of(inode, xattrs)
