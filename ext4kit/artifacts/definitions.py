"""Definitions of ForensicArtifacts: those of its package, and a laboratory's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ext4kit.artifacts.globs import Glob, Reach
from ext4kit.errors import RequestError
from ext4kit.evidence.containers.extras import extra
from ext4kit.yaml_files import read_documents

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LINUX = "Linux"
_GROUP = "ARTIFACT_GROUP"
_MOST_NEAR = 5


@dataclass(frozen=True, slots=True)
class Definition:
    """An artifact definition.

    Attributes:
        name: its name.
        doc: what its files are, in one line.
        systems: operating systems that it is for; empty for all.
        aliases: its other names.
        globs: paths of its files on Linux.
        members: names of the definitions that it groups.
        left_out: number of sources and paths that name no files of an image.
    """

    name: str
    doc: str
    systems: tuple[str, ...]
    aliases: tuple[str, ...]
    globs: tuple[Glob, ...]
    members: tuple[str, ...]
    left_out: int

    @property
    def is_for_linux(self) -> bool:
        """Whether it is for Linux, or for all systems."""
        return not self.systems or LINUX in self.systems


@dataclass(frozen=True)
class Catalogue:
    """Definitions by name.

    Attributes:
        by_name: by name in lower case.
    """

    by_name: dict[str, Definition]

    @cached_property
    def linux(self) -> list[Definition]:
        """The definitions for Linux, by name."""
        found = filter(lambda one: one.is_for_linux, self.by_name.values())
        return sorted(found, key=lambda one: one.name.lower())

    @cached_property
    def _by_alias(self) -> dict[str, Definition]:
        each = self.by_name.values()
        return {alias.lower(): one for one in each for alias in one.aliases}

    def find(self, name: str) -> Definition:
        """The definition for Linux with a name or alias; upper and lower case are the same.

        Raises:
            RequestError: there is none.
        """
        key = name.lower()
        found = self.by_name.get(key) or self._by_alias.get(key)
        if found is None:
            raise RequestError(f"no artifact definition {name!r}{self._near_text(key)}")
        if not found.is_for_linux:
            systems = " and ".join(found.systems)
            raise RequestError(f"the artifact definition {found.name} is for {systems} alone")
        return found

    def _near_text(self, key: str) -> str:
        names = {one.name.lower(): one.name for one in self.linux}
        near = get_close_matches(key, names, _MOST_NEAR, 0.5)
        near += [each for each in names if key in each and each not in near]
        listed = ", ".join(names[each] for each in near[:_MOST_NEAR])
        return (
            f"; the nearest are {listed}" if near else "; `ext4kit artifacts IMAGE --all` lists all"
        )

    def members(self, definition: Definition) -> list[Definition]:
        """A definition and all that it groups, on all levels, for Linux."""
        found = {definition.name: definition}
        waiting = [definition]
        while waiting:
            for name in waiting.pop().members:
                key = name.lower()
                one = self.by_name.get(key) or self._by_alias.get(key)
                if one is not None and one.is_for_linux and one.name not in found:
                    found[one.name] = one
                    waiting.append(one)
        return list(found.values())

    def globs(self, name: str) -> tuple[Glob, ...]:
        """The paths of a definition and of all that it groups.

        Raises:
            RequestError: there is no such definition for Linux, or it names no files.
        """
        found = self.find(name)
        globs = dict.fromkeys(glob for one in self.members(found) for glob in one.globs)
        if not globs:
            raise RequestError(f"the artifact definition {found.name} names no files of an image")
        return tuple(globs)


def load_catalogue(folders: Iterable[Path] = ()) -> Catalogue:
    """The definitions of the package, and those of YAML files in folders.

    A definition in a folder replaces one of the package that has its name.

    Raises:
        RequestError: a folder has no definitions, or a wrong one.
        UnsupportedError: the extra `artifacts` is not installed.
    """
    with extra("artifact definitions", "artifacts", "artifacts"):
        import artifacts
    by_name: dict[str, Definition] = {}
    for path in sorted(files(artifacts).joinpath("data").iterdir(), key=lambda one: one.name):
        if path.name.endswith(".yaml"):
            by_name |= {one.name.lower(): one for one in _read(path, f"artifacts/{path.name}")}
    for folder in folders:
        by_name |= _of_folder(folder)
    return Catalogue(by_name)


def _of_folder(folder: Path) -> dict[str, Definition]:
    try:
        paths = sorted(each for each in folder.iterdir() if each.suffix in (".yaml", ".yml"))
    except OSError as error:
        raise RequestError(f"{folder}: could not be read: {error.strerror}") from error
    if not paths:
        raise RequestError(f"{folder}: no definitions: there is no *.yaml in it")
    found: dict[str, Definition] = {}
    for path in paths:
        for one in _read(path, str(path)):
            if one.name.lower() in found:
                raise RequestError(f"{path}: {one.name} is defined twice in {folder}")
            found[one.name.lower()] = one
    return found


def _read(path: Traversable, shown: str) -> Iterator[Definition]:
    """The definitions of a YAML file.

    Raises:
        RequestError: it cannot be read, or has a wrong definition.
    """
    for line, document in read_documents(path, shown):
        try:
            yield _definition(document)
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestError(f"{shown}, line {line}: {error}") from error


def _definition(document: object) -> Definition:
    """A definition, checked by the package.

    Raises:
        ValueError, TypeError, AttributeError: it is wrong.
    """
    from artifacts.errors import FormatError
    from artifacts.reader import YamlArtifactsReader

    if not isinstance(document, dict):
        raise ValueError("it is no definition")
    try:
        found = YamlArtifactsReader().ReadArtifactDefinitionValues(document)
    except FormatError as error:
        raise ValueError(str(error)) from error
    systems, sources = _texts(found.supported_os), found.sources
    globs, members, left_out = list[Glob](), list[str](), 0
    for source in sources:
        if source.supported_os and LINUX not in source.supported_os:
            continue
        kind = source.type_indicator
        if kind == _GROUP:
            members += _texts(source.names)
        elif kind in set(Reach):
            some = _globs(_texts(source.paths), Reach(kind), _text(source.separator))
            globs += some
            left_out += len(source.paths) - len(some)
        else:
            left_out += 1
    doc = _text(found.description).strip().partition("\n")[0]
    aliases = tuple(_texts(found.aliases))
    return Definition(
        _text(found.name), doc, tuple(systems), aliases, tuple(globs), tuple(members), left_out
    )


def _globs(paths: list[str], reach: Reach, separator: str) -> list[Glob]:
    """The globs of the paths that files of an image can have."""
    parsed = (Glob.parse(path, reach, separator) for path in paths)
    return [glob for glob in parsed if glob is not None]


def _texts(values: object) -> list[str]:
    if not isinstance(values, list | tuple | set):
        raise ValueError(f"{values!r} is no list")
    return [_text(value) for value in values]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value
