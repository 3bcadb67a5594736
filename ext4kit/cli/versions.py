"""`ext4kit versions`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ext4kit.cli.custody import Custody, begin, custody, keeping
from ext4kit.cli.finding import sources_option
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import Session, opened, show
from ext4kit.cli.telling import tell_line
from ext4kit.errors import RequestError
from ext4kit.output import MANIFEST, Manifest, OutputDirectory, Written, output_limit
from ext4kit.output.writing import Parts, TreeWriter
from ext4kit.reasons import Reason
from ext4kit.recovery.file_versions import FileVersion, find_versions
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.report.file_versions import (
    FileVersionRecord,
    difference_lines,
    version_lines,
    version_record,
)
from ext4kit.report.safe import shown

_EXAMPLE = """\b
Examples:
  ext4kit versions disk.img /etc/passwd
  ext4kit versions disk.img /home/anna/notes.txt --diff
  ext4kit versions disk.img /home/anna/notes.txt --diff 2 5
  ext4kit versions disk.img /home/anna/notes.txt -o notes-versions
  ext4kit cat disk.img /home/anna/notes.txt --version 2
"""


@click.command("versions", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(scan=True)
@click.argument("path")
@click.argument("pair", nargs=-1, type=click.IntRange(1), metavar="[A B]")
@click.option("--diff", is_flag=True, help="Show how each version of a text differs from the "
              "previous one; with A B, how version B differs from version A.")  # fmt: skip
@click.option("-o", "--output", "out", metavar="OUT", type=click.Path(path_type=Path),
              help="Write all versions into this new or empty folder, as NAME.1, "
              "NAME.2 ...")  # fmt: skip
@sources_option
@custody
def command(
    options: CommonOptions,
    path: str,
    pair: tuple[int, ...],
    diff: bool,
    out: Path | None,
    sources: frozenset[SearchSource],
    custody: Custody,
) -> None:
    """List the versions of the file at PATH that the evidence holds, oldest first.

    The list includes every file that had the path, and its versions under other names: the present
    file, its earlier versions, and deleted or replaced files. A new version begins when size,
    modification time, blocks or path change. Earlier versions and deleted files have a grade, as in
    `deleted`.
    """
    if len(pair) not in ((0, 2) if diff else (0,)):
        raise RequestError("give two versions, as in --diff 2 5")
    with opened(options, folder=out) as session:
        target = b"/" + os.fsencode(path).strip(b"/")
        found = versions_of(session, target, sources - {SearchSource.RUNS})
        if out is not None:
            with keeping(custody, session, out) as case:
                begin(case, session, out)
                _write(session, found, out)
                case.counts = {"files": len(found)}
        if pair:
            _compare(numbered(found, pair[0]), numbered(found, pair[1]), target)
        elif diff:
            for old, new in zip(found, found[1:], strict=False):
                _compare(old, new, target)
        else:
            show(options, map(version_record, found), version_lines(found, target))


def versions_of(
    session: Session, path: bytes, sources: frozenset[SearchSource]
) -> list[FileVersion]:
    """The versions of the file at a path, with progress on a terminal."""
    with progress(session.options.quiet, "searching") as tell:
        return find_versions(session.workspace, path, sources, tell)


def numbered(found: list[FileVersion], number: int) -> FileVersion:
    """The version with a number.

    Raises:
        RequestError: no version has the number.
    """
    if number > len(found):
        raise RequestError(f"there is no version {number}: the last one is {len(found)}")
    return found[number - 1]


def _compare(old: FileVersion, new: FileVersion, path: bytes) -> None:
    for line in difference_lines(old, new, path):
        click.echo(line)


def _write(session: Session, found: list[FileVersion], out: Path) -> None:
    """Write all versions and their manifest."""
    output = OutputDirectory(out, session.evidence_files, output_limit(session.fs.blocks))
    with output.manifest() as manifest:
        _Versions(session, output, manifest).write_all(found)
    output.report(session.fs.problems)
    if not session.options.quiet:
        tell_line(f"note: {len(found):,} versions and {MANIFEST} are in {out}")


class _Versions(TreeWriter[FileVersion]):
    """Writes versions of a file as NAME.1, NAME.2 ..."""

    def __init__(self, session: Session, output: OutputDirectory, manifest: Manifest) -> None:
        super().__init__(output, manifest)
        self._session = session

    def take(self, version: FileVersion) -> None:
        """Write a version, or its record alone."""
        name = (version.path or b"file").rpartition(b"/")[2]
        self.put(version, (b"%s.%d" % (name, version.number),), self._write)

    def _write(self, version: FileVersion, path: Parts) -> Written | None:
        content = version.content
        if content is None:
            return None
        mark = f"inode-{version.inode.number}"
        return self.output.write(path, content.chunks(), mark, size=content.size)

    def record(
        self, version: FileVersion, written: Written | None, found: list[Reason]
    ) -> FileVersionRecord:
        """The record of a version."""
        return version_record(version, written, found)

    def count(self, version: FileVersion, written: Written | None, found: list[Reason]) -> None:
        """Tell its problems."""
        for each in found:
            self._session.fs.problems.add(shown(version.path or b"file"), each.text)
        self._session.is_incomplete |= bool(written and written.lost)
