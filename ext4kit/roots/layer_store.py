"""The folder in which Docker and Podman keep layers of overlayfs: `overlay2`, `overlay`.

A layer is `ID/diff`; `ID/lower` names the layers below it by the short names in `ID/link`, which
are symlinks in `l`.
"""

from __future__ import annotations

from functools import cached_property

from ext4kit.roots.record_files import RecordFiles, safe_name

SHORT = b"l"  # folder of the short names
MOST_LAYERS = 500  # overlayfs has a limit of this size


class LayerStore:
    """The layers of a folder.

    Args:
        files: of the tree.
        folder: path of the folder.
    """

    def __init__(self, files: RecordFiles, folder: bytes) -> None:
        self._files, self.folder = files, folder

    @cached_property
    def ids(self) -> list[bytes]:
        """The names of all layers."""
        names = (name for name in self._files.names(self.folder) if name != SHORT)
        return [name for name in names if self._files.is_directory(self.path(name))]

    @cached_property
    def _by_short_name(self) -> dict[bytes, bytes]:
        found = {}
        for name in self.ids:
            short = self._files.line(b"%s/%s/link" % (self.folder, name))
            found[short.encode("utf-8", "surrogateescape")] = name
        return found

    def path(self, name: bytes) -> bytes:
        """Path of the files of a layer."""
        return b"%s/%s/diff" % (self.folder, name)

    def work(self, name: bytes) -> bytes:
        """Path of the work directory of a layer."""
        return b"%s/%s/work" % (self.folder, name)

    def has(self, name: bytes) -> bool:
        """Whether the files of a layer are there."""
        return bool(name) and self._files.is_directory(self.path(name))

    def below(self, name: bytes) -> list[bytes]:
        """The layers below a layer, from the top down; b"" for one that is not there."""
        lower = self._files.line(b"%s/%s/lower" % (self.folder, name))
        found = []
        for word in lower.split(":")[:MOST_LAYERS] if lower else ():
            short = safe_name(word.rpartition("/")[2])
            named = self._by_short_name.get(short, b"")
            found.append(named or self._linked(short))
        return found

    def _linked(self, short: bytes) -> bytes:
        """The layer to which a short name leads by its symlink; b"" for none."""
        node = self._files.node(b"%s/%s/%s" % (self.folder, SHORT, short)) if short else None
        if node is None or node.kind != "directory":
            return b""
        parts = node.path.split(b"/")
        return parts[-2] if len(parts) > 1 and parts[-1] == b"diff" else b""

    def paths(self, names: list[bytes]) -> tuple[tuple[bytes, ...], int]:
        """Paths of the layers that are there, and the number of those that are not."""
        found = tuple(self.path(name) for name in names if self.has(name))
        return found, len(names) - len(found)
