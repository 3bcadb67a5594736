"""The files of definitions, in all states: one walk of each view for all definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ext4kit.artifacts.definitions import Catalogue, Definition
from ext4kit.artifacts.places import Atlas, PlaceIndex
from ext4kit.artifacts.root_files import RootFile, RootFiles
from ext4kit.filesystem.view import FileState, Node
from ext4kit.recovery.search_sources import JOURNAL_ONLY, WITH_INODES
from ext4kit.roots import LinuxRoot
from ext4kit.selection import Selection
from ext4kit.units import Progress
from ext4kit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """A file that definitions name.

    Attributes:
        node: the file.
        definitions: rows of the definitions.
        path: its path in its system.
        root: name of the Linux root within the image that has it; "" for the image itself.
    """

    node: Node
    definitions: tuple[int, ...]
    path: bytes
    root: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactCount:
    """How many files a definition names.

    Attributes:
        definition: the definition.
        live, deleted, earlier: files that exist, deleted files and earlier versions.
    """

    definition: Definition
    live: int
    deleted: int
    earlier: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.live + self.deleted + self.earlier


@dataclass(frozen=True, slots=True)
class ArtifactCounts:
    """The counts of definitions, and how many files they name together.

    Attributes:
        each: of each definition.
        live, deleted, earlier: files that any of them names, each once.
    """

    each: list[ArtifactCount]
    live: int
    deleted: int
    earlier: int

    @property
    def with_files(self) -> list[ArtifactCount]:
        """Those that name files."""
        return [one for one in self.each if one.total]


def artifact_files(
    workspace: Workspace,
    catalogue: Catalogue,
    definitions: Sequence[Definition],
    progress: Progress | None = None,
    root: LinuxRoot | None = None,
) -> Iterator[ArtifactFile]:
    """The files of definitions, the live ones first; a group has those of all its members.

    Args:
        workspace: of the file system.
        catalogue: has the members of groups.
        definitions: the definitions.
        progress: called with (done, total) during the search for deleted files.
        root: a Linux root within the image; by default, the image itself.
    """
    owners: dict[str, list[int]] = {}
    single: dict[str, Definition] = {}
    for row, definition in enumerate(definitions):
        for one in catalogue.members(definition):
            owners.setdefault(one.name, []).append(row)
            single[one.name] = one
    files = RootFiles(workspace, root)
    atlas = Atlas(files, [glob for one in single.values() for glob in one.globs])
    index, names = PlaceIndex(atlas, [one.globs for one in single.values()]), list(single)
    wanted = Selection(places=atlas.places)
    live = (node for batch in files.live.walk(wanted) for node in batch.nodes)
    each = (RootFile(node, (node.path, *node.further_paths)) for node in live)
    for file in chain(each, files.deleted(wanted, WITH_INODES, progress)):
        found = set[int]()
        for path in file.paths:
            found |= index.rows(path, file.node.kind == "directory")
        named = {row for place in found for row in owners[names[place]]}
        if named:
            yield ArtifactFile(file.node, tuple(sorted(named)), file.paths[0], files.name)


def files_of_roots(
    workspace: Workspace,
    catalogue: Catalogue,
    definitions: Sequence[Definition],
    roots: Sequence[LinuxRoot | None],
    progress: Progress | None = None,
) -> Iterator[tuple[LinuxRoot | None, Iterator[ArtifactFile]]]:
    """The files of definitions in each root; deleted files are searched once for all.

    Args:
        workspace: of the file system.
        catalogue: has the members of groups.
        definitions: the definitions.
        roots: the roots; None for the image itself.
        progress: called with (done, total) during the search for deleted files.
    """
    sources = (WITH_INODES, JOURNAL_ONLY) if len(roots) > 1 else ()
    held = [workspace.deleted(True, some, progress) for some in sources]
    for root in roots:
        yield root, artifact_files(workspace, catalogue, definitions, progress, root)
    held.clear()


def count_files(definitions: Sequence[Definition], files: Iterable[ArtifactFile]) -> ArtifactCounts:
    """The counts of each definition.

    Args:
        definitions: the definitions.
        files: their files (`artifact_files`).
    """
    counts: Counter[tuple[int, FileState]] = Counter()
    total: Counter[FileState] = Counter()
    for file in files:
        counts.update((row, file.node.file_state) for row in file.definitions)
        total[file.node.file_state] += 1
    each = [
        ArtifactCount(one, *(counts[row, state] for state in FileState))
        for row, one in enumerate(definitions)
    ]
    return ArtifactCounts(each, *(total[state] for state in FileState))
