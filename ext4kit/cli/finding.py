"""Files that `deleted` and `recover` process: deleted files, or those of a lost file system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from ext4kit.cli.memory import use_one_arena
from ext4kit.cli.progress import progress
from ext4kit.cli.session import Session
from ext4kit.recovery import DeletedFiles, Grade, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource

_BY_WORTH = (Grade.OVERWRITTEN, Grade.CARVED, Grade.PARTIAL, Grade.CONSISTENT, Grade.INTACT)


class SourcesParam(click.ParamType[frozenset[SearchSource]]):
    """Names of sources, separated by commas."""

    name = "sources"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[SearchSource]:
        """The sources in a list of names."""
        if isinstance(value, frozenset):
            return value
        names = {one.strip() for one in str(value).split(",")}
        unknown = names - {*SearchSource, "all"}
        if unknown:
            self.fail(f"{min(unknown)!r} is none of {', '.join(SearchSource)}, all", param, ctx)
        chosen = ALL_SOURCES if "all" in names else frozenset(map(SearchSource, names))
        return chosen | {SearchSource.JOURNAL}


sources_option = click.option(
    "--sources",
    type=SourcesParam(),
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


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the search options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def deleted_files(
    session: Session, versions: bool, sources: frozenset[SearchSource], least: str
) -> DeletedFiles:
    """The deleted files of the file system, or all files of the requested lost one.

    Args:
        session: the opened file system.
        versions: whether to include earlier versions; a lost file system has none.
        sources: search sources; a lost file system is found only by its metadata.
        least: the lowest grade to include.
    """
    use_one_arena()
    if session.options.lost:
        from ext4kit.lost import LostFileSystem, find_lost_files

        assert isinstance(session.fs, LostFileSystem)
        deleted = find_lost_files(session.fs)
    else:
        with progress(session.options.quiet, "searching unallocated space") as show:
            deleted = find_deleted(session.fs, versions, sources, show)
        _hint(session)
    wanted = _BY_WORTH[_BY_WORTH.index(Grade(least)) :]
    return replace(deleted, files=[file for file in deleted if file.grade in wanted])


def _hint(session: Session) -> None:
    """Print a hint on stderr if the volume held another file system before."""
    from ext4kit.lost.quick_check import has_former_file_system

    if not session.options.quiet and has_former_file_system(
        session.fs, session.volume.facts.source
    ):
        text = "this volume held another file system before; use --lost to read it"
        click.echo(f"note: {text}", err=True)
