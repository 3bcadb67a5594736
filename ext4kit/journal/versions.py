"""Every version of a block or an inode in the log, and the changes between them.

A reader converts the bytes of a version to facts: names with plain values. The difference of two
versions lists facts that were added, removed or changed; if there are none, it lists ranges of
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Rows
from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.geometry import descriptor_blocks, descriptors_per_block
from ext4kit.filesystem.xattrs import read_xattrs
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.parsers import directory, extents, htree, xattr
from ext4kit.parsers.group import GroupTable, parse_groups
from ext4kit.parsers.inode import Inode, InodeFlags, parse_inode
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock
from ext4kit.problems import Problems
from ext4kit.units import TransactionId


@dataclass(frozen=True, slots=True)
class BlockVersion:
    """A block at one time.

    Attributes:
        data: the bytes of the block, with the magic of an escaped copy restored.
        offset: byte offset of `data` in the file system, or in the external journal for a copy
            there.
        transaction: the transaction that wrote this copy; None for the block on disk.
        commit_time_ns: commit time of the transaction, ns since 1970; None when not known.
        log_block: log block of the copy; None for the block on disk.
        is_committed: whether the transaction was committed; None for the block on disk.
    """

    data: bytes
    offset: int
    transaction: TransactionId | None = None
    commit_time_ns: int | None = None
    log_block: int | None = None
    is_committed: bool | None = None

    def slice(self, start: int, length: int) -> BlockVersion:
        """This version limited to a byte range of the block."""
        part = self.data[start : start + length]
        return replace(self, data=part, offset=self.offset + start)


def block_versions(
    fs: FileSystem, log: Log, block: int, since: int | None = None
) -> Iterator[BlockVersion]:
    """Every copy of a block that is still in the log, oldest first, then the block on disk.

    Args:
        fs: the file system; an overlay such as a replay is bypassed.
        log: the log of the file system.
        block: a block of the file system.
        since: tid of the oldest copy to return.

    Raises:
        RequestError: the file system has no such block.
    """
    if not 0 <= block < fs.superblock.blocks_count:
        last = fs.superblock.blocks_count - 1
        raise RequestError(f"block {block}: this file system has blocks 0 to {last:,}")
    tags = log.tags
    rows = np.flatnonzero(tags.valid & (tags.block == block))
    rows = rows if since is None else rows[tags.order[rows] >= since]
    rows = log.oldest_first(rows)
    for start in range(0, len(rows), log.reader.chunk):
        piece = rows[start : start + log.reader.chunk]
        copies, order = log.read_copies(piece), tags.order[piece]
        known = log.transactions.row_of(order).tolist()
        for row, copy, transaction in zip(piece.tolist(), copies, known, strict=True):
            position, of = int(tags.position[row]), log.transactions[transaction]
            yield BlockVersion(
                copy.tobytes(),
                offset=int(log.reader.log_blocks[position]) * len(copy),
                transaction=of.id,
                commit_time_ns=of.commit_time_ns,
                log_block=position,
                is_committed=of.committed,
            )
    blocks: BlockReader = fs.blocks
    while isinstance(blocks, JournalOverlay):
        blocks = blocks.base
    try:
        yield BlockVersion(bytes(blocks.read(block)), block * blocks.block_size)
    except AccessError as error:
        fs.problems.add(f"block {block}", str(error))


Which = int | bytes | tuple[int, int] | None
Facts = dict[tuple[str, Which], object]  # (kind of fact, which one) -> value
MOST_RANGES = 64
NOT_FACTS = {"number", "i_block", "raw", "checksum", "computed_checksum"}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One difference; a value that does not exist before or after is None.

    Attributes:
        what: an inode's or superblock's field, "entry", "extent", "index", "pointer",
            "hash" (of a directory index), "attribute", "block" or "inode" (of a bitmap),
            "bytes", "kind".
        which: identifies the changed item by a name, a file block, a hash, a (first, last) range or
            a group; None for fields.
        inode: number of the inode with the field, in a table of inodes.
    """

    what: str
    which: Which
    before: object
    after: object
    inode: int | None = None


