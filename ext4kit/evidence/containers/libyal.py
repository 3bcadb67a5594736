"""VMDK, VHDX and Ex01, read by libraries of the libyal project in a confined process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ext4kit.errors import AccessError
from ext4kit.evidence.containers.confined import ConfinedDisk
from ext4kit.evidence.containers.ewf import find_segments
from ext4kit.evidence.containers.libraries import AT_ONCE, OPENERS, PIECE, Disk
from ext4kit.evidence.containers.pieces import ChunkCache, ChunkedSource
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.forked import can_fork
from ext4kit.problems import Problems

if TYPE_CHECKING:
    from ext4kit.evidence.openers import OpenRequest


class LibrarySource(ChunkedSource):
    """A disk that a library reads; small reads are cached, large ones are passed through.

    Args:
        name: its name in messages.
        disk: the disk; closed with this source.
        problems: collects unreadable ranges.
    """

    def __init__(self, name: str, disk: Disk, problems: Problems) -> None:
        super().__init__(name, disk.size, PIECE, problems)
        self.sector_size = disk.sector_size
        self._disk: Disk | None = disk
        self._kept = ChunkCache()

    def close(self) -> None:
        """Close the disk."""
        if self._disk is not None:
            self._disk.close()
        self._disk = None

    def _joined(self, offset: int, length: int, first: int, last: int) -> memoryview:
        """Read the whole range at once; after a failure, read by chunks to find the lost bytes."""
        try:
            if length <= AT_ONCE:
                return memoryview(self._fetched(offset, length))
        except AccessError:
            pass
        return super()._joined(offset, length, first, last)

    def _load(self, index: int, wanted: int) -> memoryview:
        offset = index * self._piece
        return self._kept.get(index, lambda _: memoryview(self._fetched(offset, wanted)))

    def _fetched(self, offset: int, length: int) -> bytes:
        if self._disk is None:
            raise AccessError("it is closed")
        return self._disk.fetch(offset, length)


def open_container(request: OpenRequest) -> Evidence:
    """An Ex01 ("ewf2"), VMDK or VHDX, read by its library in a confined process.

    Raises:
        AccessError: the library refuses the image, or one of its files is missing.
        UnsupportedError: the library does not read a kind of extent.
    """
    path, kind = request.path, request.kind
    paths = find_segments(path) if kind == "ewf2" else (path,)
    if can_fork():
        disk: Disk = ConfinedDisk(paths, kind)
    else:
        disk = OPENERS[kind](paths)
    problems = Problems()
    source = LibrarySource(str(path), disk, problems)
    return Evidence(source, disk.files, kind, disk.facts, disk.hashes, problems)
