"""Hashes of file contents, within limits that a hostile image cannot exceed."""

from __future__ import annotations

import hashlib

from ext4kit.fields import HashName, SomeDigests
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.output import hash_zeros, output_limit

HASHES: tuple[HashName, ...] = ("md5", "sha1", "sha256")
_KEPT = 1 << 16  # most inodes with several names whose digests are cached


class Digester:
    """Hashes contents.

    All contents together are read up to `output_limit`, including holes; further contents get no
    digests.

    Args:
        names: names of hashes in `HASHES`.
        blocks: number of blocks of the file system.
    """

    def __init__(self, names: tuple[HashName, ...], blocks: BlockReader) -> None:
        self.names = names
        self._left = output_limit(blocks)
        self._known: dict[int, SomeDigests] = {}

    def of(self, content: Content | None, number: int | None = None) -> SomeDigests:
        """The digests in hex by hash name; {} without content, or if a part of it is unreadable.

        Args:
            content: the content to hash.
            number: number of an inode that may recur under another name.
        """
        if content is None:
            return {}
        if number in self._known:
            return self._known[number]
        found = self._hashed(content)
        if number is not None and len(self._known) < _KEPT:
            self._known[number] = found
        return found

    def _hashed(self, content: Content) -> SomeDigests:
        if content.size > self._left:
            return {}
        self._left -= content.size
        states = [hashlib.new(name, usedforsecurity=False) for name in self.names]
        for chunk in content.chunks():
            if chunk.lost:
                return {}
            for state in states:
                if chunk.data is None:
                    hash_zeros(state, chunk.length)
                else:
                    state.update(chunk.data)
        found: SomeDigests = {}
        for name, state in zip(self.names, states, strict=True):
            found[name] = state.hexdigest()
        return found
