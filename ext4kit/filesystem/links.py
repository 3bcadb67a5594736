"""Paths through symlinks, as the kernel follows them below the root directory of an image."""

from __future__ import annotations

from collections.abc import Callable

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.view import Node

MOST_LINKS = 40  # as in the kernel
_MOST_NAMES = 4096
Names = tuple[bytes, ...]


def followed(names: Names, target_of: Callable[[Names], bytes | None]) -> Names | None:
    """The path to which a path leads; None for a loop of links.

    From the first name that does not exist, the path goes on as given.

    Args:
        names: the path.
        target_of: gives the target of the symlink at a path without links; None for no symlink.
    """
    done: Names = ()
    waiting, links = list(reversed(names)), 0
    while waiting:
        name = waiting.pop()
        if name in (b"", b"."):
            continue
        if name == b"..":
            done = done[:-1]
            continue
        target = target_of((*done, name))
        if target is None:
            done = (*done, name)
            continue
        links += 1
        waiting += reversed(target.split(b"/"))
        if links > MOST_LINKS or len(waiting) > _MOST_NAMES:
            return None
        done = () if target.startswith(b"/") else done
    return done


class PathLinks:
    """Follows symlinks to directories; what was looked up is kept.

    Args:
        root: the root directory.
    """

    def __init__(self, root: Node) -> None:
        self._nodes: dict[Names, Node | None] = {(): root}
        self._real: dict[Names, Names] = {}

    def real(self, names: Names) -> Names:
        """The path to which a path leads.

        From the first name that does not exist, the path goes on as given; a path with a loop of
        links stays as it is.
        """
        found = self._real.get(names)
        if found is None:
            found = self._real[names] = followed(names, self._target) or names
        return found

    def is_directory(self, names: Names) -> bool:
        """Whether a path without links is that of a directory."""
        node = self._node(names)
        return node is not None and node.kind == "directory"

    def node(self, names: Names) -> Node | None:
        """What a path leads to; None for nothing."""
        return self._node(self.real(names))

    def entry(self, names: Names) -> Node | None:
        """What is at a path of which the last name is not followed; None for nothing."""
        return self._node((*self.real(names[:-1]), *names[-1:]))

    def _target(self, names: Names) -> bytes | None:
        node = self._node(names)
        return None if node is None or node.kind != "symlink" else _target(node)

    def _node(self, names: Names) -> Node | None:
        """What is at a path without links; None for nothing."""
        if names not in self._nodes:
            above = self._node(names[:-1])
            self._nodes[names] = None if above is None else _child(above, names[-1])
        return self._nodes[names]


def _child(node: Node, name: bytes) -> Node | None:
    try:
        return node.child(name)
    except Ext4kitError:
        return None


def _target(node: Node) -> bytes | None:
    try:
        return node.link_target()
    except Ext4kitError:
        return None
