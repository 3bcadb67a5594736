"""Extended attributes of deleted files, from old inodes and from attribute blocks.

Attributes in the inode are in every copy of the inode, and a freed inode keeps them. An attribute
block is read from the log as of the time of the file, or else from its home block. The home block
may have the attributes of a later owner. It is used if every other known owner had the block at the
same time (files with the same attributes share a block; kernel fs/ext4/xattr.c,
`ext4_xattr_block_set`) or earlier. Untagged copies, whose home block is known from their checksum,
are used last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.xattrs import read_xattrs
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.parsers import xattr
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems, Severity
from ext4kit.reasons import Reason
from ext4kit.recovery.older_states import TID_UNDATED
from ext4kit.unallocated.metadata import XATTR, MetadataBlocks
from ext4kit.unallocated.untagged import tids_of_untagged
from ext4kit.units import NANOSECONDS

_CACHED = 64  # attribute blocks that are kept in memory
_SHARED, _LEAST = 16, 1 << 26  # files share attribute blocks; limit of the bytes read in total
_SHOWN = 8  # maximum attribute names that a message shows
_LOOKED_AT = 1024
_FOREVER = np.iinfo(np.int64).max
IN_PLACE = "attribute block on disk"
OLD_COPY = "untagged copy of the attribute block"
IN_INODE = "inode"


@dataclass(frozen=True, slots=True)
class FileXattrs:
    """The extended attributes of one file.

    Attributes:
        values: name -> value, as returned by `getxattr`.
        source: provenance, "" without attributes.
        missing: why attributes are missing, None if complete.
    """

    values: dict[bytes, bytes]
    source: str
    missing: Reason | None


NO_ATTRIBUTES = FileXattrs({}, "", None)


class XattrReader:
    """Reads the attributes of states in the history.

    Args:
        history: the states.
        structures: metadata blocks found in unallocated space and the journal.
    """

    def __init__(self, history: History, structures: MetadataBlocks) -> None:
        self._history, self._fs = history, history.fs
        self._found = structures.of_kind(XATTR)
        self._read_place = lru_cache(_CACHED)(self._read_in_place)
        self._read_log = lru_cache(_CACHED)(self._read_journal_block)
        size = history.fs.blocks.blocks_count * history.fs.superblock.block_size
        self._left = max(_SHARED * size, _LEAST)

    def read(self, inode: Inode, row: int) -> FileXattrs:
        """The attributes of the inode of the state `row`."""
        has_body = xattr.has_body(inode.raw, inode.extra_isize)
        if not inode.file_acl and not has_body and self._left >= 0:
            return NO_ATTRIBUTES
        block, source = self._find_block(inode.file_acl, row) if inode.file_acl else (None, "")
        self._left -= len(block) if block else 0
        if self._left < 0:
            return FileXattrs({}, "", reasons.XATTR_LIMIT)
        problems = Problems()
        values = read_xattrs(inode.raw, inode.extra_isize, block, _external_value, problems)
        why = "; ".join(one.what for one in problems.kept if one.severity is Severity.ERROR)
        missing = reasons.XATTRS_INCOMPLETE.filled(why=why) if why else None
        if inode.file_acl and block is None:
            missing = reasons.XATTR_BLOCK_REUSED.filled(block=f"{inode.file_acl:,}")
        where = [IN_INODE] if has_body else []
        text = ", ".join(where + ([source] if source else []))
        return FileXattrs(values, text if values else "", missing)

    # -- choice of the block --------------------------------------------------------------

    def _find_block(self, home: int, row: int) -> tuple[bytes | None, str]:
        """(attribute block of a state, its provenance)."""
        history = self._history
        at = int(history.last_valid_tid(np.array([row]))[0])
        if history.copies is not None:
            tag = int(history.copies.newest_copies(np.array([home]), np.array([at]))[0])
            if tag >= 0 and (data := self._read_log(int(history.copies.log.tags.position[tag]))):
                transaction = int(history.copies.log.tags.order[tag]) % (1 << 32)
                return data, f"journal transaction {transaction}"
        if not self._has_later_owner(home, row) and (data := self._read_place(home)):
            return data, IN_PLACE
        for block, in_log in self._untagged_copies_of(home, at):
            if data := self._read_log(block) if in_log else self._read_copy(block, home):
                return data, OLD_COPY
        return None, ""

    def _untagged_copies_of(self, home: int, at: int) -> list[tuple[int, bool]]:
        """(block, True for a log block) of untagged copies up to tid `at`, newest first."""
        copies, order = self._untagged_copies
        low, high = np.searchsorted(copies.stated_number, [home, home + 1]).tolist()
        some = np.arange(low, high)[order[low:high] <= at]
        found = copies.take(some[np.argsort(-order[some], kind="stable")])
        return list(zip(found.block.tolist(), found.in_journal.tolist(), strict=True))

    @cached_property
    def _untagged_copies(self) -> tuple[MetadataBlocks, Int64s]:
        """(untagged copies, their tids), sorted by home block; TID_UNDATED outside the journal."""
        found = self._found
        away = found.in_journal | (found.stated_number != found.block)
        found = found.take(away & (found.stated_number > 0))
        found = found.take(np.argsort(found.stated_number, kind="stable"))
        return found, np.where(
            found.in_journal, tids_of_untagged(self._history.log, found.block), TID_UNDATED
        )

    def _read_journal_block(self, position: int) -> bytes | None:
        assert self._history.log is not None
        data: bytes = self._history.log.reader.read(np.array([position]))[0].tobytes()
        return data if _has_valid_header(data) else None

    def _read_in_place(self, home: int) -> bytes | None:
        return self._read_copy(home, home)

    def _read_copy(self, block: int, home: int) -> bytes | None:
        """An attribute block on disk; None if a checksum does not match the home block."""
        superblock = self._fs.superblock
        rows, readable = self._fs.fetch(np.array([block]))
        data: bytes = rows[0].tobytes()
        if not readable[0] or not _has_valid_header(data):
            return None
        if superblock.has_metadata_checksums:
            stored = xattr.parse_block_header(data).checksum
            if xattr.block_checksum(superblock.seed, home, data) != stored:
                return None
        return data

    # -- owners of blocks -----------------------------------------------------------------

    def _has_later_owner(self, home: int, row: int) -> bool:
        """Whether a later owner may have written the attribute block of a state."""
        history, mine = self._history, int(self._history.states.instance[row])
        home_row, instance, begin, end = self._block_owners
        low, high = np.searchsorted(home_row, [home, home + 1]).tolist()
        own = instance[low:high] == mine
        own_end = int(end[low:high][own].max(initial=0))
        others = ~own & (end[low:high] > own_end)
        if (begin[low:high][others] > own_end).any():
            return True
        if history.copies is not None:
            copies = history.copies.tids[
                slice(*np.searchsorted(history.copies.blocks, [home, home + 1]))
            ]
            death = int(history.next_tid[row])
            return bool((copies > (TID_ON_DISK if death == TID_NONE else death)).any())
        return False

    @cached_property
    def _block_owners(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """(block, instance, latest possible begin, end) of all known owners of attribute blocks.

        Times are ctimes, ns; an allocated instance has no end.
        """
        history, states = self._history, self._history.states
        rows = np.flatnonzero(states.table.file_acl > 0)
        last = np.searchsorted(states.instance, states.instance[rows], side="right") - 1
        freed = np.where(
            states.table.dtime[last] > 0,
            (states.table.dtime[last] + 1) * NANOSECONDS,
            states.table.ctime[last],
        )
        until = np.where(history.is_allocated[states.instance[rows]], _FOREVER, freed)
        parts = [
            (states.table.file_acl[rows], states.instance[rows], states.table.ctime[rows], until)
        ]
        wanted = np.unique(states.table.file_acl[rows])
        for table in self._fs.inode_batches() if len(wanted) else ():
            live = (table.links_count > 0) & np.isin(table.file_acl, wanted)
            live &= ~np.isin(table.number, history.number[history.is_allocated])
            living = table.take(live)
            nobody, forever = np.full(len(living), NO_ROW), np.full(len(living), _FOREVER)
            parts.append((living.file_acl, nobody, living.ctime, forever))
        block, instance, begin, end = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(block, kind="stable")
        return block[order], instance[order], begin[order], end[order]

    # -- blocks without an owner ----------------------------------------------------------

    def report_ownerless(self) -> None:
        """Report unallocated attribute blocks without a known owner and their attribute names."""
        freed = self._found.block[
            ~self._found.in_journal & (self._found.stated_number == self._found.block)
        ]
        freed = freed[~np.isin(freed, self._history.states.table.file_acl)]
        names: dict[str, None] = {}
        for block in freed[:_LOOKED_AT].tolist():
            data = self._read_place(block)
            for entry in _entries(data) if data else ():
                names.setdefault(entry.name.decode("utf-8", "backslashreplace"))
        if len(freed):
            shown = ", ".join([*list(names)[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
            what = f"{len(freed):,} of no known inode; attributes in them: {shown}"
            self._fs.problems.add("attribute blocks in free space", what, Severity.NOTE)


def _entries(data: bytes) -> list[xattr.XattrEntry]:
    try:
        return xattr.parse_entries(data, xattr.XATTR_BLOCK_HEADER.size, 0, len(data))
    except CorruptError:
        return []


def _has_valid_header(data: bytes) -> bool:
    try:
        xattr.parse_block_header(data)
    except CorruptError:
        return False
    return True


def _external_value(number: int, size: int) -> bytes:
    raise AccessError(f"a value of {size:,} bytes is in a separate inode, which is not searched")
