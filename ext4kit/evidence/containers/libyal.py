"""VMDK, VHDX and Ex01 through the readers of the libyal project.

This module is imported, and imports a library, only when such a container is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ext4kit.errors import AccessError, UnsupportedError
from ext4kit.evidence.beside import find_beside
from ext4kit.evidence.containers.ewf import find_segments
from ext4kit.evidence.containers.pieces import ChunkCache, ChunkedSource
from ext4kit.evidence.evidence import Evidence
from ext4kit.problems import Problems

if TYPE_CHECKING:
    import pyvmdk

Result = TypeVar("Result")
_PIECE = 64 << 10
_AT_ONCE = 16 << 20
_MOST_EXTENTS = 1 << 13  # 16 TiB in files of 2 GiB
_ZERO = 7  # pyvmdk.extent_types.ZERO
_DEPTH = 32  # of chains of differencing images


class LibrarySource(ChunkedSource):
    """A disk that a library reads; small reads are cached, large ones are passed through.

    Args:
        name: its name in messages.
        handles: the library's handle, and those of its parents to be closed with it.
        size: bytes of the disk.
        problems: collects unreadable ranges.
    """

    def __init__(self, name: str, handles: list[Any], size: int, problems: Problems) -> None:
        super().__init__(name, size, _PIECE, problems)
        self.sector_size = int(getattr(handles[0], "bytes_per_sector", 0))
        self._handles = handles
        self._kept = ChunkCache()

    def close(self) -> None:
        """Close the library's handles."""
        for handle in self._handles:
            handle.close()
        self._handles = self._handles[:0]

    def _joined(self, offset: int, length: int, first: int, last: int) -> memoryview:
        """The whole range at once; after a failure chunk by chunk, to find the lost bytes."""
        try:
            if length <= _AT_ONCE:
                return memoryview(self._fetched(offset, length))
        except AccessError:
            pass
        return super()._joined(offset, length, first, last)

    def _load(self, index: int, wanted: int) -> memoryview:
        offset = index * self._piece
        return self._kept.get(index, lambda _: memoryview(self._fetched(offset, wanted)))

    def _fetched(self, offset: int, length: int) -> bytes:
        if not self._handles:
            raise AccessError("it is closed")
        try:
            data: bytes = self._handles[0].read_buffer_at_offset(length, offset)
        except OSError as error:
            raise AccessError(_plain(error)) from error
        if len(data) < length:
            raise AccessError(f"the library gives {len(data):,} of {length:,} bytes")
        return data


def _plain(error: Exception) -> str:
    """The last message of a library's chain, which gives the first error, without the calls."""
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


def open_ex01(path: Path) -> Evidence:
    """An EWF 2 image (Ex01) in its segments.

    Raises:
        AccessError: the library refuses the image.
    """
    import pyewf

    paths = find_segments(path)
    handle = pyewf.handle()
    _opened(path, handle.open, [str(each) for each in paths])
    problems = Problems()
    size = int(_opened(path, handle.get_media_size))
    stored = _opened(path, handle.get_hash_values).items()
    case = _opened(path, handle.get_header_values).items()
    hashes = {name.lower(): value for name, value in stored}
    facts = {name.replace("_", " "): value for name, value in case}
    source = LibrarySource(str(path), [handle], size, problems)
    return Evidence(source, paths, "ewf2", facts, hashes, problems)


def open_vhdx(path: Path) -> Evidence:
    """A VHDX, with its parents if it is a differencing disk.

    Raises:
        AccessError: the library refuses the image, or a parent is missing.
    """
    import pyvhdi

    return _with_parents(path, "vhdx", pyvhdi.file, lambda _path, _handle: [])


def open_vmdk(path: Path) -> Evidence:
    """A VMDK: sparse in one file or split, flat, stream-optimised; with its parents.

    Raises:
        AccessError: the library refuses the image, or an extent or a parent is missing.
        UnsupportedError: the library does not read a kind of extent.
    """
    import pyvmdk

    return _with_parents(path, "vmdk", pyvmdk.handle, _extents)


def _with_parents(
    path: Path,
    kind: str,
    make: Callable[[], Any],
    prepare: Callable[[Path, Any], list[Path]],
) -> Evidence:
    """An image and, if it holds only differences, its chain of parents.

    Args:
        path: path of the image.
        kind: name of its format.
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
    problems = Problems()
    files = tuple(dict.fromkeys((*chain, *further)))
    size = _opened(path, handles[0].get_media_size)
    source = LibrarySource(str(path), handles, int(size), problems)
    return Evidence(source, files, kind, problems=problems)


def _parent(files: list[Path], name: str) -> Path:
    """The file of the parent.

    Raises:
        AccessError: it is missing, or the chain of parents is a loop.
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
    if [each.name for each in found] == names:  # the library's own search path, and faster
        _opened(path, handle.open_extent_data_files)
    else:
        opened = [each.open("rb") for each in found]
        _opened(path, handle.open_extent_data_files_as_file_objects, opened)
    return found
