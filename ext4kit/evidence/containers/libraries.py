"""Disks that are read by libraries of the libyal project: VMDK, VHDX and Ex01.

A library is imported only when such a container is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ext4kit.errors import AccessError, UnsupportedError
from ext4kit.evidence.beside import find_beside

if TYPE_CHECKING:
    import pyvmdk


Result = TypeVar("Result")
Files = tuple[Path, ...]
PIECE = 64 << 10
AT_ONCE = 16 << 20
_MOST_EXTENTS = 1 << 13  # 16 TiB in files of 2 GiB
_ZERO = 7  # pyvmdk.extent_types.ZERO
_DEPTH = 32  # longest chain of differencing images


class Disk(Protocol):
    """A disk in a container that a library reads, in this process or in a separate one.

    Attributes:
        size: bytes of the disk.
        sector_size: bytes per sector; 0 if not known.
        files: all files of the container, the one opened first.
        facts, hashes: case data and hashes that the container stores, as in `Evidence`.
    """

    size: int
    sector_size: int
    files: tuple[Path, ...]
    facts: dict[str, str]
    hashes: dict[str, str]

    def fetch(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes; `length` is at most `AT_ONCE`.

        Raises:
            AccessError: the library cannot read them.
        """

    def close(self) -> None:
        """Close the library's handles."""


@dataclass(slots=True)
class LibraryDisk:
    """A disk that a library reads in this process, with the handles of its parents."""

    handles: list[Any]
    size: int
    files: tuple[Path, ...]
    sector_size: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    def fetch(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes.

        Raises:
            AccessError: the library cannot read them.
        """
        try:
            data: bytes = self.handles[0].read_buffer_at_offset(length, offset)
        except OSError as error:
            raise AccessError(_plain(error)) from error
        if len(data) < length:
            raise AccessError(f"the library gives {len(data):,} of {length:,} bytes")
        return data

    def close(self) -> None:
        """Close the library's handles."""
        for handle in self.handles:
            handle.close()


def _plain(error: Exception) -> str:
    """The last message of a library's error chain, which is the cause, without function names."""
    parts = [part.strip(" .") for part in str(error).replace("\n", " ").split(". ")]
    return parts[0].split(": ", 1)[-1] + (
        f" ({parts[1].split(': ', 1)[-1]})" if len(parts) > 1 else ""
    )


def _opened(path: Path, action: Callable[..., Result], *arguments: object) -> Result:
    """Run an action of the library and convert its errors.

    Raises:
        AccessError: the library refuses the action.
    """
    try:
        return action(*arguments)
    except (OSError, ValueError, MemoryError) as error:
        raise AccessError(f"{path}: cannot be opened: {_plain(error)}") from error


def _open_ex01(paths: Files) -> LibraryDisk:
    """An EWF 2 image (Ex01), given its segments."""
    import pyewf

    path = paths[0]
    handle = pyewf.handle()
    _opened(path, handle.open, [str(each) for each in paths])
    disk = LibraryDisk([handle], int(_opened(path, handle.get_media_size)), paths)
    stored = _opened(path, handle.get_hash_values).items()
    case = _opened(path, handle.get_header_values).items()
    disk.hashes = {name.lower(): value for name, value in stored}
    disk.facts = {
        name.replace("_", " ").replace("acquiry", "acquisition"): value for name, value in case
    }  # the library's name is "acquiry"
    return disk


def _open_vhdx(paths: Files) -> LibraryDisk:
    """A VHDX, with its parents if it is a differencing disk."""
    import pyvhdi

    return _with_parents(paths[0], pyvhdi.file, lambda _path, _handle: [])


def _open_vmdk(paths: Files) -> LibraryDisk:
    """A VMDK of any kind (sparse, split, flat, stream-optimised), with its parents."""
    import pyvmdk

    return _with_parents(paths[0], pyvmdk.handle, _extents)


LIBRARIES = {"ewf2": "pyewf", "vhdx": "pyvhdi", "vmdk": "pyvmdk"}
OPENERS: dict[str, Callable[[Files], LibraryDisk]] = {
    "ewf2": _open_ex01,
    "vhdx": _open_vhdx,
    "vmdk": _open_vmdk,
}


def _with_parents(
    path: Path, make: Callable[[], Any], prepare: Callable[[Path, Any], list[Path]]
) -> LibraryDisk:
    """An image and, if it holds only differences, its chain of parents.

    Args:
        path: path of the image.
        make: returns a new handle of the library.
        prepare: opens the additional files of a handle and returns their paths.
    """
    handles: list[Any] = []
    chain, further = [path], list[Path]()
    try:
        while True:
            handle = make()
            _opened(chain[-1], handle.open, str(chain[-1]))
            further += prepare(chain[-1], handle)
            if handles:
                _opened(path, handles[-1].set_parent, handle)
            handles.append(handle)
            name = _opened(path, handle.get_parent_filename)
            if not name:
                break
            chain.append(_parent(chain, name))
    except (AccessError, UnsupportedError):
        for handle in handles:
            handle.close()
        raise
    files = tuple(dict.fromkeys((*chain, *further)))
    size = int(_opened(path, handles[0].get_media_size))
    return LibraryDisk(handles, size, files, int(getattr(handles[0], "bytes_per_sector", 0)))


def _parent(files: list[Path], name: str) -> Path:
    """The file of the parent.

    Raises:
        AccessError: the parent is missing, or the chain of parents is a loop.
    """
    found = find_beside(files[-1], name, "parent")
    if found.resolve() in {each.resolve() for each in files} or len(files) > _DEPTH:
        raise AccessError(f"{files[0]}: its chain of parents does not end")
    return found


def _extents(path: Path, handle: pyvmdk.handle) -> list[Path]:
    """The files of a VMDK's extents, opened in its handle.

    A sparse image in one file records its original name, even if the file was renamed.

    Raises:
        AccessError: an extent is missing, or there are too many.
        UnsupportedError: the library does not read a kind of extent.
    """
    extents = list(handle.extent_descriptors)
    if len(extents) > _MOST_EXTENTS:
        raise AccessError(f"{path}: has {len(extents):,} extents, more than {_MOST_EXTENTS:,}")
    if any(each.type == _ZERO for each in extents):
        text = "an extent of zeros that no file holds (ZERO); convert it to a VMDK of one file"
        raise UnsupportedError(f"{path}: VMDK with {text}")
    names = [_opened(path, each.get_filename) for each in extents]
    with path.open("rb") as file:
        is_alone = file.read(4) == b"KDMV" and len(names) == 1
    found = [path] if is_alone else [find_beside(path, name, "extent") for name in names if name]
    if [each.name for each in found] == names:  # lets the library find them itself, which is faster
        _opened(path, handle.open_extent_data_files)
    else:
        opened = [each.open("rb") for each in found]
        _opened(path, handle.open_extent_data_files_as_file_objects, opened)
    return found
