"""The results of one pass over the log as columns: blocks with a header, tags and revokes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, UInt64s
from ext4kit.parsers.journal import BlockType

HEADER_KINDS = (BlockType.DESCRIPTOR, BlockType.COMMIT, BlockType.REVOKE)


@dataclass(frozen=True, slots=True)
class Headers(Table):
    """Every block of the ring that has the magic, by position.

    Attributes:
        position: int64, log block.
        kind: int64, BlockType, or a number that is not one.
        order: int64, tid.
        has_checksum: bool, True where the block was written with its own checksum (v2, v3).
        checksum_ok: bool, False where that checksum fails.
        is_partial: bool, True where a commit block's checksum matches only with zeros after its
            fields.
        commit_seconds: uint64, s since 1970, commit blocks only.
        commit_nanoseconds: int64, ns of that second, commit blocks only.
        commit_checksum: int64 (n, 3), commit blocks only: checksum v1 type, size, value.
        tags: int64, number of tags in a descriptor block.
        overflow: bool, True where the count of a revoke block exceeds the block.
    """

    position: Int64s
    kind: Int64s
    order: Int64s
    has_checksum: Bools
    checksum_ok: Bools
    is_partial: Bools
    commit_seconds: UInt64s
    commit_nanoseconds: Int64s
    commit_checksum: Int64s
    tags: Int64s
    overflow: Bools

    @property
    def is_sound(self) -> Bools:
        """True for descriptor, revoke and commit blocks without a bad checksum."""
        sound: Bools = self.checksum_ok & np.isin(self.kind, HEADER_KINDS)
        return sound


@dataclass(frozen=True, slots=True)
class Tags(Table):
    """Every copy that a descriptor block of the log names, in order of log position.

    Attributes:
        block: int64, home block.
        order: int64, tid.
        position: int64, log block of the copy.
        descriptor: int64, log block of the descriptor that names it.
        ordinal: int64, index of the tag in its descriptor.
        checksum: int64, stored checksum; 0 where there is none.
        checksum_bits: int64, its width: 16 or 32, or 0.
        escaped: bool, True where the copy's first four bytes are the magic, stored as zeros.
        matches: bool, True where the copy was read and its stored checksum, if any, matches.
        valid: bool, True where the log block still holds this copy.
        committed: bool, True where the transaction has a good commit block.
    """

    block: Int64s
    order: Int64s
    position: Int64s
    descriptor: Int64s
    ordinal: Int64s
    checksum: Int64s
    checksum_bits: Int64s
    escaped: Bools
    matches: Bools
    valid: Bools
    committed: Bools


@dataclass(frozen=True, slots=True)
class Revokes(Table):
    """Every revoke record of the log: copies of `block` up to `order` must not be replayed.

    Attributes:
        block: int64, file system block.
        order: int64, tid of the revoking transaction.
        position: int64, log block of the revoke block.
    """

    block: Int64s
    order: Int64s
    position: Int64s
