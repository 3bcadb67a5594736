"""The files that `deleted` and `recover` process: deleted files, or files of a lost file system."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import click
import numpy as np
from click.core import ParameterSource

from ext4kit.cli.options import packed
from ext4kit.cli.progress import progress
from ext4kit.cli.selecting import KnownOptions
from ext4kit.cli.session import Session
from ext4kit.cli.telling import tell_line
from ext4kit.cli.values import named
from ext4kit.filesystem import FileSystem
from ext4kit.recovery import DeletedFile, DeletedFiles, Grade
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import shown, unprinted
from ext4kit.selection import Selection

_BY_WORTH = (Grade.OVERWRITTEN, Grade.CARVED, Grade.PARTIAL, Grade.CONSISTENT, Grade.INTACT)


def _sources(
    context: click.Context, option: click.Parameter, value: str
) -> frozenset[SearchSource]:
    names = named(context, option, value, [*SearchSource, "all"])
    chosen = ALL_SOURCES if "all" in names else frozenset(map(SearchSource, names))
    return chosen | {SearchSource.JOURNAL}


sources_option = click.option(
    "--sources",
    callback=_sources,
    default="all",
    show_default=True,
    metavar="LIST",
    help="journal (journal and inode tables: fast), blocks (metadata in unallocated space),"
    " runs (carved content), all; separated by commas.",
)
_OPTIONS = (
    click.option("--versions", is_flag=True, help="Include earlier versions of files."),
    sources_option,
    click.option(
        "--min-grade",
        "least",
        type=click.Choice([str(grade) for grade in _BY_WORTH]),
        default=str(Grade.OVERWRITTEN),
        help="Omit files below this grade: overwritten < carved < partial < consistent < intact.",
    ),
)


@dataclass(frozen=True, slots=True)
class Search:
    """Values of the search options.

    Attributes:
        versions: whether to include earlier versions; a lost file system has none.
        sources: search sources; a lost file system is found only by its metadata.
        least: the lowest grade to include.
    """

    versions: bool
    sources: frozenset[SearchSource]
    least: str = Grade.OVERWRITTEN


search_options = packed(Search, "search", _OPTIONS)


def deleted_files(
    session: Session,
    search: Search,
    selection: Selection,
    may_be_live: bool = False,
    known: KnownOptions = KnownOptions(),  # noqa: B008
) -> DeletedFiles:
    """The selected deleted files of the file system, or files of the requested lost one.

    Reports on stderr what was not searched, each requested path or inode without a deleted file,
    and (unless `may_be_live`) how many earlier versions an existing requested file has.
    """
    sources = _sources_for(search, selection)
    existing = () if may_be_live or session.options.lost else _existing(session, selection)
    deleted = _find(session, search.versions or bool(existing), sources)
    selection = _unescaped(selection, deleted, existing)
    least = _BY_WORTH.index(Grade(search.least))
    lists = known.files(session.fs)
    selection = known.restrict(selection, lists)
    chosen, earlier = deleted.selected(selection), list[DeletedFile]()
    if existing and not search.versions:
        earlier = [file for file in chosen if file.superseded]
        chosen = replace(chosen, files=[file for file in chosen if not file.superseded])
    if len(chosen) and sources != search.sources and not session.options.lost:
        _tell_not_carved(session, chosen)
    counts = {path: sum(map(_fits(path, selection), earlier)) for path in existing}
    has_near = False
    unmatched = _unmatched(session, selection, deleted, chosen, counts)
    for text, is_enough, is_missing in () if may_be_live else unmatched:
        tell_line(f"ext4kit: {text}")
        session.is_incomplete |= is_missing
        has_near |= is_enough
    for path, count in counts.items():
        if count and any(map(_fits(path, selection), chosen)) and not session.options.quiet:
            tell_line(f"note: {shown(path)}: {_versions_text(count)}")
    if least:
        chosen = replace(chosen, files=[one for one in chosen if one.grade in _BY_WORTH[least:]])
    if not (len(chosen) or may_be_live or any(counts.values()) or has_near):
        session.answers.tell_empty(selection, deleted)
    return chosen if lists is None else chosen.marked(lists)


def tell_pathless(session: Session, found: DeletedFiles) -> None:
    """With --root, report how many files are left out because none of their paths is known."""
    count = found.unselected.pathless + found.unselected.contents
    if count and session.options.root is not None and not session.options.quiet:
        has = "file has" if count == 1 else "files have"
        tell_line(
            f"note: {count:,} further deleted {has} no known path and may be of any root; without"
            " --root they are included"
        )


def _sources_for(search: Search, selection: Selection) -> frozenset[SearchSource]:
    """The requested sources; by default without carving if it cannot add files to the selection."""
    origin = click.get_current_context().get_parameter_source("sources")
    if origin is ParameterSource.DEFAULT and selection.needs_inode:
        return search.sources - {SearchSource.RUNS}
    return search.sources


def _tell_not_carved(session: Session, chosen: DeletedFiles) -> None:
    """Report files that are not whole, as content without a name was not searched for."""
    count = sum(file.kind == "file" and not file.grade.is_whole for file in chosen)
    if count and not session.options.quiet:
        what = "file is" if count == 1 else "files are"
        text = (
            f"{count:,} of the selected {what} not whole; --sources all also searches for content"
        )
        tell_line(f"note: {text} without a name, which may be theirs")


def _find(session: Session, versions: bool, sources: frozenset[SearchSource]) -> DeletedFiles:
    """Search the sources; report if the volume held another file system before."""
    is_quiet = session.options.quiet
    with progress(is_quiet, "searching unallocated space") as show:
        found = session.workspace.deleted(versions, sources, show)
    if not (is_quiet or session.options.lost) and session.has_former:
        text = "this volume held another file system before; use --lost to read it"
        tell_line(f"note: {text}")
    return found


def _existing(session: Session, selection: Selection) -> tuple[bytes, ...]:
    """The requested paths at which a regular file exists."""
    return tuple(
        path for path in selection.paths if b"/" in path and session.kind_at(path) == "file"
    )


def _fits(path: bytes, selection: Selection) -> Callable[[DeletedFile], bool]:
    """Whether a requested path selects a file, in the root that is selected."""
    return Selection(paths=(path,), in_root=selection.in_root).matches_paths


def _unescaped(selection: Selection, found: DeletedFiles, existing: Collection[bytes]) -> Selection:
    """The selection with the names meant by paths in printed form, where a literal one is not."""

    def meant(path: bytes) -> bytes:
        other = unprinted(path)
        is_literal = other == path or path in existing or any(map(_fits(path, selection), found))
        return path if is_literal or not any(map(_fits(other, selection), found)) else other

    paths = tuple(map(meant, selection.paths))
    return selection if paths == selection.paths else replace(selection, paths=paths)


def _versions_text(count: int) -> str:
    return f"the file exists; {count:,} earlier version{'s' * (count != 1)}: add --versions"


def _unmatched(
    session: Session,
    selection: Selection,
    found: DeletedFiles,
    kept: DeletedFiles,
    existing: Mapping[bytes, int],
) -> Iterator[tuple[str, bool, bool]]:
    """A message for each requested path or inode without a file.

    With it, whether it says enough about other files, and whether nothing is known there.

    Args:
        session: the file system.
        selection: the requested conditions.
        found: all deleted files.
        kept: the selected deleted files.
        existing: number of earlier versions of each requested file that exists now.
    """
    for path in selection.paths:
        if any(map(_fits(path, selection), kept)):
            continue
        if existing.get(path):
            yield f"{shown(path)}: {_versions_text(existing[path])}", False, True
            continue
        if path in existing:
            text = "the file exists, and no earlier version of it was found"
            yield f"no such deleted file: {shown(path)}; {text}", False, True
            continue
        yield _nothing_at(session, path, selection, found)
    if selection.numbers:
        for number in set(selection.numbers) - {file.number for file in kept}:
            state = _state_of(session.fs, number)
            yield f"no such deleted file: inode {number}{state}", False, True


def _nothing_at(
    session: Session, path: bytes, selection: Selection, found: DeletedFiles
) -> tuple[str, bool, bool]:
    """The message for a path at which nothing exists and nothing is selected, as `_unmatched`."""
    fits = _fits(path, selection)
    if count := sum(not file.superseded and fits(file) for file in found):
        verb, what = ("is", "it") if count == 1 else ("are", "them")
        text = f"{count_text(count, 'deleted file')} {verb} at or below {shown(path)}"
        return f"{text}, none of {what} is selected by the other options", True, False
    name = path.rpartition(b"/")[2]
    is_in_root = selection.in_root is not None
    same = 0 if is_in_root else sum(one.path is None and one.name == name for one in found)
    text = f"no such deleted file: {shown(path)}"
    if same:
        hint = f"{same} of that name are in unknown directories: give the name without a slash"
        return f"{text}; {hint}", False, True
    if session.options.root is not None:
        text = f"no such deleted file in the root {session.options.root}: {shown(path)}"
        return text, False, True
    near = session.answers.nearest(path, prefers_deleted=True)
    return text + session.answers.near_text(near), bool(near), True


def _state_of(fs: FileSystem, number: int) -> str:
    """The present state of an inode number, as the end of a message."""
    last = fs.superblock.inodes_count
    if number > last:
        return f"; this file system has inodes 1 to {last:,}"
    used = fs.bitmaps.inodes_in_use(np.array([number]))[0]
    return f"; it is in use: `stat IMAGE '<{number}>'` shows it" if used else "; it is free"
