"""All facts of a file system for `info`, and the kernels that wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Literal, TypedDict

from ext4kit import fields
from ext4kit.errors import AccessError
from ext4kit.fields import Record
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.filesystem import LOST
from ext4kit.filesystem.inodes import BAD_BLOCKS
from ext4kit.history.writer import Version, Writer, find_writer
from ext4kit.journal import Log
from ext4kit.parsers.features import READ_FULLY
from ext4kit.report.group_facts import group_lines, ranges_text, read_group_facts
from ext4kit.report.journal_facts import (
    journal_facts,
    journal_record,
    journal_state,
    mmp_lines,
    mmp_record,
    read_mmp,
)
from ext4kit.report.superblock_facts import (
    LABEL_WIDTH,
    Fact,
    fact_lines,
    superblock_facts,
    superblock_record,
)

_VERDICTS = {True: "ok", False: "BAD", None: "not stored"}  # by the result of a checksum test


def info_lines(fs: FileSystem, groups: bool) -> Iterator[str]:
    """The lines that dumpe2fs prints, further facts, then the lines of each group.

    For a lost file system, they are the known facts with their sources.
    """
    if fs.state == LOST:
        from ext4kit.report.lost import lost_lines

        yield from lost_lines(fs)
        return
    log, mmp, bad_blocks = Log.open(fs), read_mmp(fs), _bad_blocks(fs)
    lines = fact_lines(superblock_facts(fs.superblock))
    if log:
        lines += fact_lines(journal_facts(log.superblock, fs.superblock.block_size))
    lines += mmp_lines(mmp) if mmp else []
    lines += [f"Bad blocks: {ranges_text(bad_blocks)}"] if bad_blocks else []
    own = fact_lines(chain(_own_facts(fs, log), writer_facts(find_writer(fs, log))))
    yield from (*lines, "", *own)
    readings = fs.superblock.features.readings
    full = [name for name, how in readings.items() if how == READ_FULLY]
    yield from fact_lines(iter([("Features read fully", " ".join(full) or "(none)")]))
    for name, how in readings.items():
        if how != READ_FULLY:
            yield f"{f'Feature {name}:'.ljust(LABEL_WIDTH)}{how}"
    if groups:
        yield ""
        for group in read_group_facts(fs):
            yield from group_lines(fs.superblock, group)


class StateRecord(TypedDict):
    """State of the file system (`info`)."""

    record: Literal["state"]
    kind: fields.Kind
    superblock_group: int
    superblock_checksum: str
    group_descriptors: int
    group_descriptors_bad: int
    orphans: list[int]
    bad_blocks: list[tuple[int, int]]
    journal: str
    features_read: Annotated[dict[str, str], "For each feature, how far ext4kit reads it."]


def info_records(fs: FileSystem, groups: bool) -> Iterator[Record]:
    """The same facts as records: superblock, journal, mmp, state, writer, groups."""
    if fs.state == LOST:
        from ext4kit.report.lost import lost_record

        yield lost_record(fs)
        return
    log, mmp = Log.open(fs), read_mmp(fs)
    yield superblock_record(fs.superblock)
    if log:
        yield journal_record(log.superblock)
    if mmp:
        yield mmp_record(mmp)
    state: StateRecord = {
        "record": "state",
        "kind": fs.superblock.kind,
        "superblock_group": fs.superblock.group_number,
        "superblock_checksum": _VERDICTS[fs.superblock.checksum_ok],
        "group_descriptors": len(fs.groups),
        "group_descriptors_bad": _bad_descriptors(fs),
        "orphans": fs.orphans,
        "bad_blocks": _bad_blocks(fs),
        "journal": journal_state(fs, log),
        "features_read": fs.superblock.features.readings,
    }
    yield state
    yield writer_record(find_writer(fs, log))
    if groups:
        yield from (group.record for group in read_group_facts(fs))


def _own_facts(fs: FileSystem, log: Log | None) -> Iterator[Fact]:
    group, bad = fs.superblock.group_number, _bad_descriptors(fs)
    yield "Kind", fs.superblock.kind
    yield "Superblock read", "the primary" if group == 0 else f"the backup in group {group}"
    yield "Superblock checksum", _VERDICTS[fs.superblock.checksum_ok]
    yield "Group descriptors", f"{len(fs.groups)}, {bad} with a bad checksum"
    first = ", ".join(map(str, fs.orphans[:20])) + (", ..." if len(fs.orphans) > 20 else "")
    yield "Orphaned inodes", f"{len(fs.orphans):,}: {first}" if fs.orphans else "none"
    yield "Journal state", journal_state(fs, log)
    if log and log.superblock.checksum_ok is not None:
        yield "Journal checksum check", _VERDICTS[log.superblock.checksum_ok]


def _bad_blocks(fs: FileSystem) -> list[tuple[int, int]]:
    """(first, last) of each run of blocks that inode 1 reserves as bad blocks."""
    try:
        inode = fs.inode(BAD_BLOCKS)  # it has a block map, but neither type nor size
        runs = fs.block_map_from(inode.i_block, inode.flags, size=1)
    except AccessError as error:
        fs.problems.add("bad blocks inode", str(error))
        return []
    ends = (runs.physical + runs.length - 1).tolist()
    return list(zip(runs.physical.tolist(), ends, strict=True))


def _bad_descriptors(fs: FileSystem) -> int:
    computed = fs.groups.computed_checksum
    return int(((computed >= 0) & (computed != fs.groups.checksum)).sum())


def writer_facts(writer: Writer) -> Iterator[Fact]:
    """The last writer, its evidence, and its consequences for recovery."""
    yield "Written by", writer.family
    for sign in writer.signs:
        since, before = _version(sign.since), _version(sign.before)
        bound = f"Linux {since} or later" if since else f"Linux before {before}"
        yield "Trace of a kernel", f"{sign.ground}: {bound}"
    for effect in writer.effects:
        yield "For recovery", effect


def _version(version: Version | None) -> str | None:
    return None if version is None else f"{version[0]}.{version[1]}"


class SignRecord(TypedDict):
    """Evidence of one structure about the kernel that wrote it."""

    ground: Annotated[str, "Fact on the disk."]
    since: Annotated[str | None, "First Linux version with this behaviour."]
    before: Annotated[str | None, "First Linux version without this behaviour."]
    time_ns: Annotated[int | None, "Latest time of the evidence, nanoseconds since 1970 UTC."]


class WriterRecord(TypedDict):
    """The kernels that wrote the file system (`info`, `report`)."""

    record: Literal["writer"]
    family: Annotated[str, "Text about the last writer."]
    since: Annotated[str | None, "The last writer is this Linux version or later; null: no bound."]
    before: Annotated[str | None, "The last writer is an earlier version; null: no bound."]
    several: Annotated[bool, "True if kernels from before and after a change in the kernel wrote."]
    signs: list[SignRecord]
    effects: Annotated[list[str], "Consequences for recovery."]


def writer_record(writer: Writer) -> WriterRecord:
    """The kernels as a record."""
    return {
        "record": "writer",
        "family": writer.family,
        "since": _version(writer.since),
        "before": _version(writer.before),
        "several": writer.several,
        "signs": [
            {
                "ground": sign.ground,
                "since": _version(sign.since),
                "before": _version(sign.before),
                "time_ns": sign.time,
            }
            for sign in writer.signs
        ],
        "effects": list(writer.effects),
    }
