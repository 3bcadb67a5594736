"""Facts about a lost file system, and the evidence for them."""

from __future__ import annotations

from typing import Literal, TypedDict

from ext4kit import fields
from ext4kit.filesystem import FileSystem
from ext4kit.lost import LostFileSystem

_CLEAN = {
    True: "clean unmount, from its journal",
    False: "unclean, from its journal",
    None: "unknown; its journal is missing",
}


class LostRecord(TypedDict):
    """A lost file system of the volume (`info --lost`)."""

    record: Literal["lost file system"]
    uuid: fields.Uuid | None
    block_size: int
    inode_size: int
    checksum_seed: int | None
    superblock: str
    directories_agreeing: int
    inode_table_blocks: int
    inode_table_blocks_from_log: int
    inodes_in_use: int
    unnamed: int
    end: str
    later_was_mounted: bool


def lost_record(fs: FileSystem) -> LostRecord:
    """The facts about a lost file system as a record."""
    assert isinstance(fs, LostFileSystem)
    superblock, origin, tables = fs.superblock, fs.identity, fs.inode_tables
    found = tables.byte >= 0
    return {
        "record": "lost file system",
        "uuid": superblock.uuid_text if any(superblock.uuid) else None,
        "block_size": superblock.block_size,
        "inode_size": superblock.inode_size,
        "checksum_seed": origin.seed,
        "superblock": "copy on the volume"
        if origin.superblock_found
        else "inferred from other structures",
        "directories_agreeing": len(set(origin.pairs.number.tolist())),
        "inode_table_blocks": int(found.sum()),
        "inode_table_blocks_from_log": int((found & tables.from_journal).sum()),
        "inodes_in_use": sum(len(numbers) for numbers in fs.inode_numbers()),
        "unnamed": len(fs.unnamed),
        "end": _CLEAN[origin.was_unmounted],
        "later_was_mounted": fs.overwriting.was_mounted,
    }


def lost_lines(fs: FileSystem) -> list[str]:
    """The facts about a lost file system, one per line."""
    assert isinstance(fs, LostFileSystem)
    facts, seed = lost_record(fs), fs.identity.seed
    rows = (
        ("UUID", facts["uuid"] or "unknown"),
        ("Block size", facts["block_size"]),
        ("Inode size", facts["inode_size"]),
        ("Checksum seed", "none" if seed is None else f"0x{seed:08x}"),
        ("Superblock", facts["superblock"]),
        ("Matching directories", f"{facts['directories_agreeing']:,}"),
        ("Inode table blocks", f"{facts['inode_table_blocks']:,}"),
        ("  of these from its journal", f"{facts['inode_table_blocks_from_log']:,}"),
        ("Allocated inodes", f"{facts['inodes_in_use']:,}"),
        ("Inodes without a name", f"{facts['unnamed']:,}"),
        ("Last shutdown", facts["end"]),
        ("Overwriting one was mounted", "yes" if facts["later_was_mounted"] else "no"),
    )
    return [f"{name + ':':<30}{value}" for name, value in rows]
