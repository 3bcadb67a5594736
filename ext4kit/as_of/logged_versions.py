"""The versions of a block or an inode in the journal; an inode can be given by its path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.as_of.file_system import AsOfFileSystem
from ext4kit.errors import RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import directory_blocks
from ext4kit.journal import BlockHistory, Log
from ext4kit.journal.epochs import epochs_of
from ext4kit.journal.versions import (
    BlockVersion,
    StructureReader,
    block_versions,
    inode_reader,
    reader_for_block,
)


@dataclass(frozen=True, slots=True)
class LoggedVersions:
    """Versions of a block or an inode, oldest first, and a function that gives a version's reader.

    Attributes:
        block: the block number; None for versions of an inode.
        inode: the inode number; None for versions of a block.
    """

    versions: Iterator[BlockVersion]
    reader_for: Callable[[bytes], StructureReader]
    block: int | None = None
    inode: int | None = None


class LoggedStructures:
    """Finds versions in the journal.

    Args:
        fs: the file system, as it is or as of a transaction; paths are looked up in that state.
        log: its journal; not used as of a transaction, because that state has its own.
    """

    def __init__(self, fs: FileSystem, log: Log) -> None:
        self._fs, self._now, self._log = fs, fs, log
        if isinstance(fs, AsOfFileSystem):
            self._now, self._log = fs.moment.present, fs.moment.log

    def of_block(self, number: int) -> LoggedVersions:
        """The versions of a block."""
        versions = block_versions(self._now, self._log, number)
        return LoggedVersions(versions, reader_for_block(self._now, number), block=number)

    def of_inode(self, target: bytes) -> LoggedVersions:
        """The versions of an inode, given by its path or as `<12>`.

        Raises:
            RequestError: the path does not exist.
        """
        now, by_number = self._now, target.startswith(b"<") and target.endswith(b">")
        number = (now if by_number else self._fs).lookup(target)
        block, offset = (int(part[0]) for part in now.inode_location(np.array([number])))
        size, reader = now.superblock.inode_size, inode_reader(now, number)
        since = epochs_of(now, BlockHistory(self._log)).first_of_layout
        every = block_versions(now, self._log, block, since)
        versions = (one.slice(offset, size) for one in every)
        return LoggedVersions(versions, lambda _: reader, inode=number)

    def blocks_of_directory(self, number: int) -> list[int]:
        """The blocks of a directory.

        Raises:
            RequestError: the inode is not a directory.
        """
        table = self._fs.inode_table(np.array([number]))
        if not table.one(0).is_directory:
            raise RequestError(f"inode {number} is not a directory; --entries requires a directory")
        blocks: list[int] = directory_blocks(self._fs, table)[1].tolist()
        return blocks
