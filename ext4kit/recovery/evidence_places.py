"""Record types for the places of evidence in the image."""

from __future__ import annotations

from typing import Annotated, TypedDict

_BYTE = "Byte of the image, or of the logical or unlocked volume."
_BLOCK = "The block of the file system that this is, or is a copy of."
_COPY = "Transaction of the copy in the journal; null for the block itself."


class Place(TypedDict):
    """Where a block or part of one was read; no offset if the image lacks the block."""

    offset: Annotated[int | None, _BYTE]
    block: Annotated[int, _BLOCK]
    transaction: Annotated[int | None, _COPY]


class EntryPlace(TypedDict):
    """Where a directory entry was read."""

    offset: Annotated[int, _BYTE]
    block: Annotated[int, _BLOCK]
    transaction: Annotated[int | None, _COPY]


class InodePlace(EntryPlace):
    """Where an inode was read."""

    checksum: Annotated[int | None, "i_checksum as stored; null without metadata_csum."]


class LastOwner(TypedDict):
    """The last recorded owner of blocks."""

    inode: int
    generation: int
    first: Annotated[int | None, "First transaction that shows it so."]
    last: Annotated[int | None, "Last transaction that shows it so."]


class CopyCounts(TypedDict):
    """Numbers of other copies of a block."""

    older: int
    newer: int


class EvidencePlaces(TypedDict):
    """Places of the evidence for a deleted file."""

    file_system_at: Annotated[int, "Byte at which the file system begins there."]
    inode_at: Annotated[InodePlace | None, "Where the inode was read."]
    freed_at: Annotated[InodePlace | None, "Where the inode is first seen freed."]
    map_at: Annotated[list[Place], "Where the blocks of its tree were read, from the root on."]
    name_at: Annotated[EntryPlace | None, "Where the directory entry with its name was read."]
    content_at: Annotated[list[Place], "Blocks of its content that were read from the journal."]
    last_owner: Annotated[LastOwner, "The last recorded owner of the blocks in `extents`."]
    copies: Annotated[CopyCounts, "Other copies of its block of the inode table in the journal."]
