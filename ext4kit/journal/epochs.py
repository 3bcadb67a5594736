"""Inode size and checksum seed that were in force when the log's copies were written.

`tune2fs` changes both while the file system is not mounted: the inode size (`-I`), the UUID from
which the seed of all checksums is computed (`-U`), and the use of checksums (`-O`). It rewrites the
blocks in the file system, but not the copies in the log. Each change is between two transactions.
An epoch is the time between two changes. Copies of the superblock record the values in force.
Copies of inode tables show them too: the seed is computed by running the 32-bit checksum of an
inode backwards, and the inode size follows from `i_extra_isize`, which is where the next 128-byte
inode would have its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s
from ext4kit.filesystem.geometry import descriptor_blocks, descriptors_per_block
from ext4kit.journal.block_history import BlockHistory
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import Features, Incompat, RoCompat
from ext4kit.parsers.group import parse_groups
from ext4kit.parsers.inode import GOOD_OLD_SIZE, INODE, inode_rows_ok, signed_inodes
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock, judge
from ext4kit.parsers.traces import inode_marks
from ext4kit.problems import Severity

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem

UNKNOWN = -1
EARLIEST = int(np.iinfo(np.int64).min)
PRESENT = 1 << 61  # larger than every tid of the log, but smaller than that of the disk
FIRST_COPIES = 16  # copies of inode tables read to find whether there was a change
MOST_COPIES = 4096  # most copies read if there was a change
COPIES_EACH = 4  # copies read of one transaction
MOST_EPOCHS = 8  # a larger number is probably forged
_EXTRA = GOOD_OLD_SIZE // 2  # offset of `i_extra_isize` in words of two bytes
_KINDS = np.isin(np.arange(16), [1, 2, 4, 6, 8, 10, 12])
_TELLING = np.r_[
    SUPERBLOCK.span("s_inode_size"),
    SUPERBLOCK.span("s_feature_incompat"),
    SUPERBLOCK.span("s_feature_ro_compat"),
    SUPERBLOCK.span("s_uuid"),
    SUPERBLOCK.span("s_checksum_seed"),
]  # as bytes of a superblock
_CHECKSUM_LO = INODE.offset_of("i_checksum_lo")


@dataclass(frozen=True, slots=True)
class Epoch:
    """Inode size and checksum seed of one period.

    Attributes:
        inode_size: bytes.
        seed: seed of all checksums; None without checksums.
    """

    inode_size: int
    seed: int | None

    def superblock(self, now: Superblock) -> Superblock:
        """The present superblock with the inode size and seed of this epoch."""
        features, seed = now.features, 0
        incompat = features.incompat & ~Incompat.METADATA_CSUM_SEED
        ro_compat = features.ro_compat & ~RoCompat.METADATA_CSUM
        if self.seed is not None:
            incompat |= Incompat.METADATA_CSUM_SEED
            ro_compat |= RoCompat.METADATA_CSUM
            seed = self.seed
        return replace(
            now,
            raw_inode_size=self.inode_size,
            features=Features(features.compat, incompat, ro_compat),
            checksum_seed=seed,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Earlier positions of inode tables; resize2fs moves them when descriptors need more room.

    Attributes:
        order: the last tid with these positions.
        starts: int64, first block of each group's table at that time, -1 where not known.
    """

    order: int
    starts: Int64s


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of a log and the tids at which each begins.

    Attributes:
        now: the present superblock.
        epochs: the distinct epochs; the first one is the present.
        starts: int64, tids at which another epoch begins, ascending.
        which: int64, row of `epochs` from each start on; UNKNOWN where no copy shows it.
        moved: earlier positions of inode tables, None if they never moved.
    """

    now: Superblock
    epochs: tuple[Epoch, ...]
    starts: Int64s
    which: Int64s
    moved: Moved | None = None

    @property
    def is_single(self) -> bool:
        """Whether all copies have the present inode size, seed and table positions."""
        return not len(self.starts)

    @property
    def has_one_size(self) -> bool:
        """Whether all known epochs have the same inode size."""
        return len({epoch.inode_size for epoch in self.epochs}) == 1

    @property
    def seeds(self) -> tuple[int, ...]:
        """The checksum seeds of all epochs, the present one first."""
        return tuple(dict.fromkeys(one.seed for one in self.epochs if one.seed is not None))

    @property
    def superblocks(self) -> tuple[Superblock, ...]:
        """The present superblock with each of `seeds`, the present seed first."""
        size = self.now.inode_size
        if len(self.seeds) == 1:
            return (self.now,)
        return tuple(Epoch(size, seed).superblock(self.now) for seed in self.seeds)

    def had_no_checksums(self, orders: Int64s) -> Bools:
        """True where metadata written at a tid certainly had no checksums."""
        plain = np.array([*(one.seed is None for one in self.epochs), False])
        return plain[self.at(orders)]

    @property
    def first_present(self) -> int:
        """The tid from which on the present epoch is in force; below any tid if it always was."""
        first = int(self.starts[-1]) if len(self.starts) else EARLIEST
        return max(first, self._first_in_place)

    @property
    def first_of_layout(self) -> int:
        """First tid with the present inode size and the present positions of inode tables."""
        other_sizes = np.flatnonzero(self._sizes[self.which] != self.now.inode_size)
        first = int(self.starts[other_sizes[-1] + 1]) if len(other_sizes) else EARLIEST
        return max(first, self._first_in_place)

    @property
    def _first_in_place(self) -> int:
        return EARLIEST if self.moved is None else self.moved.order + 1

    def at(self, orders: Int64s) -> Int64s:
        """Row of `epochs` of each tid, UNKNOWN where the evidence does not show it."""
        if self.is_single:
            return np.zeros(np.shape(orders), np.int64)
        step = np.searchsorted(self.starts, orders, side="right") - 1
        return self.which[np.maximum(step, 0)]

    def sizes(self, orders: Int64s) -> Int64s:
        """Inode size in bytes at each tid, 0 where it is not known."""
        return self._sizes[self.at(orders)]

    @property
    def _sizes(self) -> Int64s:
        return np.array([*(one.inode_size for one in self.epochs), 0])

    def layouts(self, orders: Int64s) -> Int64s:
        """A number that identifies the inode layout at each tid, 0 where it is not known.

        A change of layout moves blocks without a record in the log.
        """
        sizes = self.sizes(orders)
        return sizes if self.moved is None else sizes + ((orders <= self.moved.order) & (sizes > 0))

    def today(self, rows: Bytes2D, numbers: Int64s, orders: Int64s) -> Bytes2D:
        """Inodes of earlier transactions, converted to the present inode size and seed.

        A correct checksum is replaced by a correct one of the present format, a wrong one by a
        wrong one.

        Args:
            rows: uint8 (n, inode size then), all of one size.
            numbers: int64 (n,).
            orders: int64 (n,), tids.
        """
        if self.is_single:
            return rows
        which = self.at(orders)
        wide = np.zeros((len(rows), self.now.inode_size), np.uint8)
        wide[:, : rows.shape[1]] = rows
        for index, epoch in enumerate(self.epochs):
            of_epoch = np.flatnonzero(which == index)
            if index == 0 or not len(of_epoch) or not self.now.has_metadata_checksums:
                continue
            then = epoch.superblock(self.now)
            right = np.ones(len(of_epoch), bool)
            if epoch.seed is not None:
                right = inode_rows_ok(rows[of_epoch].copy(), numbers[of_epoch], then)
            wide[of_epoch] = signed_inodes(wide[of_epoch], numbers[of_epoch], self.now, right)
        return wide


_FOUND: WeakKeyDictionary[BlockHistory, Epochs] = WeakKeyDictionary()


def epochs_of(fs: FileSystem, history: BlockHistory) -> Epochs:
    """The epochs of a log, computed once; reports changes in `fs.problems`."""
    found = _FOUND.get(history)
    if found is None:
        found = _FOUND[history] = _find_epochs(fs, history)
    return found


def _find_epochs(fs: FileSystem, history: BlockHistory) -> Epochs:
    superblock = fs.superblock
    seed = superblock.seed if superblock.has_metadata_checksums else None
    present = Epoch(superblock.inode_size, seed)
    none = np.zeros(0, np.int64)
    found = Epochs(superblock, (present,), none, none)
    moved = _moved_tables(fs, history)
    copies = _Copies(fs, history, present, moved)
    if len(copies.rows) and (moved is not None or copies.show_a_change()):
        several = _joined(superblock, present, copies.evidence())
        orders = history.tids[copies.rows]
        several = replace(_without_old(_filled(several, orders), orders), moved=moved)
        if several.which.any() or moved is not None:
            found = several
            _tell(fs, found, orders)
    return found


def _filled(found: Epochs, orders: Int64s) -> Epochs:
    """The epochs, in which an unknown epoch without copies is replaced by the previous epoch."""
    edges = np.searchsorted(orders, np.append(found.starts, np.iinfo(np.int64).max))
    which = found.which.copy()
    for row in range(1, len(which)):
        if which[row] == UNKNOWN and edges[row] == edges[row + 1]:
            which[row] = which[row - 1]
    return replace(found, which=which)


def _without_old(found: Epochs, orders: Int64s) -> Epochs:
    """The epochs, with all up to the last one with unreadable copies set to unknown.

    Earlier epochs may be known, but inode states cannot be followed across an unknown epoch.
    """
    last = int(orders[found.at(orders) == UNKNOWN].max(initial=UNKNOWN))
    if last == UNKNOWN:
        return found
    later = np.flatnonzero(found.starts > last)
    then = found.at(np.array([last + 1]))
    starts = np.concatenate([[EARLIEST, last + 1], found.starts[later]])
    which = np.concatenate([[UNKNOWN], then, found.which[later]])
    return replace(found, starts=starts, which=which)


def _moved_tables(fs: FileSystem, history: BlockHistory) -> Moved | None:
    """Earlier positions of inode tables, from copies of group descriptors; None if never moved."""
    superblock = fs.superblock
    per_block = descriptors_per_block(superblock)
    blocks = descriptor_blocks(superblock, most=-(-len(fs.groups) // per_block))
    starts = fs.groups.inode_table.copy()
    oldest = np.full(len(starts), PRESENT)
    last, clear = EARLIEST, PRESENT
    for at, block in enumerate(blocks.tolist()):
        some = slice(at * per_block, (at + 1) * per_block)
        rows = slice(*np.searchsorted(history.blocks, [block, block + 1]).tolist())
        now = fs.groups.inode_table[some]
        pairs = zip(history.tids[rows].tolist(), history.tag_rows[rows].tolist(), strict=True)
        for order, tag in pairs:
            data = history.log.read_copies(np.array([tag]))
            known, then = _places_told(data, len(now), superblock)
            if not known.any():
                continue
            oldest[some] = np.minimum(oldest[some], np.where(known, order, PRESENT))
            if (then == now)[known].all():  # so all newer copies also have the present positions
                clear = min(clear, order)
                break
            last = max(last, order)
            starts[some] = np.where(known, then, starts[some])
    if last == EARLIEST:
        return None
    starts[oldest > last] = -1
    # An unmount skips an id, and the positions never change while the file system is mounted.
    until = max(clear, last + 1)
    known = np.append(np.unique(history.log.transactions.order), PRESENT)
    known = known[(known >= last) & (known <= until)]
    gaps = np.flatnonzero(np.diff(known) > 1)
    if len(gaps) == 1:
        return Moved(int(known[gaps[0]]), starts)
    return Moved(until - 1, np.full(len(starts), -1))


def _places_told(data: Bytes2D, count: int, superblock: Superblock) -> tuple[Bools, Int64s]:
    """(True where known, first block of the inode table) of groups in a copy of a descriptor block.

    The block may have held something else at that time. Therefore all descriptors in use must be
    plausible, and a descriptor with a bad checksum is not used.
    """
    then = parse_groups(data.reshape(-1, superblock.descriptor_size)[:count], superblock)
    first, second, table = then.block_bitmap, then.inode_bitmap, then.inode_table
    used = table > 0
    sound = (first != second) & (table != first) & (table != second)
    for place in (first, second, table):
        sound &= (place > 0) & (place < superblock.blocks_count)
    sound &= then.used_dirs_count <= superblock.inodes_per_group
    sound &= then.free_inodes_count <= superblock.inodes_per_group
    fits = (then.computed_checksum < 0) | (then.computed_checksum == then.checksum)
    return used & fits & sound[used].all(), table


def _joined(superblock: Superblock, present: Epoch, evidence: list[tuple[int, Epoch]]) -> Epochs:
    """The epochs, joined from the evidence of single copies in tid order."""
    epochs, starts, which = [present], [EARLIEST], [UNKNOWN]
    last = None
    for order, epoch in evidence:
        if epoch not in epochs and len(epochs) < MOST_EPOCHS:
            epochs.append(epoch)
        row = epochs.index(epoch) if epoch in epochs else UNKNOWN
        if last is None:
            which[0] = row
        elif last[1] != row and last[0] == order:  # the copies contradict each other
            row = UNKNOWN
            starts, which = [*starts, order], [*which, UNKNOWN]
        elif last[1] != row:
            starts, which = [*starts, last[0] + 1, order], [*which, UNKNOWN, row]
        last = order, row
    if which[-1] != 0:  # tune2fs made the last change after the last copy that shows an epoch
        end = evidence[-1][0] + 1 if evidence else 0
        starts, which = [*starts, end, PRESENT], [*which, UNKNOWN, 0]
    return Epochs(superblock, tuple(epochs), np.array(starts), np.array(which))


def _tell(fs: FileSystem, found: Epochs, orders: Int64s) -> None:
    """Report the changes of epoch, and how many copies are unreadable because of them."""
    now = found.epochs[0]
    for one in [found.epochs[row] for row in np.unique(found.at(orders)).tolist() if row > 0]:
        changes = []
        if one.inode_size != now.inode_size:
            changes.append(f"the inode size was {one.inode_size}")
        if one.seed != now.seed:
            how = (
                "there were no metadata checksums" if one.seed is None else "the UUID was different"
            )
            changes.append(how if now.seed is not None else "there were metadata checksums")
        if changes:
            text = f"{' and '.join(changes)} when older copies were written, and they are read so"
            fs.problems.add("journal", text, Severity.NOTE)
    moved = found.moved
    if moved is not None and (moved.starts >= 0).any():
        text = "inode tables moved after older copies were written, which are read accordingly"
        fs.problems.add("journal", text, Severity.NOTE)
    elif moved is not None:
        text = "copies of inode tables that moved later (resize2fs) are not read"
        fs.problems.add("journal", text, Severity.WARNING)
    unknown = int((found.at(orders) == UNKNOWN).sum())
    if unknown:
        why = "inode size or UUID changed later, and the earlier values are unknown"
        what = f"{unknown:,} copies of inode tables are ignored, with their names and states"
        fs.problems.add("journal", f"{what}: {why}", Severity.WARNING)


class _Copies:
    """The copies of inode tables and of the superblock in a log, as evidence of epochs.

    Attributes:
        rows: int64, rows of `history.tag_rows` that are copies of inode tables, by tid.
    """

    def __init__(
        self, fs: FileSystem, history: BlockHistory, present: Epoch, moved: Moved | None
    ) -> None:
        self.fs, self.history, self.present = fs, history, present
        group, byte = table_places(fs, history, moved)
        rows = np.flatnonzero(group >= 0)
        self.rows = rows[np.argsort(history.tids[rows], kind="stable")]
        self._group, self._byte = group, byte
        size = fs.superblock.block_size
        self._home = SUPERBLOCK_OFFSET // size
        place = np.flatnonzero(history.blocks == self._home)
        self._superblocks = place[np.argsort(history.tids[place], kind="stable")]
        headers = history.log.headers
        self._sound = headers.take(headers.is_sound)
        uuid = history.log.superblock.uuid
        self._seeds = {crc32c(ONES, uuid)} | ({present.seed} if present.seed is not None else set())

    def show_a_change(self) -> bool:
        """Whether the inode size or the seed was ever different from the present one.

        Compares all copies of the superblock or, if there are none, the oldest copies of inode
        tables.
        """
        if (self._sound.has_checksum != (self.present.seed is not None)).any():
            return True
        told = list(self._of_superblocks(self._superblocks[self._begin_a_run()][:MOST_COPIES]))
        if any(epoch != self.present for _, epoch in told):
            return True
        if told and told[0][0] <= self.history.tids[self.rows[0]]:
            return False
        rows = self.rows[:FIRST_COPIES]
        shown = [self._told(int(row)) for row in rows.tolist()]
        certain = [epoch for epoch, _ in shown if epoch is not None]
        if certain:
            return any(epoch != self.present for epoch in certain)
        return self.present.seed is not None and any(used for _, used in shown)

    def _begin_a_run(self) -> Bools:
        """True for copies of the superblock whose epoch differs from that of the previous copy."""
        log, start = self.history.log, SUPERBLOCK_OFFSET % self.fs.superblock.block_size
        pieces = [np.zeros((0, len(_TELLING)), np.uint8)]
        for first in range(0, len(self._superblocks), log.reader.chunk):
            some = self._superblocks[first : first + log.reader.chunk]
            pieces.append(log.read_copies(self.history.tag_rows[some])[:, start + _TELLING])
        return starts_group(*np.concatenate(pieces).T)

    def evidence(self) -> list[tuple[int, Epoch]]:
        """(tid, epoch) of copies that show their epoch, by tid.

        All transactions of a mount belong to one epoch. A copy of the superblock is the best
        evidence.
        """
        step = max(len(self._superblocks) // MOST_COPIES, 1)
        found = list(self._of_superblocks(self._superblocks[::step]))
        self._seeds |= {epoch.seed for _, epoch in found if epoch.seed is not None}
        transactions = self.history.log.transactions
        order = self.history.tids[self.rows]
        mount = transactions.session_of(order)
        told = transactions.session_of(np.array([tid for tid, _ in found], np.int64))
        rest = np.flatnonzero(~np.isin(mount, told))
        rank = np.arange(len(rest)) - np.searchsorted(order[rest], order[rest])
        rest = rest[rank < COPIES_EACH]
        rest = rest[:: max(len(rest) // MOST_COPIES, 1)]
        without = self._sound.order[~self._sound.has_checksum]
        bare = np.isin(mount, transactions.session_of(without))
        for row, is_bare in zip(rest.tolist(), bare[rest].tolist(), strict=True):
            epoch, _ = self._told(int(self.rows[row]), is_bare)
            if epoch is not None:
                found.append((int(order[row]), epoch))
        return sorted(self._of_whole_mounts(found), key=itemgetter(0))

    def _of_whole_mounts(self, found: list[tuple[int, Epoch]]) -> Iterator[tuple[int, Epoch]]:
        """The evidence, extended to the first and last tid of each mount with only one epoch."""
        transactions = self.history.log.transactions
        firsts = transactions.session_starts
        order = transactions.order
        lasts = order[np.diff(order, append=order[-1:] + 2) > 1]
        by_mount: dict[int, list[tuple[int, Epoch]]] = {}
        mounts = transactions.session_of(np.array([tid for tid, _ in found], np.int64))
        for mount, one in zip(mounts.tolist(), found, strict=True):
            by_mount.setdefault(mount, []).append(one)
        for mount, shown in by_mount.items():
            yield from shown
            if len({epoch for _, epoch in shown}) == 1:
                yield int(firsts[mount]), shown[0][1]
                yield int(lasts[mount]), shown[0][1]

    def _of_superblocks(self, rows: Rows) -> Iterator[tuple[int, Epoch]]:
        now = self.fs.superblock
        offset = SUPERBLOCK_OFFSET % now.block_size
        for row in rows.tolist():
            data = self._read(row)[offset : offset + SUPERBLOCK.size]
            found = Superblock.parse(data)
            same = (found.block_size, found.blocks_per_group, found.inodes_per_group) == (
                now.block_size, now.blocks_per_group, now.inodes_per_group,
            )  # fmt: skip
            fits = judge(found) is None and found.inode_size <= now.inode_size
            if same and fits and found.checksum_ok is not False:
                seed = found.seed if found.has_metadata_checksums else None
                yield int(self.history.tids[row]), Epoch(found.inode_size, seed)

    def _read(self, row: int) -> UInt8s:
        data: UInt8s = self.history.log.read_copies(self.history.tag_rows[row : row + 1])[0]
        return data

    def _told(self, row: int, is_bare: bool = False) -> tuple[Epoch | None, bool]:
        """(epoch shown by a copy of an inode table or None, whether the copy holds inodes).

        Args:
            row: a row of `history.tag_rows`.
            is_bare: whether the log had no checksums at that time. Unchanged inodes may then still
                have checksums of an earlier time.
        """
        data = self._read(row)
        group, byte = int(self._group[row]), int(self._byte[row])
        size = self.present.inode_size
        used = bool((data.view("<u2")[:: GOOD_OLD_SIZE // 2] != 0).any())
        while size >= GOOD_OLD_SIZE:
            seed = self._seed_with(data, group, byte, size)
            if seed is not None and not (
                is_bare and self._has_stale(data, group, byte, size, seed)
            ):
                return Epoch(size, seed), used
            size //= 2
        size = self.present.inode_size
        plain = self.present.seed is None or is_bare or _has_no_checksums(data, size)
        stated_size = size_told(data, size) if plain else None
        return (None if stated_size is None else Epoch(stated_size, None)), used

    def _seed_with(self, data: UInt8s, group: int, byte: int, size: int) -> int | None:
        """Seed of the checksums in a copy, assuming an inode size; None if no seed matches."""
        if self.present.seed is None:  # earlier checksums are not needed
            return None
        rows, numbers = self._inodes(data, group, byte, size)
        if not len(rows):
            return None
        if size > GOOD_OLD_SIZE:
            marks, whole = inode_marks(rows)
            values, counts = np.unique((marks ^ numbers)[whole], return_counts=True)
            best = int(counts.argmax()) if len(counts) else 0
            if len(counts) and (counts[best] > 1 or int(values[best]) in self._seeds):
                return int(values[best])
        for seed in sorted(self._seeds):
            epoch = Epoch(size, seed)
            fits = self._matching(rows, numbers, epoch).sum()
            least = 1 if epoch == self.present else 2  # a 16-bit checksum may match by chance
            if fits >= least and 2 * fits > len(rows):
                return seed
        return None

    def _has_stale(self, data: UInt8s, group: int, byte: int, size: int, seed: int) -> bool:
        """Whether any inode in a copy has a checksum that does not match with the seed."""
        rows, numbers = self._inodes(data, group, byte, size)
        return not self._matching(rows, numbers, Epoch(size, seed)).all()

    def _inodes(self, data: UInt8s, group: int, byte: int, size: int) -> tuple[Bytes2D, Int64s]:
        """(rows, numbers) of the used inodes in a copy of an inode table."""
        inodes = data[: len(data) // size * size].reshape(-1, size)
        slot = np.flatnonzero(_has_type(inodes))
        first = group * self.fs.superblock.inodes_per_group + byte // size + 1
        return inodes[slot], first + slot

    def _matching(self, rows: Bytes2D, numbers: Int64s, epoch: Epoch) -> Bools:
        return inode_rows_ok(rows.copy(), numbers, epoch.superblock(self.fs.superblock))


def _has_type(inodes: Bytes2D) -> Bools:
    """True where the mode of an inode has a valid file type."""
    found: Bools = _KINDS[inodes[:, 1] >> 4]
    return found


def _has_no_checksums(data: UInt8s, size: int) -> bool:
    """Whether all inodes in a copy have zero checksum fields, for inodes of `size` or smaller."""
    inodes = data[: len(data) // size * size].reshape(-1, size)
    used = inodes[_has_type(inodes)]
    return len(used) > 0 and not used[:, _CHECKSUM_LO : _CHECKSUM_LO + 2].any()


def size_told(data: UInt8s, size: int) -> int | None:
    """Inode size in bytes in a copy of an inode table, None if the copy does not show it.

    Args:
        data: uint8 (block size,).
        size: the present inode size, which is the largest possible one.
    """
    while size > GOOD_OLD_SIZE:
        words = data[: len(data) // size * size].view("<u2").reshape(-1, size // 2)
        extra, used = words[:, _EXTRA], _KINDS[words[:, 0] >> 12]
        behind = words[:, _EXTRA : _EXTRA + GOOD_OLD_SIZE // 2].any(axis=1)
        if (behind & (extra > size - GOOD_OLD_SIZE)).any():
            size //= 2
            continue
        return size if (used & (extra >= 4) & (extra % 4 == 0)).any() else None
    return size


def table_places(
    fs: FileSystem, history: BlockHistory, moved: Moved | None
) -> tuple[Int64s, Int64s]:
    """(group, byte offset in its inode table) of each copy; group -1 if in no inode table."""
    group, byte = find_in_tables(fs, history.blocks, fs.groups.inode_table)
    if moved is not None:
        old = history.tids <= moved.order
        group[old], byte[old] = find_in_tables(fs, history.blocks[old], moved.starts)
    return group, byte


def find_in_tables(fs: FileSystem, blocks: Int64s, starts: Int64s) -> tuple[Int64s, Int64s]:
    """As `table_places`, for block numbers, given the first block of each group's inode table."""
    superblock = fs.superblock
    by_start = np.argsort(starts, kind="stable")
    place = np.searchsorted(starts[by_start], blocks, side="right") - 1
    group = by_start[np.maximum(place, 0)]
    byte = (blocks - starts[group]) * superblock.block_size
    inside = (place >= 0) & (byte >= 0) & (starts[group] >= 0)
    inside &= byte < superblock.inodes_per_group * superblock.inode_size
    return np.where(inside, group, -1), np.where(inside, byte, 0)
