"""Names over time: which life had which name in which directory, and when.

Since Linux 5.13 a removed entry is wiped, so names come from earlier copies of directory
blocks in the log, and from freed directory blocks on disk. Copies of one block show when an
entry came and when it went; the states of inodes show which life a number meant at that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.errors import CorruptError
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.filesystem.maps import spread
from ext4kit.filesystem.xattrs import inline_tail
from ext4kit.parsers.directory import (
    DIRENT,
    EntryTable,
    block_checksum_ok,
    parse_entries,
    parse_remnants,
)
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags, inode_seed
from ext4kit.past.states import NEVER, NOW, Past

BLOCKS_AT_ONCE = 4096
DEPTH_LIMIT = 4096  # directories in each other; hostile names can go on and on
ON_DISK, EMPTY = -1, -2
BEFORE = -1  # the order of a freed directory block on disk: written some time before
REMNANT = -2  # seen only as a removed entry that was not cleared


@dataclass(frozen=True, slots=True)
class _Versions:
    """Versions of directory blocks, by (block, order), as columns.

    Attributes:
        block: file system block; minus the inode number for an inline directory.
        order: transaction of the copy, BEFORE for a freed block on disk.
        directory: the life of the directory.
        source: row of `log.tags`, row of the states for an inline directory, ON_DISK, or EMPTY
            where no entry of that directory stands in the block.
    """

    block: Any
    order: Any
    directory: Any
    source: Any

    def take(self, index: Any) -> _Versions:
        return _Versions(*(getattr(self, part.name)[index] for part in fields(self)))


@dataclass(frozen=True, slots=True)
class Names:
    """Names that lives had, as columns, by life, the last one of a life at its end.

    Attributes:
        life: who was named.
        directory: life of the directory.
        first: order of the first copy that shows the name, BEFORE when it was there already.
        gone: order of the first copy without it, NOW when none shows that it went.
        seen: order of the last copy that shows it, BEFORE for a freed block on disk, REMNANT
            for an entry that older kernels left uncleared.
        name: the names.
    """

    life: Any
    directory: Any
    first: Any
    gone: Any
    seen: Any
    name: list[bytes]


_COLUMNS = ("child", "directory", "first", "gone", "seen")


class NameHistory:
    """Builds `Names` and paths out of a file system's past."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self._paths: dict[tuple[int, int], bytes | None] = {}

    # -- which blocks were directories, and whose -----------------------------------------

    @cached_property
    def _directory_rows(self) -> Any:
        states = self.past.states
        return np.flatnonzero(((states.table.mode & 0xF000) == 0x4000) & states.whole)

    @cached_property
    def _owned(self) -> tuple[Any, Any, Any]:
        """(block, order, life) of every block that a known directory had, by block and order."""
        rows = self._directory_rows
        states = self.past.states
        runs = self.past.map_states(rows).data
        row, position = spread(runs.length)
        owner = rows[runs.owner[row]]
        live = self._live_directories()
        block = np.concatenate([runs.physical[row] + position, live[0]])
        order = np.concatenate([states.order[owner], np.full(len(live[0]), NOW)])
        life = np.concatenate([states.life[owner], live[1]])
        sort = np.lexsort((order, block))
        return block[sort], order[sort], life[sort]

    def _live_directories(self) -> tuple[Any, Any]:
        """(block, life) of live directories that the log shows no state of.

        Their life is minus their inode number: they have no state to point at.
        """
        past = self.past
        blocks, lives = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        known = past.number[past.alive_now]
        for table in past.fs.inode_chunks():
            wanted = ((table.mode & 0xF000) == 0x4000) & (table.links_count > 0)
            table = table.take(wanted & ~np.isin(table.number, known))
            runs = past.fs.map_table(table).data
            row, position = spread(runs.length)
            blocks.append(runs.physical[row] + position)
            lives.append(-table.number[runs.owner[row]])
        return np.concatenate(blocks), np.concatenate(lives)

    def _owner_at(self, block: Any, order: Any) -> Any:
        """Index into `_owned` of the directory that had each block at that time, else -1."""
        blocks, orders, _ = self._owned
        if not len(blocks):
            return np.full(len(block), -1)
        low = np.searchsorted(blocks, block)
        high = np.searchsorted(blocks, block, side="right")
        known_orders = np.unique(orders)
        known_blocks, slot = np.unique(blocks, return_inverse=True)
        keys = slot * (len(known_orders) + 1) + np.searchsorted(known_orders, orders)
        wanted = np.searchsorted(known_blocks, block) * (len(known_orders) + 1)
        wanted += np.searchsorted(known_orders, order, side="right") - 1
        place = np.searchsorted(keys, wanted, side="right") - 1
        return np.where(high > low, np.clip(place, low, np.maximum(high - 1, 0)), -1)

    def _logged_versions(self) -> _Versions:
        history = self.past.history
        if history is None:
            return _Versions(*[np.zeros(0, np.int64)] * 4)
        owner = self._owner_at(history.blocks, history.orders)
        kept = owner >= 0
        lives = self._owned[2][owner[kept]]
        return _Versions(history.blocks[kept], history.orders[kept], lives, history.tags[kept])

    def _freed_versions(self) -> _Versions:
        """Blocks of deleted directories as the disk still holds them, where they are free."""
        past, states = self.past, self.past.states
        blocks, _, lives = self._owned
        block, first = np.unique(blocks[::-1], return_index=True)
        life = lives[::-1][first]
        dead = (life >= 0) & ~past.alive_now[np.maximum(life, 0)] if len(states) else life < 0
        block, life = block[dead], life[dead]
        free = ~past.fs.bitmaps.blocks_in_use(block)
        tenant, holder, begin, _ = self._tenures
        logged = begin != NEVER  # the log has all that was ever written there
        free &= ~np.isin(block * (1 << 32) + life, (tenant * (1 << 32) + holder)[logged])
        block, life = block[free], life[free]
        before = np.full(len(block), BEFORE)
        return _Versions(block, before, life, np.full(len(block), ON_DISK))

    def _live_versions(self) -> _Versions:
        """Blocks of live directories as they are, for the removed entries left in them."""
        block, order, life = self._owned
        last = np.append(block[1:] != block[:-1], True)[: len(block)]
        alive = self.past.alive_now
        kept = last & ((life < 0) | alive[np.maximum(life, 0)] if len(alive) else life < 0)
        now = np.full(kept.sum(), NOW)
        return _Versions(block[kept], now, life[kept], np.full(len(now), ON_DISK))

    @cached_property
    def _tenures(self) -> tuple[Any, Any, Any, Any]:
        """(block, life, begin, end) of every known directory's time with a block.

        `begin` is NEVER where the block was the directory's before the log begins, `end` is
        NOW where nothing tells when it was freed.
        """
        past, states = self.past, self.past.states
        block, order, life = (column[self._owned[2] >= 0] for column in self._owned)
        sort = np.lexsort((order, life, block))
        block, order, life = block[sort], order[sort], life[sort]
        first = np.ones(len(block), bool)
        first[1:] = (block[1:] != block[:-1]) | (life[1:] != life[:-1])
        block, order, life = block[first], order[first], life[first]
        known = np.searchsorted(states.life, life)
        begins = (order > states.order[known]) | self._born_in_log(known)
        end = past.following[past.last_whole[life]] if len(life) else life
        ends = (end != NEVER) & ~past.alive_now[life] if len(life) else begins
        begin = np.where(begins & (order != NOW), order, NEVER)
        return block, life, begin, np.where(ends, end, NOW)

    def _edges(self) -> _Versions:
        """Where a directory's time with a block begins and ends, as versions without entries."""
        block, life, begin, end = self._tenures
        begins, ends = begin != NEVER, end != NOW
        edges = np.concatenate([begin[begins] - 1, end[ends]])
        blocks, lives = (np.concatenate([part[begins], part[ends]]) for part in (block, life))
        return _Versions(blocks, edges, lives, np.full(len(edges), EMPTY))

    def _born_in_log(self, rows: Any) -> Any:
        """Per row of the states (bool): its inode was created after the log's first commit."""
        return self.past.states.table.crtime[rows] > min(self._commits.values(), default=NOW)

    def _inline_versions(self) -> _Versions:
        """States of directories that were inline once; those that are no more end its names."""
        states = self.past.states
        rows = self._directory_rows
        rows = np.flatnonzero(np.isin(states.life, states.life[rows[self._are_inline(rows)]]))
        first = rows[np.unique(states.life[rows], return_index=True)[1]]
        first = first[self._born_in_log(first)]
        order = np.concatenate([states.order[rows], states.order[first] - 1])
        source = np.concatenate([rows, np.full(len(first), EMPTY)])
        rows = np.concatenate([rows, first])
        return _Versions(-states.table.number[rows], order, states.life[rows], source)

    def _are_inline(self, rows: Any) -> Any:
        """Per row of the states (bool): its inode holds directory entries."""
        states = self.past.states
        inline = (states.table.flags[rows] & int(InodeFlags.INLINE_DATA)) != 0
        inline &= (states.table.mode[rows] & 0xF000) == 0x4000
        return inline & states.whole[rows] & (rows >= 0)

    # -- entries of all versions ----------------------------------------------------------

    @cached_property
    def _interesting(self) -> Any:
        """Inode numbers whose names matter: deleted ones and directories."""
        past, states = self.past, self.past.states
        directories = states.table.number[self._directory_rows]
        return np.union1d(past.number[~past.alive_now], directories)

    def _pieces(self) -> Iterator[tuple[_Versions, Any, EntryTable]]:
        """Versions in pieces that end between blocks, their bytes and their entries."""
        parts = [
            self._logged_versions(),
            self._freed_versions(),
            self._live_versions(),
            self._edges(),
        ]
        versions = _Versions(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(_Versions))
        )
        versions = versions.take(np.lexsort((versions.order, versions.block)))
        start = 0
        while start < len(versions.block):
            end = min(start + BLOCKS_AT_ONCE, len(versions.block))
            end = int(np.searchsorted(versions.block, versions.block[end - 1], side="right"))
            piece = versions.take(slice(start, end))
            yield self._read(piece)
            start = end
        yield from self._read_inline()

    def _read(self, piece: _Versions) -> tuple[_Versions, Any, EntryTable]:
        fs, log = self.past.fs, self.past.log
        data = np.zeros((len(piece.block), fs.superblock.block_size), np.uint8)
        logged = piece.source >= 0
        if logged.any():
            assert log is not None
            data[logged] = log.read_copies(piece.source[logged])
        readable, on_disk = logged.copy(), piece.source == ON_DISK
        data[on_disk], readable[on_disk] = fs.fetch(piece.block[on_disk])
        if fs.superblock.has_metadata_checksums:
            self._check(piece, data, readable)
        entries, broken = parse_entries(data, fs.has_file_types)
        sound = readable & (broken < 0)
        data[~sound] = 0  # it stays as a version: the names before it are gone with it
        return piece, data, entries.take(sound[entries.block])

    def _check(self, piece: _Versions, data: Any, readable: Any) -> None:
        """A block counts only when its tail fits the directory's seed; htree nodes name nobody."""
        past = self.past
        for row in np.flatnonzero(readable & (piece.directory >= 0)).tolist():
            life = int(piece.directory[row])
            seed = inode_seed(
                past.fs.superblock, int(past.number[life]), int(past.generation[life])
            )
            if block_checksum_ok(seed, data[row].tobytes()) is not True:
                readable[row] = False

    def _read_inline(self) -> Iterator[tuple[_Versions, Any, EntryTable]]:
        """Inline directories: entries in i_block, and those that went on into system.data."""
        if Incompat.INLINE_DATA not in self.past.fs.superblock.features:
            return
        table, typed = self.past.states.table, self.past.fs.has_file_types
        versions = self._inline_versions()
        versions = versions.take(np.lexsort((versions.order, versions.block)))
        data = table.i_block[versions.source]
        data[~self._are_inline(versions.source)] = 0
        entries, broken = parse_entries(data, typed, start=4)
        yield versions, data, entries.take(broken[entries.block] < 0)
        if (table.size[versions.source] > data.shape[1]).any():
            data, length = self._inline_tails(versions.source)
            entries, broken = parse_entries(data, typed)
            sound = (broken < 0) | (broken == length)
            yield versions, data, entries.take(sound[entries.block])

    def _inline_tails(self, rows: Any) -> tuple[Any, Any]:
        """(uint8 (n, longest), length (n,)) of the entries that the states keep in system.data."""
        table = self.past.states.table
        tails = [
            _tail(raw.tobytes(), extra)[: max(size - 60, 0)]
            for raw, extra, size in zip(
                table.raw[rows],
                table.extra_isize[rows].tolist(),
                np.where(self._are_inline(rows), table.size[rows], 60).tolist(),
                strict=True,
            )
        ]
        length = np.array([len(tail) for tail in tails], np.int64)
        width = max(int(length.max()), DIRENT.size)
        padded = b"".join(tail.ljust(width, b"\0") for tail in tails)
        return np.frombuffer(padded, np.uint8).reshape(len(tails), width), length

    @cached_property
    def names(self) -> Names:
        """Every name of an interesting number, told apart by life."""
        columns: dict[str, list[Any]] = {name: [np.zeros(0, np.int64)] for name in _COLUMNS}
        names: list[bytes] = []
        wanted = np.zeros(int(self._interesting.max(initial=0)) + 1, bool)
        wanted[self._interesting] = True
        for versions, data, entries in self._pieces():
            named = entries.take(np.isin(entries.inode, self._interesting))
            parts = [_intervals(versions, data, named)]
            if self.past.fs.has_file_types:
                parts.append(_remnants(versions, data, parse_remnants(data, wanted, entries)))
            for found, texts in parts:
                for name in _COLUMNS:
                    columns[name].append(found[name])
                names += texts
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        return self._attributed(joined, names)

    def _attributed(self, columns: dict[str, Any], names: list[bytes]) -> Names:
        """Say which life each number meant when its name was last seen."""
        remnant = columns["seen"] == REMNANT
        life = self._life_at(columns["child"], np.where(remnant, columns["gone"], columns["seen"]))
        if len(life):
            unsure = self.past.alive_now[np.maximum(life, 0)] | self._reborn(life)
            life[remnant & (life >= 0) & unsure] = -1
        real = np.array([name not in (b".", b"..") for name in names], bool)
        kept = np.flatnonzero((life >= 0) & real & (life != columns["directory"]))
        kept = _unambiguous(kept, life, columns, names)
        seen, gone = columns["seen"][kept], columns["gone"][kept]
        rank = np.lexsort((columns["first"][kept], seen, gone, np.minimum(seen, 0), life[kept]))
        kept = kept[rank]
        return Names(
            life[kept],
            columns["directory"][kept],
            columns["first"][kept],
            columns["gone"][kept],
            columns["seen"][kept],
            [names[row] for row in kept.tolist()],
        )

    def _reborn(self, life: Any) -> Any:
        """Per life (bool): its number had another life before, whose remnants look the same."""
        past, states = self.past, self.past.states
        numbers = states.table.number[past.by_number]
        first = states.life[past.by_number[np.searchsorted(numbers, past.number[life])]]
        return np.asarray(first != life)

    def _life_at(self, numbers: Any, orders: Any) -> Any:
        """The life that each inode number meant at that time, -1 when none is known.

        Where the log shows no state that early, the number's first known state decides, if
        its inode was created before that transaction was committed.
        """
        past, states = self.past, self.past.states
        if not len(states):
            return np.full(len(numbers), -1)
        row = past.state_at(numbers, orders)
        by_number = states.table.number[past.by_number]
        first = np.searchsorted(by_number, numbers)
        exists = first < len(by_number)
        exists[exists] = by_number[first[exists]] == numbers[exists]
        earliest = past.by_number[np.where(exists, first, 0)]
        older = states.table.crtime[earliest] <= self._commit_times(orders)
        row = np.where((row < 0) & exists & older, earliest, row)
        life = np.where(row >= 0, states.life[row], -1)
        dead = (states.table.links_count[row] == 0) & (states.order[row] < orders)
        return np.where((row >= 0) & dead & (orders != BEFORE), -1, life)

    @cached_property
    def _commits(self) -> dict[int, int]:
        """When each transaction was committed, ns, by order."""
        return {
            item.order: item.commit_time_ns
            for item in (self.past.log.transactions if self.past.log else ())
            if item.commit_time_ns is not None
        }

    def _commit_times(self, orders: Any) -> Any:
        """When the transactions were committed, ns; the far future where that is not known."""
        far = np.iinfo(np.int64).max
        if self.past.log is None:
            return np.full(len(orders), far)
        known = {BEFORE: min(self._commits.values(), default=far)} | self._commits
        keys = np.array(sorted(known), np.int64)
        times = np.array([known[int(key)] for key in keys], np.int64)
        place = np.minimum(np.searchsorted(keys, orders), len(keys) - 1)
        return np.where(keys[place] == orders, times[place], far)

    # -- paths ----------------------------------------------------------------------------

    @cached_property
    def _live_paths(self) -> dict[int, bytes]:
        """Path of each live directory by inode number."""
        tree = self.past.fs.tree()
        kinds = tree.file_type
        wanted = np.flatnonzero((kinds == 2) | (kinds == 0)).tolist()
        paths = {int(tree.number[row]): tree.paths[row] for row in wanted}
        paths[ROOT] = b""
        return paths

    @cached_property
    def _ends(self) -> Any:
        """Per life: one past its last row in `names`."""
        return np.searchsorted(self.names.life, np.arange(self.past.lives_count), side="right")

    def last_name(self, life: int) -> int:
        """Row in `names` of the last name of a life, -1 when none is known."""
        end = int(self._ends[life])
        return end - 1 if end and self.names.life[end - 1] == life else -1

    def path(self, row: int, death: int) -> bytes | None:
        """The full path that row `row` of `names` stood for when its bearer was removed.

        Args:
            row: a row of `names`.
            death: order of the bearer's removal.

        Returns:
            The path, or None when a directory on the way has no known name.
        """
        when = min(int(self.names.gone[row]), death) - 1
        when = max(when, int(self.names.first[row]), min(int(self.names.seen[row]), int(NOW) - 1))
        folder = self._directory_path(int(self.names.directory[row]), when)
        return None if folder is None else folder + b"/" + self.names.name[row]

    def _directory_path(self, life: int, when: int) -> bytes | None:
        """Path of a directory at a time; a life below 0 is minus a live inode's number."""
        below: list[tuple[int, bytes]] = []
        known, path = self._known_path(life, when)
        while not known and len(below) < DEPTH_LIMIT:
            self._paths[life, when] = None  # should the names go round, they end here
            row = self._name_at(life, when)
            below.append((life, self.names.name[row]))
            life = int(self.names.directory[row])
            known, path = self._known_path(life, when)
        for one, name in reversed(below):
            path = None if path is None else path + b"/" + name
            self._paths[one, when] = path
        return path

    def _known_path(self, life: int, when: int) -> tuple[bool, bytes | None]:
        """(whether no name has to be looked up for it, its path)."""
        if life < 0:
            return True, self._live_paths.get(-life)
        if self.past.number[life] == ROOT:
            return True, b""
        if (life, when) in self._paths:
            return True, self._paths[life, when]
        row, names = self._name_at(life, when), self.names
        holds = row >= 0 and names.first[row] <= when < names.gone[row]
        found = None
        if row >= 0 and names.first[row] > when:
            return True, None  # it came there later, from where the log does not show
        if not holds and self.past.alive_now[life]:
            found = self._live_paths.get(int(self.past.number[life]))
        return found is not None or row < 0, found

    def _name_at(self, life: int, when: int) -> int:
        """Row in `names` of the name in force at a time, the nearest one else, -1 for none.

        A directory has one name at a time: of several that may have been in force, all but the
        first to go began when that one went.
        """
        end = int(self._ends[life])
        start = int(np.searchsorted(self.names.life, life))
        if start == end:
            return -1
        first, gone = self.names.first[start:end], self.names.gone[start:end]
        far = np.maximum(np.maximum(first - when, when - gone + 1), 0)
        best = np.flatnonzero(far == far.min())
        logged = best[self.names.seen[start:end][best] >= 0]
        if far[best[0]] == 0 and len(logged):
            return start + int(logged[0])
        return start + int(best[-1])


