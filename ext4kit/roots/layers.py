"""Which Linux roots have a path of the image, in one of their layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property

from ext4kit.roots.model import LinuxRoot
from ext4kit.selection import Places, Selection, path_pattern


class LayerRoots:
    """The roots within an image, by the paths of their layers.

    Args:
        find: gives all roots; called when a path is first asked for.
    """

    def __init__(self, find: Callable[[], Iterable[LinuxRoot]]) -> None:
        self._find = find

    @cached_property
    def _by_layer(self) -> dict[bytes, list[str]]:
        found: dict[bytes, list[str]] = {}
        for root in self._find():
            for layer in root.layers if not root.is_own else ():
                found.setdefault(layer.rstrip(b"/"), []).append(root.name)
        return found

    def names(self, path: bytes) -> list[str]:
        """Names of the roots that have a path; those of the innermost layer."""
        while path := path.rpartition(b"/")[0]:
            if path in self._by_layer:
                return self._by_layer[path]
        return []


NO_ROOTS = LayerRoots(tuple)


def places_in_layers(root: LinuxRoot, selection: Selection) -> Places:
    """The places in the image that a selection has in the layers of a root.

    Args:
        root: the root.
        selection: paths and places in the root; without any, all of it.
    """
    above = b"|".join(re.escape(layer.rstrip(b"/")) for layer in root.layers)
    paths = list(map(path_pattern, selection.paths))
    places = selection.places
    given = [paths, paths]
    if places is not None:
        given = [[*paths, places.files.pattern], [*paths, places.directories.pattern]]
    patterns = (b"|".join(b"(?:%s)" % one for one in some) or b".*" for some in given)
    compiled = (re.compile(b"(?:%s)(?=/)(?:%s)" % (above, one), re.DOTALL) for one in patterns)
    return Places(*compiled)
