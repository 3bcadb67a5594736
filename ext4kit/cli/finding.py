"""Files that `deleted` and `recover` process: deleted files, or those of a lost file system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import click

from ext4kit.cli.memory import use_one_arena
from ext4kit.cli.progress import progress
from ext4kit.cli.session import Session, packed
from ext4kit.recovery import DeletedFiles, Grade, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource

_BY_WORTH = (Grade.OVERWRITTEN, Grade.CARVED, Grade.PARTIAL, Grade.CONSISTENT, Grade.INTACT)


def named(
    context: click.Context, option: click.Parameter, value: str, known: Iterable[str]
) -> set[str]:
    """The known names in a list with commas.

    Raises:
        click.BadParameter: another name.
    """
    names = {one.strip() for one in value.split(",")}
    if unknown := names - set(known):
        text = f"{min(unknown)!r} is none of {', '.join(known)}"
        raise click.BadParameter(text, context, option)
    return names


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


def deleted_files(session: Session, search: Search) -> DeletedFiles:
    """The deleted files of the file system, or all files of the requested lost one."""
    use_one_arena()
    if session.options.lost:
        from ext4kit.lost import LostFileSystem, find_lost_files

        assert isinstance(session.fs, LostFileSystem)
        deleted = find_lost_files(session.fs)
    else:
        with progress(session.options.quiet, "searching unallocated space") as show:
            deleted = find_deleted(session.fs, search.versions, search.sources, show)
        if not session.options.quiet and has_former(session):
            text = "this volume held another file system before; use --lost to read it"
            click.echo(f"note: {text}", err=True)
    wanted = _BY_WORTH[_BY_WORTH.index(Grade(search.least)) :]
    return replace(deleted, files=[file for file in deleted if file.grade in wanted])


def has_former(session: Session) -> bool:
    """Whether the volume held another file system before."""
    from ext4kit.lost.quick_check import has_former_file_system

    return has_former_file_system(session.fs, session.volume.facts.source)
