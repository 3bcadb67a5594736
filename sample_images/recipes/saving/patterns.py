"""Ways to save over a file, step by step: between two steps the file system may be synced.

Each takes the folder and the file in it, which has its old content, and the new content. The steps
are the calls that the named programs make.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path

Pattern = Callable[[Path, bytes], Iterator[None]]
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # kernel include/uapi/linux/fcntl.h, fs.h


def truncate_and_write(path: Path, new: bytes) -> Iterator[None]:
    """`> f`, `cp new f`, vim with backupcopy=yes, most editors: truncate, then write."""
    with path.open("wb") as file:
        yield
        file.write(new)


def truncate_only(path: Path, _new: bytes) -> Iterator[None]:
    """`: > f`; a program that crashed after the truncation."""
    yield
    os.truncate(path, 0)


def truncate_to_a_block(path: Path, _new: bytes) -> Iterator[None]:
    """`truncate -s`: the end of the file goes, at a border of blocks, where no byte is zeroed."""
    yield
    os.truncate(path, 4096)


def write_and_rename(path: Path, new: bytes) -> Iterator[None]:
    """`sed -i`, rsync, git, dpkg, most tools: a new file is renamed over the old one."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(new)
    yield
    temporary.rename(path)


def write_apart_and_rename(path: Path, new: bytes) -> Iterator[None]:
    """The same with the new file in another folder: Maildir, some desktops."""
    folder = path.parent / "tmp"
    folder.mkdir()
    temporary = folder / "new"
    temporary.write_bytes(new)
    yield
    temporary.rename(path)


def backup_and_write(path: Path, new: bytes) -> Iterator[None]:
    """Vim with backupcopy=no, Emacs: the old file becomes the backup, which is removed."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_bytes(new)
    yield
    backup.unlink()


def link_and_unlink(path: Path, new: bytes) -> Iterator[None]:
    """A second link to the old file, which is unlinked by one name, then by the other."""
    backup = path.with_name(f"{path.name}.old")
    os.link(path, backup)
    path.unlink()
    yield
    path.write_bytes(new)
    backup.unlink()


def remove_and_create(path: Path, new: bytes) -> Iterator[None]:
    """`rm f; create f`: mail programs, package managers, `cp --remove-destination`, `install`."""
    path.unlink()
    yield
    path.write_bytes(new)


def exchange(path: Path, new: bytes) -> Iterator[None]:
    """A new file changes places with the old one, which is removed by the other name."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(new)
    yield
    names = os.fsencode(temporary), os.fsencode(path)
    call = ctypes.CDLL(None, use_errno=True).renameat2
    if call(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")
    temporary.unlink()


def rotate(path: Path, new: bytes) -> Iterator[None]:
    """Logrotate with `create` and no older logs kept: renamed, removed, made again."""
    old = path.with_name(f"{path.name}.1")
    path.rename(old)
    yield
    path.write_bytes(new)
    old.unlink()


def copy_and_truncate(path: Path, new: bytes) -> Iterator[None]:
    """Logrotate with `copytruncate`; the copy is removed too."""
    copy = path.with_name(f"{path.name}.1")
    copy.write_bytes(path.read_bytes())
    os.truncate(path, 0)
    yield
    with path.open("ab") as file:
        file.write(new)
    copy.unlink()


def truncate_write_rename(path: Path, new: bytes) -> Iterator[None]:
    """Truncated and written, then the file gets another name."""
    with path.open("wb") as file:
        file.write(new)
    yield
    path.rename(path.with_name("elsewhere"))


def save_twice(path: Path, new: bytes) -> Iterator[None]:
    """Truncated and written, and once more."""
    path.write_bytes(new[: len(new) // 2])
    yield
    path.write_bytes(new)


PATTERNS: dict[str, Pattern] = {
    each.__name__: each
    for each in (
        truncate_and_write, truncate_only, truncate_to_a_block, write_and_rename,
        write_apart_and_rename, backup_and_write, link_and_unlink, remove_and_create, exchange,
        rotate, copy_and_truncate, truncate_write_rename, save_twice,
    )
}  # fmt: skip