@dataclass(frozen=True, slots=True)
class StructureReader:
    """Decodes the bytes of one structure.

    Attributes:
        kind: text that names the structure.
        facts: bytes -> facts; empty if versions are compared byte by byte.
        compare: compares two versions of a structure that has too many facts to list.
    """

    kind: str
    facts: Callable[[bytes], Facts] = lambda _: {}
    compare: Callable[[bytes, bytes], list[FieldChange]] | None = None

    def changes(self, before: bytes, after: bytes) -> list[FieldChange]:
        """The differences between two versions."""
        if before == after:
            return []
        if self.compare is not None:
            return self.compare(before, after)
        found = _facts_changed(self._valid_facts(before), self._valid_facts(after))
        return found or byte_changes(before, after)

    def first(self, data: bytes) -> list[FieldChange]:
        """All facts of the oldest version, as added facts."""
        return _facts_changed({}, self._valid_facts(data))

    def _valid_facts(self, data: bytes) -> Facts:
        """The facts; none if the structure contradicts its format."""
        try:
            return self.facts(data)
        except CorruptError:
            return {}


def _facts_changed(before: Facts, after: Facts) -> list[FieldChange]:
    keys = [*after, *(key for key in before if key not in after)]
    return [
        FieldChange(*key, before.get(key), after.get(key))
        for key in keys
        if before.get(key) != after.get(key)
    ]


def byte_changes(before: bytes, after: bytes) -> list[FieldChange]:
    """Ranges of bytes that differ, at most 64; if there are more, the last one covers the rest."""
    old, new = (np.frombuffer(data, np.uint8) for data in (before, after))
    spans = _ranges(np.flatnonzero(old != new))
    if len(spans) > MOST_RANGES:
        spans = [*spans[: MOST_RANGES - 1], (spans[MOST_RANGES - 1][0], spans[-1][1])]
    return [
        FieldChange("bytes", span, before[span[0] : span[1] + 1], after[span[0] : span[1] + 1])
        for span in spans
    ]


