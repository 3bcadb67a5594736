"""Names from unallocated directory blocks and from untagged journal copies.

The checksum of a directory block identifies its directory; without checksums, the `.` entry of a
first block does. An entry has an inode number but no generation. It is used only if exactly one
instance of the number matches in type and time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem.inodes import ROOT
from ext4kit.history import History
from ext4kit.history.first_instances import creation_times, is_first_instance
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.history.removed import SAME_DELETION_WINDOW
from ext4kit.history.transaction_starts import CLOCK_RESOLUTION
from ext4kit.parsers.directory import MODES, Names, parse_entries
from ext4kit.unallocated.metadata import DIRECTORY, MetadataBlocks, read_metadata_blocks
from ext4kit.unallocated.owners import SeedIndex
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.unallocated.untagged import tids_of_untagged
from ext4kit.units import NANOSECONDS

_AT_ONCE = 2048
_FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FoundEntries(Table):
    """Directory entries as columns (n,).

    Attributes:
        directory: inode number of the directory; generation: generation of the directory, -1 if
            unknown.
        inode: inode number in the entry; file_type: type in the entry, 0 for unknown.
        parent: inode number in the `..` entry of the block, 0 if the block is not a first block.
        tid: transaction of a journal copy, -1 for a block on disk.
        name: the names.
    """

    directory: Int64s
    generation: Int64s
    parent: Int64s
    inode: Int64s
    file_type: Int64s
    tid: Int64s
    name: Names


def find_directory_entries(
    space: UnallocatedSpace, structures: MetadataBlocks, owners: SeedIndex, wanted: Bools
) -> FoundEntries:
    """The entries of all directory blocks that were found and whose directory is known.

    Args:
        space: the space that was scanned.
        structures: the metadata blocks found there.
        owners: the known inodes.
        wanted: bool by inode number, True for the numbers whose entries are read.
    """
    blocks = structures.of_kind(DIRECTORY)
    number, generation = owners.inodes_of(blocks.seed)
    stated = (number == 0) & (blocks.stated_number > 0)
    number = np.where(stated, blocks.stated_number, number)
    generation = np.where(stated, -1, generation)
    order = np.where(blocks.in_journal, tids_of_untagged(space.log, blocks.block), -1)
    parts = []
    owned = np.flatnonzero(number > 0)
    for at in range(0, len(owned), _AT_ONCE):
        rows = owned[at : at + _AT_ONCE]
        data = read_metadata_blocks(space, blocks.take(rows))
        entries, _ = parse_entries(data, space.fs.has_file_types, dots=False)
        entries = entries.take(wanted[np.minimum(entries.inode, len(wanted) - 1)])
        row, names = rows[entries.block], entries.packed_names(data)
        above = np.where(blocks.stated_number[rows] > 0, data.view("<u4")[:, 3].astype(np.int64), 0)
        owner = number[row], generation[row], above[entries.block]
        parts.append(FoundEntries(*owner, entries.inode, entries.file_type, order[row], names))
    return FoundEntries.concat(parts)


@dataclass(frozen=True, slots=True)
class InodeInstances(Table):
    """Creation and deletion of each instance (ns), and its type.

    Attributes:
        created: creation time, 0 if unknown.
        freed: deletion time, the maximum if allocated or unknown.
        kind: upper bits of the mode, the file type.
    """

    created: Int64s
    freed: Int64s
    kind: Int64s

    @classmethod
    def of(cls, history: History) -> InodeInstances:
        """The table of the instances of a history."""
        table = history.states.table
        last = history.last_rows
        freed = (table.links_count[last] == 0) & (table.dtime[last] > 0) & ~history.is_allocated
        end = np.where(freed, (table.dtime[last] + 1) * NANOSECONDS, _FOREVER)
        begin = table.crtime[last] // NANOSECONDS * NANOSECONDS
        return cls(begin, end, table.mode[last] >> 12)


def assign_entries(history: History, found: FoundEntries) -> tuple[Rows, Rows]:
    """Assign entries to instances as their last names.

    An entry belongs to an instance of its inode number if the type matches and the directory and
    the instance existed at the same time. Ambiguous entries and instances get no name. A block on
    disk has no time, so its entries may refer to instances recorded only in lost transactions, or
    to unknown earlier ones. This is excluded if directory and instance were deleted together.

    Returns:
        (instance, row of `found`) columns, one row per named instance.
    """
    instances, ended = InodeInstances.of(history), ended_by(history)
    directory = directory_instances(history, found)
    entry, instance = _possible_instances(history, found, directory, instances, ended)
    count = np.bincount(entry, minlength=len(found))
    sole = (count[entry] == 1) & ~history.is_allocated[instance]
    on_disk = np.flatnonzero(sole & (found.tid[entry] < 0))
    named, above = instance[on_disk], directory[entry[on_disk]]
    only = is_first_instance(history, named) | _deleted_together(instances, above, named)
    sole[on_disk] = only & ~_number_used_unrecorded(history, ended)[named]
    entry, instance = entry[sole], instance[sole]
    latest = np.where(found.tid < 0, _FOREVER, found.tid)[entry]  # the disk is the latest copy
    order = np.lexsort((-latest, instance))
    entry, instance = entry[order], instance[order]
    first = starts_group(instance)
    several = np.flatnonzero(~first)
    leading = np.flatnonzero(first)[np.cumsum(first)[several] - 1]
    one = found.take(entry[several])
    other = found.take(entry[leading])
    names = zip(one.name.tolist(), other.name.tolist(), strict=True)
    differs = np.array([mine != theirs for mine, theirs in names], bool)
    differs |= one.directory != other.directory
    differs |= one.generation != other.generation
    kept = first & ~np.isin(instance, instance[several[differs]])
    return instance[kept], entry[kept]


def _possible_instances(
    history: History,
    found: FoundEntries,
    directory: Rows,
    instances: InodeInstances,
    ended: Int64s,
) -> tuple[Rows, Rows]:
    """(entry, instance) for every instance that an entry can refer to.

    If the inode of a directory was reused and only its blocks are left, the time of its entries is
    not known well enough. The inode numbers in these entries may have been reused as well.
    """
    low, high = SortedIndex(history.number).bounds(found.inode)
    entry, position = expand(high - low)
    instance = low[entry] + position
    known = directory >= 0
    begin = np.where(known, np.append(instances.created, 0)[directory], 0)[entry]
    replaced = _number_reused_time(history, found)
    end = np.where(known, np.append(instances.freed, 0)[directory], replaced)[entry]
    kind = MODES[np.minimum(found.file_type[entry], len(MODES) - 1)]
    fits = (kind == 0) | (kind == instances.kind[instance])
    fits &= (instances.created[instance] <= end) & (instances.freed[instance] >= begin)
    fits &= (known | (replaced == _FOREVER))[entry]
    tid = found.tid[entry]
    may_be_later = _created_after_copy(history, instance, tid, -CLOCK_RESOLUTION)
    excluded = may_be_later | (ended[instance] < tid)
    is_unknown = may_be_later & ~_created_after_copy(history, instance, tid, CLOCK_RESOLUTION)
    if history.gaps.restarted_at != NO_RESTART:  # then tids do not show which instance it is
        is_unknown = excluded
    fits &= ~(excluded | np.isin(entry, entry[fits & is_unknown]))
    return entry[fits], instance[fits]


def ended_by(history: History) -> Int64s:
    """Per instance: tid of its first state without links, or of the next instance of its number."""
    states = history.states
    ended_by = np.full(history.instance_count, _FOREVER)
    by_inode = history.by_inode[~states.untagged[history.by_inode]]
    number, instance = states.table.number[by_inode], states.instance[by_inode]
    followed = np.flatnonzero((number[1:] == number[:-1]) & (instance[1:] != instance[:-1]))
    ended_by[instance[followed]] = states.tid[by_inode[followed + 1]]
    rows = np.flatnonzero(~states.untagged & (states.table.links_count == 0))
    np.minimum.at(ended_by, states.instance[rows], states.tid[rows])
    return ended_by


def _deleted_together(instances: InodeInstances, directory: Rows, instance: Rows) -> Bools:
    """True where the directory of an entry and an instance were freed within a short time."""
    freed = np.append(instances.freed, _FOREVER)
    together = np.abs(freed[directory] - freed[instance]) < SAME_DELETION_WINDOW
    result: Bools = together & (freed[directory] < _FOREVER) & (directory != NO_ROW)
    return result


def _number_used_unrecorded(history: History, ended: Int64s) -> Bools:
    """Per instance: True if an unknown instance may have used its number later.

    Later means after this instance ended and before the last known instance of the number. This is
    so if transactions after its end are missing and the number was used again.
    """
    number = history.number
    reused = np.append(number[1:] == number[:-1], False)
    used = np.flatnonzero(reused & (ended < _FOREVER))
    result = np.zeros(len(number), bool)
    result[used] = history.gaps.any_lost_between(ended[used], int(TID_ON_DISK))
    return result


def _number_reused_time(history: History, found: FoundEntries) -> Int64s:
    """Per entry: latest time (ns) at which the inode number of its directory was reused.

    The maximum of int64 if the present inode may be that directory.
    """
    number, place = np.unique(found.directory, return_inverse=True)
    now = history.fs.inode_table(number)
    kinds, crtime = now.mode[place] >> 12, now.crtime[place]
    other = (kinds != 0) & (crtime > 0) & (number[place] != ROOT)
    same = np.where(found.generation >= 0, now.generation[place] == found.generation, kinds == 4)
    same &= ~is_former_directory(found, now.links_count[place] > 0)
    coarse = NANOSECONDS * (crtime % NANOSECONDS == 0)  # e2fsck stores whole seconds
    return np.where(other & ~same, crtime + coarse, _FOREVER)


def is_former_directory(found: FoundEntries, is_allocated: Bools) -> Bools:
    """Per entry (bool): True if its directory's number now belongs to a later directory.

    A directory keeps its first block, which states its number, as long as it exists. A first block
    in unallocated space is therefore of an earlier directory with the same number.

    Args:
        found: the entries.
        is_allocated: bool (n,), True where the directory with that number is allocated.
    """
    return is_allocated & (found.generation < 0) & (found.tid < 0)


def directory_instances(history: History, found: FoundEntries) -> Rows:
    """The instance of the directory of each entry, -1 if unknown."""
    instance = instance_rows_of(history, found.directory, found.generation)
    other = is_former_directory(found, np.append(history.is_allocated, False)[instance])
    by_number = (instance >= 0) & (found.generation < 0)
    other |= by_number & _created_after_copy(history, instance, found.tid, -CLOCK_RESOLUTION)
    return np.where(other, NO_ROW, instance)


def _created_after_copy(history: History, instance: Int64s, order: Int64s, distance: int) -> Bools:
    """True where an instance was created more than `distance` (ns) after the commit of a copy.

    The commit time is set from a coarse clock after the transaction was locked against changes
    (kernel fs/jbd2/commit.c, `jbd2_journal_commit_transaction`). An instance that has a state in
    this transaction or an earlier one was not created later.
    """
    states = history.states  # sorted by instance and tid
    first = np.append(states.tid[starts_group(states.instance)], _FOREVER)
    begun = np.append(creation_times(history), 0)[instance]
    return (first[instance] > order) & (begun - distance > history.times_of(order))


def instance_rows_of(history: History, number: Int64s, generation: Int64s) -> Rows:
    """The instance with each number and generation, -1 for none.

    Without a generation, it is the only directory with the number.
    """
    keys = history.number << 32 | history.generation
    if not len(keys):
        return np.full(len(number), NO_ROW)
    exact = SortedIndex(keys).rows(number << 32 | np.maximum(generation, 0))
    folders = np.flatnonzero(InodeInstances.of(history).kind == 4)
    low, high = SortedIndex(history.number[folders]).bounds(number)
    only = (high - low == 1) & (generation < 0)
    found = np.where(generation >= 0, exact, NO_ROW)
    found[only] = folders[low[only]]
    return found
