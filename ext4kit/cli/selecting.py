"""Options that select files, the same for all commands that list or write files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ext4kit.cli.options import Decorator, packed
from ext4kit.cli.values import TIME_HELP, TypedTime, moment, named, size_limits
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.fields import FileType
from ext4kit.filetypes.categories import Category, has_type
from ext4kit.problems import Severity
from ext4kit.recovery import Grade
from ext4kit.selection import Limits, Places, Selection

if TYPE_CHECKING:
    from ext4kit.artifacts.definitions import Catalogue
    from ext4kit.artifacts.globs import Glob
    from ext4kit.cli.session import Session
    from ext4kit.filesystem import FileSystem
    from ext4kit.known.files import KnownFiles
    from ext4kit.known.lists import KnownList

_TYPES: dict[str, tuple[FileType, ...]] = {
    "file": ("file",),
    "dir": ("directory",),
    "link": ("symlink",),
    "special": ("chardev", "blockdev", "fifo", "socket"),
}

_CATEGORIES = [str(each) for each in Category]


def _paths(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[bytes, ...]:
    return tuple(map(os.fsencode, values))


def _expressions(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[re.Pattern[bytes], ...]:
    try:
        return tuple(re.compile(os.fsencode(value)) for value in values)
    except re.error as error:
        text = f"{error.pattern!r} is not a valid regular expression: {error}"
        raise click.BadParameter(text, context, option) from error


def _grades(context: click.Context, option: click.Parameter, value: str | None) -> frozenset[str]:
    return frozenset(named(context, option, value, list(Grade)) if value is not None else ())


def _time(name: str, text: str) -> Decorator:
    return click.option(name, callback=moment, metavar="TIME", help=text)


def catalogue_of(context: click.Context) -> Catalogue:
    """The artifact definitions, with those of the folders that the options name."""
    from ext4kit.artifacts.definitions import load_catalogue

    return load_catalogue(context.meta.get(_FOLDERS, ()))


def _note_folders(
    context: click.Context, _option: click.Parameter, values: tuple[Path, ...]
) -> None:
    context.meta[_FOLDERS] = values


def _globs(
    context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[Glob, ...]:
    """The paths of artifact definitions, which are read before anything else."""
    if not values:
        return ()
    catalogue = catalogue_of(context)
    return tuple(dict.fromkeys(glob for name in values for glob in catalogue.globs(name)))


def complete_artifact(context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """The names of artifact definitions for Linux that begin so."""
    try:
        names = [one.name for one in catalogue_of(context).linux]
    except Ext4kitError:
        return []
    return [name for name in names if name.lower().startswith(start.lower())]


_FOLDERS = "ext4kit.artifact-definitions"  # key in the context
artifact_folders_option = click.option(
    "--artifact-definitions", type=click.Path(path_type=Path), multiple=True, is_eager=True,
    expose_value=False, callback=_note_folders, metavar="FOLDER",
    help="Also read artifact definitions from the *.yaml in this folder; may be given several"
    " times.",
)  # fmt: skip
ARTIFACTS = (
    click.option("--artifact", "artifacts", multiple=True, callback=_globs, metavar="NAME",
                 shell_complete=complete_artifact,
                 help="Select the files of this ForensicArtifacts definition; may be given several"
                 " times. `ext4kit artifacts` lists them."),
    artifact_folders_option,
)  # fmt: skip
PATHS = click.argument("paths", nargs=-1, callback=_paths, metavar="[PATH]...")
INODES = click.option("--inode", "numbers", type=click.IntRange(1), multiple=True, metavar="N",
                      help="Select this inode; may be given several times.")  # fmt: skip
NAMES = click.option("--name", "expressions", multiple=True, callback=_expressions, metavar="REGEX",
                     help="Select names in which this regular expression is found.")  # fmt: skip
TYPES = click.option("--type", "types", type=click.Choice(list(_TYPES)), multiple=True,
                     help="Select a type of file.")  # fmt: skip
OWNERS = click.option("--owner", "owners", type=click.IntRange(0), multiple=True, metavar="UID",
                      help="Select files of this user id.")  # fmt: skip
FILE_OPTIONS = (
    INODES,
    NAMES,
    TYPES,
    click.option("--kind", "kinds", type=click.Choice(_CATEGORIES), multiple=True,
                 metavar="KIND", help="Select files by content: " + ", ".join(_CATEGORIES) + "."),
    click.option("--mime", "mimes", multiple=True, metavar="GLOB",
                 help="Select files by content: a MIME type, such as 'image/*'."),
    click.option("--size", callback=size_limits, metavar="RANGE",
                 help="Select sizes: 10k..5M, 1M.., ..100k, or one size in bytes."),
    OWNERS,
    _time("--modified-since", f"Select files modified at this time or later: {TIME_HELP}."),
    _time("--modified-until", "Select files modified at this time or earlier."),
    *ARTIFACTS,
)  # fmt: skip
DELETED_OPTIONS = (
    _time("--deleted-since", "Select files deleted at this time or later."),
    _time("--deleted-until", "Select files deleted at this time or earlier."),
    click.option("--grade", "grades", callback=_grades, metavar="LIST",
                 help="Select these grades, separated by commas."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Values of the options that select files."""

    paths: tuple[bytes, ...] = ()
    numbers: tuple[int, ...] = ()
    expressions: tuple[re.Pattern[bytes], ...] = ()
    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    mimes: tuple[str, ...] = ()
    size: Limits = field(default_factory=Limits)
    owners: tuple[int, ...] = ()
    modified_since: TypedTime | None = None
    modified_until: TypedTime | None = None
    deleted_since: TypedTime | None = None
    deleted_until: TypedTime | None = None
    grades: frozenset[str] = frozenset()
    artifacts: tuple[Glob, ...] = ()

    @property
    def asks_for_nameless(self) -> bool:
        """Whether files are selected by kind, MIME type, grade or inode number."""
        return bool(self.kinds or self.mimes or self.grades or self.numbers)

    def selection(self, session: Session) -> Selection:
        """The conditions of all options, for an open file system."""
        time_of = session.time_of
        deleted = time_of(self.deleted_since), time_of(self.deleted_until)
        modified = time_of(self.modified_since), time_of(self.modified_until)
        categories = frozenset(map(Category, self.kinds))
        by_content = partial(has_type, categories=categories, mimes=self.mimes)
        return Selection(
            paths=self.paths,
            places=places_of(session, self.artifacts),
            numbers=self.numbers,
            names=self.expressions,
            types=frozenset(kind for word in self.types for kind in _TYPES[word]),
            size=self.size,
            deleted=Limits(*deleted),
            modified=Limits(*modified),
            owners=self.owners,
            grades=self.grades,
            content=by_content if categories or self.mimes else None,
        )