def _tail(raw: bytes, extra_isize: int) -> bytes:
    """What an inline directory keeps in system.data; nothing when its attributes are broken."""
    try:
        return inline_tail(raw, extra_isize)
    except CorruptError:
        return b""


_WEIGHTS = np.random.default_rng().integers(1, 1 << 63, 256, np.int64, endpoint=False) | 1


def _name_keys(data: Any, entries: EntryTable) -> Any:
    """A 64-bit key of each entry's name: a random linear form of its bytes and length."""
    row, position = spread(entries.name_length)
    values = data[entries.block[row], entries.offset[row] + 8 + position].astype(np.int64)
    sums = np.zeros(len(entries) + 1, np.int64)
    ends = np.cumsum(entries.name_length)
    running = np.concatenate([[0], np.cumsum(values * _WEIGHTS[position])])
    sums[1:] = running[ends]
    return np.diff(sums) ^ (entries.name_length * _WEIGHTS[-1])


def _intervals(
    versions: _Versions, data: Any, entries: EntryTable
) -> tuple[dict[str, Any], list[bytes]]:
    """Join an entry's appearances in consecutive versions of its block into one interval."""
    key = _name_keys(data, entries)
    block, order = versions.block[entries.block], versions.order[entries.block]
    directory = versions.directory[entries.block]
    sort = np.lexsort((entries.block, directory, key, entries.inode, block))
    entries, key, block = entries.take(sort), key[sort], block[sort]
    order, directory = order[sort], directory[sort]
    follows = (
        (block[1:] == block[:-1])
        & (entries.inode[1:] == entries.inode[:-1])
        & (key[1:] == key[:-1])
        & (directory[1:] == directory[:-1])
        & (entries.block[1:] == entries.block[:-1] + 1)
    )
    if not len(block):
        return {name: np.zeros(0, np.int64) for name in _COLUMNS}, []
    start = np.concatenate([[0], np.flatnonzero(~follows) + 1])
    last = np.append(start[1:], len(block)) - 1
    known = ~_again_in_log(start, order[last], (block, entries.inode, key, directory))
    start, last = start[known], last[known]
    found = {
        "child": entries.inode[start],
        "directory": directory[start],
        "first": _first_orders(versions, entries.block[start]),
        "gone": _gone_orders(versions, entries.block[last]),
        "seen": order[last],
    }
    return found, entries.take(start).names(data)


