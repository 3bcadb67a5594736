"""The folders of an output, held open and never reached through a link.

Another user may replace a folder by a link while a command writes. Each folder is therefore known
by its device and inode, opened from the folder above it without following links, and used by its
descriptor. Where calls take no descriptors (Windows), paths are used.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ext4kit.errors import OutputError
from ext4kit.evidence.mounts import identity_of

_CALLS = {os.open, os.mkdir, os.rmdir, os.stat, os.rename, os.symlink, os.unlink}
HAS_HANDLES = _CALLS | {os.link} <= os.supports_dir_fd
_KNOWS_LINKS = os.access in os.supports_follow_symlinks and os.access in os.supports_dir_fd
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_INSIDE = FOLDER | getattr(os, "O_NOFOLLOW", 0)
_LONGEST = 4095  # bytes of a path that programs can open (PATH_MAX)
_MOST_OPEN = 64
_REPLACED = "was replaced during the run; what was written since may be elsewhere"
Identity = tuple[int, int]


class OutputPlace(NamedTuple):
    """A name in an open folder, as calls take it.

    Attributes:
        name: the name; a path where there is no descriptor.
        folder: descriptor of the folder.
    """

    name: str
    folder: int | None = None

    def beside(self, name: str) -> OutputPlace:
        """Another name in the same folder."""
        if self.folder is not None:
            return OutputPlace(name, self.folder)
        return OutputPlace(str(Path(self.name).with_name(name)))

    def open(self, flags: int, mode: int = 0o777) -> int:
        """A new descriptor.

        Raises:
            OSError: as `os.open`.
        """
        return os.open(self.name, flags, mode, dir_fd=self.folder)

    def facts(self) -> os.stat_result:
        """What stands there; a link is not followed.

        Raises:
            OSError: as `os.stat`.
        """
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)  # noqa: PTH116

    def exists(self) -> bool:
        """Whether anything stands there, also a link that leads nowhere."""
        if _KNOWS_LINKS:
            return os.access(self.name, os.F_OK, dir_fd=self.folder, follow_symlinks=False)
        try:
            self.facts()
        except FileNotFoundError:
            return False
        return True

    def target(self) -> str | None:
        """The target of a symbolic link; None for anything else."""
        with suppress(OSError):
            return os.readlink(self.name, dir_fd=self.folder)  # noqa: PTH115
        return None


class Folders:
    """The folders below a root, by their path below it, which ends with a slash ("" is the root).

    Args:
        root: an existing folder.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._most = _LONGEST - len(os.fsencode(self._root)) - 1
        self._known: dict[str, Identity] = {"": identity_of(os.stat(root))}  # noqa: PTH116
        self._open: OrderedDict[str, int] = OrderedDict()
        self._top = os.open(root, FOLDER) if HAS_HANDLES else None
        self._last = ("", self._top)

    def __del__(self) -> None:
        """Close all descriptors."""
        for handle in (*getattr(self, "_open", {}).values(), getattr(self, "_top", None)):
            if handle is not None:
                with suppress(OSError):
                    os.close(handle)

    def place(self, path: str) -> OutputPlace:
        """Where a path below the root is.

        Raises:
            OutputError: a folder of it was replaced.
            OSError: a folder of it cannot be opened, or the path is longer than programs can open.
        """
        if len(path) > self._most >> 2 and len(os.fsencode(path)) > self._most:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        if self._top is None:
            return OutputPlace(f"{self._root}{os.sep}{path}")
        start = path.rfind("/") + 1
        above, handle = self._last
        if path[:start] != above:
            handle = self._handle(path[:start])
            self._last = path[:start], handle
        return OutputPlace(path[start:], handle)

    def make(self, path: str) -> None:
        """Create a folder at a path without a slash at its end.

        Raises:
            OutputError: as for `place`.
            OSError: it exists or cannot be created.
        """
        place = self.place(path)
        os.mkdir(place.name, dir_fd=place.folder)
        self._known[f"{path}/"] = identity_of(place.facts())

    def take(self, path: str) -> None:
        """Use an existing folder from now on; arguments and errors as for `make`."""
        self._known[f"{path}/"] = identity_of(self.place(path).facts())

    def forget(self, path: str) -> None:
        """A folder was removed."""
        self._known.pop(f"{path}/", None)
        self._last = ("", self._top)
        if (handle := self._open.pop(f"{path}/", None)) is not None:
            os.close(handle)

    def check(self) -> None:
        """Check that every folder is where it was created.

        Raises:
            OutputError: another one stands in the place of one.
        """
        for path, known in self._known.items():
            try:
                facts = self.place(path[:-1]).facts() if path else os.stat(self._root)  # noqa: PTH116
            except OSError as error:
                raise _replaced(self._root, path) from error
            if identity_of(facts) != known:
                raise _replaced(self._root, path)

    def _handle(self, path: str) -> int:
        """The descriptor of a folder, opened from the nearest one above that is open."""
        if not path:
            assert self._top is not None
            return self._top
        if (handle := self._open.get(path)) is not None:
            self._open.move_to_end(path)
            return handle
        names, above = [path], path[: path.rstrip("/").rfind("/") + 1]
        while above and above not in self._open:
            names.append(above)
            above = above[: above.rstrip("/").rfind("/") + 1]
        handle = self._handle(above)
        for each in reversed(names):
            handle = self._enter(each, handle)
        return handle

    def _enter(self, path: str, above: int) -> int:
        name = path[:-1].rpartition("/")[2]
        try:
            handle = os.open(name, _INSIDE, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT) and path in self._known:
                raise _replaced(self._root, path) from error
            raise
        if self._known.get(path, mine := identity_of(os.fstat(handle))) != mine:
            os.close(handle)
            raise _replaced(self._root, path)
        self._open[path] = handle
        self._last = ("", self._top)  # which may be closed now
        if len(self._open) > _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return handle


def _replaced(root: str, path: str) -> OutputError:
    return OutputError(f"{root}{os.sep}{path.rstrip('/')}: {_REPLACED}")