def places_of(session: Session, globs: Sequence[Glob]) -> Places | None:
    """The places of artifact definitions in an open file system; None without any."""
    if not globs:
        return None
    from ext4kit.artifacts.places import Atlas
    from ext4kit.artifacts.root_files import RootFiles

    return Atlas(RootFiles(session.workspace, session.root), globs).places


def known_lists(
    _context: click.Context, _option: click.Parameter, values: tuple[Path, ...]
) -> tuple[KnownList, ...]:
    """Open lists of known files before anything else is read."""
    if not values:
        return ()
    from ext4kit.known.opening import open_list

    return tuple(map(open_list, values))


_LIST = click.Path(path_type=Path)
known_bad_option = click.option(
    "--known-bad", type=_LIST, multiple=True, callback=known_lists, metavar="FILE",
    help="List of hashes of bad files: each live or deleted file with one is a sign.",
)  # fmt: skip
_KNOWN = (
    click.option("--known", "lists", type=_LIST, multiple=True, callback=known_lists,
                 metavar="FILE",
                 help="Mark files whose content is in this list of hashes: text, CSV, NSRL; may be"
                 " given several times."),
    click.option("--hide-known", "hides", is_flag=True, help="Omit the files of these lists."),
    click.option("--only-known", "only", is_flag=True, help="Omit all others."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """Values of the options for known files.

    Attributes:
        lists: the lists.
        hides, only: whether their files are omitted, or are the only ones to select.
    """

    lists: tuple[KnownList, ...] = ()
    hides: bool = False
    only: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.hides and self.only:
            raise RequestError("give either --hide-known or --only-known")
        if (self.hides or self.only) and not self.lists:
            raise RequestError("--hide-known and --only-known need a list: --known FILE")

    @property
    def left_out(self) -> tuple[str, ...]:
        """What a report leaves out, in words."""
        which = "deleted files that are known" if self.hides else "deleted files that are not known"
        names = ", ".join(one.name for one in self.lists)
        return (f"{which}: {names}",) if self.hides or self.only else ()

    def files(self, fs: FileSystem) -> KnownFiles | None:
        """What compares the files of a file system with the lists; None without lists."""
        return known_files(self.lists, fs)

    @property
    def wanted(self) -> bool | None:
        """True for known files alone, False for all others, None for no condition."""
        return self.only if self.only or self.hides else None

    def restrict(self, selection: Selection, known: KnownFiles | None) -> Selection:
        """A selection with the condition of these options."""
        if known is None or self.wanted is None:
            return selection
        return replace(selection, known=known.condition(self.wanted))


def known_files(lists: tuple[KnownList, ...], fs: FileSystem) -> KnownFiles | None:
    """What compares files with lists, None without; bad lines are problems of the file system."""
    if not lists:
        return None
    from ext4kit.known.files import KnownFiles

    for one in lists:
        if one.bad:
            text = f"{one.bad:,} lines have no hash and are left out, first line {one.first_bad:,}"
            fs.problems.add(one.name, text, Severity.WARNING)
    return KnownFiles(lists, fs.blocks)


known_options = packed(KnownOptions, "known", _KNOWN)
deleted_selection = packed(SelectionOptions, "chosen", (PATHS, *FILE_OPTIONS, *DELETED_OPTIONS))
artifact_selection = packed(SelectionOptions, "chosen", ARTIFACTS)
live_selection = packed(SelectionOptions, "chosen", FILE_OPTIONS)
log_selection = packed(SelectionOptions, "chosen", (PATHS, *ARTIFACTS))
event_selection = packed(
    SelectionOptions, "chosen", (PATHS, INODES, NAMES, TYPES, OWNERS, *ARTIFACTS)
)
