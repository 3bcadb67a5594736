"""Names that become final only when a file is whole, and what keeps them after a power cut.

A file is written as `NAME.incomplete`. It gets its final name by one call that never replaces
anything.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

from ext4kit.output.folders import OutputPlace
from ext4kit.output.names import SHORT, cut

UNFINISHED = ".incomplete"
_RENAMES = {  # function, AT_FDCWD, its flag for "do not replace"
    "linux": ("renameat2", -100, 1),
    "darwin": ("renameatx_np", -2, 4),
}
_NOT_HERE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM}


def incomplete_names(name: str) -> Iterator[str]:
    """Names of an unfinished file; the first that is free is used. None is longer than a long name.

    Args:
        name: its final name.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > SHORT:
        name = cut(name, max(size - len(UNFINISHED) - 1, SHORT))
    return (name + UNFINISHED + "~" * more for more in count())


def begins_unfinished(name: str) -> bool:
    """Whether a system that refuses a name also refuses that of the unfinished file.

    It may refuse a dot or a blank at the end, or what is cut off from a long name.
    """
    is_long = len(name) > SHORT or not (name.isascii() or len(name.encode()) <= SHORT)
    return not is_long and name[-1] not in " ."


def rename_new(source: OutputPlace, target: OutputPlace) -> None:
    """Give a file or link another name, which nothing has.

    Raises:
        FileExistsError: something has it.
        OSError: the system refuses it.
    """
    if os.name == "nt":  # replaces nothing
        os.rename(source.name, target.name)  # noqa: PTH104
        return
    sys.audit("os.rename", source.name, target.name, source.folder, target.folder)
    if number := _rename_in_kernel(source, target):
        if number not in _NOT_HERE:
            raise OSError(number, os.strerror(number), source.name, None, target.name)
        _link_instead(source, target)


def _link_instead(source: OutputPlace, target: OutputPlace) -> None:
    """The same by a second name; where the file system has none, by a check before a rename."""
    try:
        os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder,
                follow_symlinks=False)  # fmt: skip
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name) from None
        os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)
    else:
        os.unlink(source.name, dir_fd=source.folder)  # noqa: PTH108


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _renamer() -> tuple[Callable[[int, bytes, int, bytes, int], int], int, int] | None:
    """(function, what stands for the current folder (AT_FDCWD), "do not replace"), or None."""
    name, here, flag = _RENAMES.get(sys.platform, ("", 0, 0))
    try:
        return getattr(_library(), name), here, flag
    except (AttributeError, OSError):
        return None


def _rename_in_kernel(source: OutputPlace, target: OutputPlace) -> int:
    """0, or the number of the error; ENOSYS where the system has no such call."""
    if (found := _renamer()) is None:
        return errno.ENOSYS
    call, here, flag = found
    old, new = os.fsencode(source.name), os.fsencode(target.name)
    above = here if source.folder is None else source.folder
    below = here if target.folder is None else target.folder
    return ctypes.get_errno() if call(above, old, below, new, flag) else 0


def sync_file_system(folder: Path) -> None:
    """Write all of the file system that holds a folder to the disk, where the system can do that.

    Raises:
        OSError: a write failed.
    """
    try:
        call = _library().syncfs
    except (AttributeError, OSError, TypeError):  # not on this system
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if call(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(handle)


def sync_folder(handle: int) -> None:
    """Write the names in a folder to the disk, where a folder can be synced."""
    with suppress(OSError):
        os.fsync(handle)