def _ranges(numbers: Rows) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) of each run."""
    runs = Intervals.of_numbers(numbers)
    return list(zip(runs.start.tolist(), (runs.end - 1).tolist(), strict=True))


# ------------------------------------------------------------------------------ inodes


def inode_reader(fs: FileSystem, number: int) -> StructureReader:
    """A reader for versions of one inode."""
    return StructureReader(f"inode {number}", lambda data: _inode_facts(fs, number, data))


def _inode_facts(fs: FileSystem, number: int, data: bytes) -> Facts:
    inode = parse_inode(data, number, fs.superblock)
    facts: Facts = {(name, None): value for name, value in _field_values(inode)}
    facts |= _content_facts(inode)
    body = read_xattrs(data, inode.extra_isize, None, _external_value, Problems(limit=0))
    return facts | {("attribute", name): value for name, value in body.items()}


def _external_value(number: int, size: int) -> bytes:
    """Placeholder for a value that is in a separate inode."""
    return b"<%d bytes in inode %d>" % (size, number)


def _content_facts(inode: Inode) -> Facts:
    """The facts in `i_block`."""
    if inode.is_inline:
        return {("inline content", None): inode.i_block}
    if inode.is_fast_symlink:
        return {("target", None): inode.i_block[: inode.size]}
    if inode.device:
        return {("device", None): inode.device}
    if inode.flags & int(InodeFlags.EXTENTS):
        return _node_facts(inode.i_block)
    pointers = np.frombuffer(inode.i_block, "<u4").tolist()
    return {("pointer", place): block for place, block in enumerate(pointers) if block}


# ------------------------------------------------------------------------------ blocks


def reader_for_block(fs: FileSystem, block: int) -> Callable[[bytes], StructureReader]:
    """A function that gives a version's reader, by the block's location or else by its content."""
    fixed = _reader_by_location(fs, block)
    return (lambda _: fixed) if fixed else (lambda data: _reader_by_content(fs, data))


def _reader_by_location(fs: FileSystem, block: int) -> StructureReader | None:
    superblock, groups, size = fs.superblock, fs.groups, fs.superblock.block_size
    if block == SUPERBLOCK_OFFSET // size:
        facts = partial(_superblock_facts, offset=SUPERBLOCK_OFFSET % size)
        return StructureReader("superblock", facts)
    places = np.flatnonzero(descriptor_blocks(superblock, 0, len(groups)) == block)
    if len(places):
        first = int(places[0]) * descriptors_per_block(superblock)
        what = f"group descriptors from group {first} on"
        return StructureReader(what, lambda data: _group_facts(superblock, data, first))
    for name, column in (("block", groups.block_bitmap), ("inode", groups.inode_bitmap)):
        found = np.flatnonzero(column == block)
        if len(found):
            return _bitmap_reader(fs, name, int(found[0]))
    return _inode_table_reader(fs, block)


def _superblock_facts(data: bytes, offset: int) -> Facts:
    superblock = Superblock.parse(data[offset : offset + SUPERBLOCK.size])
    facts: Facts = {}
    for name, value in _field_values(superblock):
        names = getattr(value, "names", None)
        facts[name, None] = value if names is None else list(names)
    return facts


def _field_values(structure: Inode | Superblock | GroupTable) -> Iterator[tuple[str, object]]:
    values = ((part.name, getattr(structure, part.name)) for part in fields(structure))
    return (pair for pair in values if pair[0] not in NOT_FACTS)


def _group_facts(superblock: Superblock, data: bytes, first: int) -> Facts:
    rows = np.frombuffer(data, np.uint8).reshape(-1, superblock.descriptor_size)
    rows = rows[: max(superblock.groups_count - first, 0)]
    groups = parse_groups(rows, superblock)
    return {
        (part.name, first + row): value
        for part in fields(GroupTable)
        if part.name not in NOT_FACTS
        for row, value in enumerate(getattr(groups, part.name).tolist())
    }


def _bitmap_reader(fs: FileSystem, name: str, group: int) -> StructureReader:
    superblock = fs.superblock
    first, count, step = group * superblock.inodes_per_group + 1, superblock.inodes_per_group, 1
    if name == "block":
        step = superblock.cluster_ratio
        first = superblock.first_data_block + group * superblock.blocks_per_group
        count = superblock.blocks_per_group // step

    def compare(before: bytes, after: bytes) -> list[FieldChange]:
        old, new = (
            np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count]
            for data in (before, after)
        )
        found = []
        for was in (0, 1):
            for low, high in _ranges(np.flatnonzero((old == was) & (new != was))):
                span = (first + low * step, first + high * step + step - 1)
                found.append(FieldChange(name, span, was, 1 - was))
        return found or byte_changes(before, after)

    return StructureReader(f"{name} bitmap of group {group}", compare=compare)


def _inode_table_reader(fs: FileSystem, block: int) -> StructureReader | None:
    superblock, starts = fs.superblock, fs.groups.inode_table
    size = superblock.inode_size
    per_block = superblock.block_size // size
    blocks = -(-superblock.inodes_per_group // per_block)
    found = np.flatnonzero((block >= starts) & (block < starts + blocks))
    if not len(found):
        return None
    group = int(found[0])
    first = group * superblock.inodes_per_group + (block - int(starts[group])) * per_block + 1

    def compare(before: bytes, after: bytes) -> list[FieldChange]:
        changes = []
        for row in range(per_block):
            place = slice(row * size, (row + 1) * size)
            for change in inode_reader(fs, first + row).changes(before[place], after[place]):
                changes.append(replace(change, inode=first + row))
        return changes

    return StructureReader(f"inodes {first} to {first + per_block - 1}", compare=compare)


# ------------------------------------------------------------------------------ by content


def _reader_by_content(fs: FileSystem, data: bytes) -> StructureReader:
    """A reader for one version; the type of a block can change when it is reused."""
    if int.from_bytes(data[:2], "little") == extents.MAGIC:
        return StructureReader("extent tree block", _node_facts)
    if int.from_bytes(data[:4], "little") == xattr.MAGIC:
        return StructureReader("attribute block", _attribute_facts)
    if htree.is_index_root(data):
        return StructureReader("directory index root", partial(_index_facts, True))
    if _is_index_node(data):
        return StructureReader("directory index node", partial(_index_facts, False))
    if _is_directory(fs, data):
        return StructureReader("directory block", partial(_entry_facts, fs))
    return StructureReader("other content")


def _node_facts(node: bytes) -> Facts:
    """Extents by file block, or index entries by file block."""
    rows = np.frombuffer(node, np.uint8)[None, :]
    sound, entries, _, depth = (column[0] for column in extents.parse_headers(rows))
    if not sound:
        return {}
    row, slot = np.zeros(int(entries), np.int64), np.arange(int(entries))
    if depth:
        first, child = extents.parse_children(rows, row, slot)
        return dict(zip((("index", at) for at in first.tolist()), child.tolist(), strict=True))
    columns = [column.tolist() for column in extents.parse_extents(rows, row, slot)]
    return {
        ("extent", logical): (length, block, unwritten)
        for logical, length, block, unwritten in zip(*columns, strict=True)
    }


def _attribute_facts(data: bytes) -> Facts:
    header = xattr.parse_block_header(data)
    found = read_xattrs(bytes(128), 0, data, _external_value, Problems(limit=0))
    facts: Facts = {("users", None): header.reference_count}
    return facts | {("attribute", name): value for name, value in found.items()}


def _index_facts(is_root: bool, data: bytes) -> Facts:
    entries = htree.parse_root(data).entries if is_root else htree.parse_node(data)
    pairs = zip(entries.hashes.tolist(), entries.blocks.tolist(), strict=True)
    return {("hash", name_hash): block for name_hash, block in pairs}


def _is_index_node(data: bytes) -> bool:
    """Whether the index entries are valid; an empty leaf without a checksum begins likewise."""
    try:
        return htree.is_index_node(data) and htree.parse_node(data).count > 0
    except CorruptError:
        return False


def _is_directory(fs: FileSystem, data: bytes) -> bool:
    """Whether a chain of entries covers the whole block."""
    rows = np.frombuffer(data, np.uint8)[None, :]
    table, broken = directory.parse_entries(rows, fs.has_file_types)
    stored = directory.DIRENT.table(data, 1)["rec_len"].astype(np.int64)
    one_empty = directory.record_length(stored, len(data))[0] == len(data)
    has_tail = data[-12:-4] == bytes([0, 0, 0, 0, 12, 0, 0, directory.TAIL_FILE_TYPE])
    return bool(broken[0] < 0 and (len(table) or one_empty or has_tail))


def _entry_facts(fs: FileSystem, data: bytes) -> Facts:
    rows = np.frombuffer(data, np.uint8)[None, :]
    table, _ = directory.parse_entries(rows, fs.has_file_types)
    kinds = [directory.FILE_TYPES.get(kind, str(kind)) for kind in table.file_type.tolist()]
    values = zip(table.inode.tolist(), kinds, strict=True)
    return {("entry", name): value for name, value in zip(table.names(rows), values, strict=True)}


# ------------------------------------------------------------------------------ histories


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """A version and its differences from the previous one.

    Attributes:
        kind: text that names the structure.
        changes: differences from the previous version; for the first one, all facts.
    """

    version: BlockVersion
    kind: str
    changes: list[FieldChange]
    is_first: bool
    is_changed: bool


def diff_versions(
    versions: Iterable[BlockVersion], reader_for: Callable[[bytes], StructureReader]
) -> Iterator[VersionDiff]:
    """Each version with its changes; a change of type is reported without details."""
    before: tuple[StructureReader, bytes] | None = None
    for version in versions:
        data, reader = version.data, reader_for(version.data)
        if before is None:
            changes = reader.first(data)
        elif before[0].kind == reader.kind:
            changes = reader.changes(before[1], data)
        else:
            changes = [FieldChange("kind", None, before[0].kind, reader.kind)]
        changed = before is not None and before[1] != data
        yield VersionDiff(version, reader.kind, changes, before is None, changed)
        before = reader, data
