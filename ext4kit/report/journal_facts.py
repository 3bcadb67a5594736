"""A journal superblock and the MMP block, as text in the wording of dumpe2fs and as records."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import fields as parts_of
from typing import Any, Literal, NotRequired, TypedDict, get_type_hints

from ext4kit import fields
from ext4kit.errors import AccessError, CorruptError
from ext4kit.fields import Record, json_name
from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.journal import JournalFeatures, JournalSuperblock
from ext4kit.parsers.mmp import MountProtection, parse_mmp
from ext4kit.report.safe import printable
from ext4kit.report.superblock_facts import Fact, uuid_text
from ext4kit.report.times import ctime_text
from ext4kit.units import NANOSECONDS

MMP_MAGIC = 0x4D4D50


def journal_facts(journal: JournalSuperblock, file_system_block_size: int) -> Iterator[Fact]:
    """The lines of `dumpe2fs -h` for a journal, in its order."""
    kilobytes = journal.length * journal.block_size >> 10
    yield "Journal features", " ".join(journal.features.names) or "(none)"
    yield "Total journal size", f"{kilobytes}k" if kilobytes < 8192 else f"{kilobytes >> 10}M"
    if journal.block_size != file_system_block_size:
        yield "Journal block size", str(journal.block_size)
    yield "Total journal blocks", str(journal.length)
    yield "Max transaction length", str(journal.length - journal.fast_commit_blocks)
    yield "Fast commit length", str(journal.fast_commit_blocks)
    if journal.first != 1:
        yield "Journal first block", str(journal.first)
    yield "Journal sequence", f"0x{journal.sequence:08x}"
    yield "Journal start", str(journal.start)
    if journal.users_count > 1:
        yield "Journal number of users", str(journal.users_count)
        users = (uuid_text(user) or "<none>" for user in journal.users)
        yield "Journal users", f"\n{'':26}".join(users)
    if journal.features.checksum_version == 1:
        yield "Journal checksum type", "crc32"
    elif journal.features.has_block_checksums:
        yield "Journal checksum type", "crc32c" if journal.checksum_type == 4 else "INVALID"
        yield "Journal checksum", f"0x{journal.checksum:08x}"
    if journal.error:
        yield "Journal errno", str(journal.error - (journal.error >> 31 << 32))


def journal_types() -> dict[str, Any]:
    """Fields of the record that `journal_record` makes."""
    plain = {JournalFeatures: list[str], bytes: fields.Uuid, tuple[bytes, ...]: list[str]}
    hints = get_type_hints(JournalSuperblock)
    types = {name: plain.get(hint, hint) for name, hint in hints.items()}
    own = {"length": fields.Count, "checksum_ok": bool | None}
    return {"record": Literal["journal"], **types, **own}


def journal_record(journal: JournalSuperblock) -> Record:
    """The journal superblock as a record of all its parsed fields."""
    record: dict[str, object] = {"record": "journal"}
    for part in parts_of(journal):
        value = getattr(journal, part.name)
        if isinstance(value, JournalFeatures):
            value = value.names
        elif isinstance(value, bytes):
            value = str(uuid.UUID(bytes=value))
        elif isinstance(value, tuple):
            value = [str(uuid.UUID(bytes=each)) for each in value]
        record[part.name] = value
    return record | {"checksum_ok": journal.checksum_ok}


def journal_state(fs: FileSystem, log: Log | None) -> str:
    """Whether the journal holds transactions that are not checkpointed, as text."""
    if log is None:
        return "none"
    if log.superblock.start == 0:
        return "clean"
    if not fs.superblock.needs_recovery:
        return "not empty, but the file system is not marked for recovery"
    count = int(log.transactions.to_replay.sum())
    fast = len(scan_fast_commits(log).to_replay)
    behind = f" and {fast:,} fast commits after them" if fast else ""
    return f"needs recovery: {count:,} transactions{behind} are not yet checkpointed"


def read_mmp(fs: FileSystem) -> MountProtection | None:
    """The MMP block, None without the feature; if it is damaged, a problem is reported."""
    if Incompat.MMP not in fs.superblock.features:
        return None
    try:
        return parse_mmp(fs.blocks.read(fs.superblock.mmp_block))
    except (AccessError, CorruptError) as error:
        fs.problems.add("mount protection block", str(error))
        return None


def mmp_lines(mmp: MountProtection) -> list[str]:
    """The MMP block in the wording of dumpe2fs."""
    seconds = mmp.time_ns // NANOSECONDS
    return [
        "MMP_block:",
        f"    mmp_magic: 0x{MMP_MAGIC:x}",
        f"    mmp_check_interval: {mmp.check_interval}",
        f"    mmp_sequence: 0x{mmp.sequence:06x}",
        f"    mmp_update_date: {ctime_text(seconds)}",
        f"    mmp_update_time: {seconds}",
        f"    mmp_node_name: {printable(mmp.host)}",
        f"    mmp_device_name: {printable(mmp.device)}",
    ]


class MmpRecord(TypedDict):
    """The block of multiple mount protection (`info`)."""

    record: Literal["mmp"]
    state: str
    sequence: int
    time_ns: int
    check_interval: int
    host: str
    host_bytes: NotRequired[fields.Exact]
    device: str
    device_bytes: NotRequired[fields.Exact]


def mmp_record(mmp: MountProtection) -> MmpRecord:
    """The MMP block as a record."""
    return {
        "record": "mmp",
        "state": mmp.state,
        "sequence": mmp.sequence,
        "time_ns": mmp.time_ns,
        "check_interval": mmp.check_interval,
        **json_name(mmp.host, "host"),
        **json_name(mmp.device, "device"),
    }
