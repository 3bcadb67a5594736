"""Facts about a lost file system, and their evidence."""

from __future__ import annotations

from typing import Literal, TypedDict

from ext4kit import fields
from ext4kit.lost import LostFileSystem

_CLEAN = {
    True: "unmounted, as its log says",
    False: "not unmounted, as its log says",
    None: "not known, its log is gone",
}


class LostRecord(TypedDict):
    """A file system that was on the volume before (`info --lost`)."""

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


def lost_record(fs: LostFileSystem) -> LostRecord:
    """The facts as a record."""
    superblock, origin, tables = fs.superblock, fs.identity, fs.inode_tables
    found = tables.byte >= 0
    return {
        "record": "lost file system",
        "uuid": superblock.uuid_text if any(superblock.uuid) else None,
        "block_size": superblock.block_size,
        "inode_size": superblock.inode_size,
        "checksum_seed": origin.seed,
        "superblock": "a copy that was found" if origin.superblock_found else "worked out",
        "directories_agreeing": len(set(origin.pairs.number.tolist())),
        "inode_table_blocks": int(found.sum()),
        "inode_table_blocks_from_log": int((found & tables.from_journal).sum()),
        "inodes_in_use": sum(len(numbers) for numbers in fs.inode_numbers()),
        "unnamed": len(fs.unnamed),
        "end": _CLEAN[origin.was_unmounted],
        "later_was_mounted": fs.overwriting.was_mounted,
    }


def lost_lines(fs: LostFileSystem) -> list[str]:
    """The facts, one per line."""
    facts = lost_record(fs)
    seed = facts["checksum_seed"]
    rows = (
        ("UUID", facts["uuid"] or "not known"),
        ("Block size", facts["block_size"]),
        ("Inode size", facts["inode_size"]),
        ("Checksum seed", "none" if seed is None else f"0x{seed:08x}"),
        ("Superblock", facts["superblock"]),
        ("Directories that agree", f"{facts['directories_agreeing']:,}"),
        ("Inode table blocks", f"{facts['inode_table_blocks']:,}"),
        ("  of these from the log", f"{facts['inode_table_blocks_from_log']:,}"),
        ("Inodes in use", f"{facts['inodes_in_use']:,}"),
        ("Without a name", f"{facts['unnamed']:,}"),
        ("Last unmount", facts["end"]),
        ("Later one was mounted", "yes" if facts["later_was_mounted"] else "no"),
    )
    return [f"{name + ':':<26}{value}" for name, value in rows]
