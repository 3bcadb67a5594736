"""The files of one system in all states, by their paths in it: of an image, or of a Linux root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node, View
from ext4kit.recovery import SearchSource
from ext4kit.roots import LinuxRoot, root_view
from ext4kit.roots.overlay_view import is_whiteout
from ext4kit.selection import Selection
from ext4kit.units import Progress
from ext4kit.views.deleted import DeletedView
from ext4kit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RootFile:
    """A file of a system.

    Attributes:
        node: the file.
        paths: its paths in the system, the one by which it is listed first.
    """

    node: Node
    paths: tuple[bytes, ...]


class RootFiles:
    """The files of a system.

    Args:
        workspace: of the file system.
        root: the Linux root within the image that has the system; None for that of the image.
    """

    def __init__(self, workspace: Workspace, root: LinuxRoot | None = None) -> None:
        self.workspace, self.root = workspace, root

    @property
    def name(self) -> str:
        """Name of the Linux root; "" for the system of the image."""
        return "" if self.root is None else self.root.name

    @cached_property
    def live(self) -> View:
        """The files that exist; of a container, those that it saw."""
        fs = self.workspace.fs
        return LiveView(fs) if self.root is None else root_view(fs, self.root)

    def deleted(
        self,
        selection: Selection,
        sources: frozenset[SearchSource],
        progress: Progress | None = None,
    ) -> Iterator[RootFile]:
        """The selected deleted files and earlier versions; those in all layers of a container.

        Args:
            selection: places and paths in the system.
            sources: where to search.
            progress: called with (done, total) during the search.
        """
        view = DeletedView(self.workspace, versions=True, sources=sources, progress=progress)
        if self.root is None:
            for some in view.walk(selection):
                yield from (RootFile(node, _paths(node)) for node in some.nodes)
            return
        layers = tuple(layer.rstrip(b"/") for layer in self.root.layers)
        for some in view.walk():
            for node in some.nodes:
                inside = tuple(path for each in _paths(node) for path in _below(layers, each))
                if inside and not is_whiteout(node):
                    file = RootFile(node, inside)
                    if _is_selected(file, selection):
                        yield file


def _paths(node: Node) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys((node.path, *node.further_paths)))


def _below(layers: tuple[bytes, ...], path: bytes) -> Iterator[bytes]:
    """A path as the system with some layers has it; nothing for one outside of them."""
    for layer in layers:
        if path.startswith(layer + b"/"):
            yield path.removeprefix(layer)


def _is_selected(file: RootFile, selection: Selection) -> bool:
    """Whether one of its paths is at a place or has the name that is selected."""
    places, is_folder = selection.places, file.node.kind == "directory"
    at_place = places is not None and any(places.have(path, is_folder) for path in file.paths)
    return at_place or any(path in selection.paths for path in file.paths)