def _again_in_log(start: Any, seen: Any, same: tuple[Any, ...]) -> Any:
    """Per interval (bool): of a freed block, and the log has the same entry in that block.

    The log has every version of a block since it first shows the block: one that holds such
    an entry is the one on disk, and tells better when that was.
    """
    again = seen == BEFORE
    for column in same:
        again[:-1] &= column[start[1:]] == column[start[:-1]]
    again[-1:] = False
    return again


def _remnants(
    versions: _Versions, data: Any, entries: EntryTable
) -> tuple[dict[str, Any], list[bytes]]:
    """Removed entries that were not cleared: gone by the time of the version they stand in."""
    found = {
        "child": entries.inode,
        "directory": versions.directory[entries.block],
        "first": np.full(len(entries), BEFORE),
        "gone": versions.order[entries.block],
        "seen": np.full(len(entries), REMNANT),
    }
    return found, entries.names(data)


def _unambiguous(kept: Any, life: Any, columns: dict[str, Any], names: list[bytes]) -> Any:
    """`kept` without the remnants of lives that remnants give several names."""
    remnant = columns["seen"][kept] == REMNANT
    told: dict[int, set[tuple[int, bytes]]] = {}
    for row in kept[remnant].tolist():
        told.setdefault(int(life[row]), set()).add((int(columns["directory"][row]), names[row]))
    unsure = np.array([one for one, found in told.items() if len(found) > 1], np.int64)
    return kept[~(remnant & np.isin(life[kept], unsure))]


def _first_orders(versions: _Versions, row: Any) -> Any:
    """The version's order, or BEFORE when the block has no earlier version."""
    before = np.maximum(row - 1, 0)
    has_earlier = (row > 0) & (versions.block[row] == versions.block[before])
    has_earlier &= versions.order[before] != BEFORE
    return np.where(has_earlier, versions.order[row], BEFORE)


def _gone_orders(versions: _Versions, row: Any) -> Any:
    """The order of the block's next version, NOW when it has none."""
    after = np.minimum(row + 1, len(versions.block) - 1)
    has_later = (row + 1 < len(versions.block)) & (versions.block[row] == versions.block[after])
    return np.where(has_later, versions.order[after], NOW)
