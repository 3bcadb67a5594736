"""Checks that limit the grade of a candidate although no later owner is known."""

from __future__ import annotations

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.carving import zero_tails
from ext4kit.filesystem.block_maps import Runs, has_map
from ext4kit.filesystem.blocks import BlockReader, unreadable_blocks
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags, inode_checksums_ok
from ext4kit.reasons import Reason
from ext4kit.recovery.block_uses import BlockReuse, BlockUses
from ext4kit.recovery.candidates import JOURNAL, Candidates
from ext4kit.recovery.grading.unlogged_reuse import (
    check_unlogged_reuse,
    journal_gap_before_deletion,
)
from ext4kit.recovery.grading.unrecorded import emptied_state, find_unrecorded
from ext4kit.recovery.grading.writes import WriteHistory
from ext4kit.recovery.journal_content import ContentCopies
from ext4kit.units import SECTOR

BLOCKS_AT_ONCE = 4096
PREFETCH_BYTES = 4 << 20  # of each of the pieces that are read ahead
MIN_ZERO_PADDING = 4  # bytes of zeros at a file's end that are more than chance
MIN_WRITEBACK_CHUNK = 4 << 20  # writeback takes at least this much of one file at a time


def run_checks(
    history: History,
    found: Candidates,
    runs: Runs,
    uses: BlockUses,
    journaled: ContentCopies,
    reuse: BlockReuse,
) -> tuple[list[tuple[Bools, Reason]], list[tuple[Bools, Reason]]]:
    """Run the checks that limit a candidate to partial or to consistent.

    Args:
        history: of the file system.
        found: the candidates.
        runs: their runs up to the file size.
        uses: block uses of all instances.
        journaled: (blocks, journal copies) of candidates whose content was journaled.
        reuse: blocks that were reused later.

    Returns:
        (pairs (bool per candidate, reason for partial), pairs (bool per candidate, reason for
        consistent)).
    """
    writes, row, tid = WriteHistory(history), found.state_row, history.states.tid
    last_write = writes.last_write_row[row]
    recent = writes.may_not_be_flushed(row, last_write)
    blank, foreign = check_last_block(history, found, runs, journaled, writes)
    copies = _copies(found, journaled)
    oldest = np.full(len(found), TID_ON_DISK)
    for candidate, (_, tags) in journaled.items():
        assert history.log is not None
        oldest[candidate] = history.log.tags.order[tags].min()
    outdated = oldest < tid[last_write]  # written to since
    from_log = (copies > 0) & (copies >= _written_blocks(found, runs))
    files = is_sized_file(history, found)
    unflushed_start = writes.may_not_be_flushed(row, writes.rewritten_before_first_state[row])
    unwritten = writes.awaits_writeback[row] & files
    empty = files & (history.states.table.size[row] == 0)
    empty &= history.fs.superblock.cluster_ratio > 1
    moved = _inline(history, found) & recent & ~writes.written_once[row]
    kept = kept_by_later_version(history, found, runs, uses) & ~from_log
    conflict = journal_disk_conflict(history, found, journaled, reuse) & (recent | outdated)
    incomplete = journal_data_incomplete(history, found, runs, journaled) & recent
    gap = outdated & journal_gap_before_deletion(history, found, oldest)
    partial = [
        (found.size_unknown, reasons.SIZE_UNKNOWN),
        (history.states.untagged[row], reasons.UNTAGGED_INODE_COPY),
        (found.map_damaged, reasons.MAP_UNREADABLE),
        (map_incomplete(history, found), reasons.MAP_INCOMPLETE),
        (beyond_evidence(history, found, runs), reasons.BEYOND_EVIDENCE),
        (on_unreadable_media(history.fs.blocks, runs, len(found)), reasons.UNREADABLE_MEDIA),
        (bitmap_unreadable(history, found, runs), reasons.BITMAP_UNREADABLE),
        (inode_checksum_bad(history, found), reasons.INODE_CHECKSUM),
        (uncommitted_state(history, found), reasons.UNCOMMITTED_STATE),
        (kept, reasons.KEPT_BY_LATER_VERSION),
        (blank & recent, reasons.UNWRITTEN_TAIL),
        (journal_copy_outdated(history, found, journaled), reasons.JOURNAL_COPY_OUTDATED),
        (conflict, reasons.JOURNAL_DISK_CONFLICT),
        (incomplete, reasons.JOURNAL_DATA_INCOMPLETE),
        (unwritten & recent, reasons.DATA_NEVER_FLUSHED),
        (moved, reasons.INLINE_DATA_MOVED),
        (changed_after_last_state(history, found), reasons.CHANGED_AFTER_LAST_STATE),
        (writeback_in_progress(history, found, runs, recent), reasons.WRITEBACK_IN_PROGRESS),
        (foreign, reasons.FOREIGN_DATA_IN_SLACK),
    ]
    in_place = in_place_write_not_flushed(history, found, writes)
    from_disk = files & ~from_log
    consistent = [
        *check_unlogged_reuse(history, found, runs, writes, from_disk),
        (gap, reasons.JOURNAL_GAP_AFTER_COPIES),
        (later_fast_commit(history, found), reasons.LATER_FAST_COMMIT),
        (in_place, reasons.IN_PLACE_WRITE_NOT_FLUSHED),
        (unwritten & ~recent, reasons.WRITE_WITHOUT_DATA),
        (empty & ~recent & ~unwritten, reasons.EMPTY_ON_BIGALLOC),
        (unflushed_start & from_disk, reasons.EARLY_REWRITE_NOT_FLUSHED),
        (may_have_newer_copies(history, found, journaled), reasons.JOURNAL_UNREADABLE),
        *find_unrecorded(history, found, writes, from_disk),
    ]
    return partial, consistent


def map_incomplete(history: History, found: Candidates) -> Bools:
    """The map has fewer blocks than i_blocks counts.

    A tree block truncated on disk by a deletion over several transactions still parses and has
    a valid checksum. bigalloc and ea_inode count blocks differently and are not checked.
    """
    superblock, table = history.fs.superblock, history.states.table
    if superblock.cluster_ratio > 1 or Incompat.EA_INODE in superblock.features:
        return np.zeros(len(found), bool)
    mapped = np.bincount(found.runs.owner, found.runs.length, len(found))
    mapped += np.bincount(found.tree_blocks[0], minlength=len(found))
    mapped += table.file_acl[found.state_row] > 0
    counted = table.blocks[found.state_row] * SECTOR // superblock.block_size
    kinds = (table.is_regular | table.is_symlink)[found.state_row]
    return kinds & ~found.size_unknown & (counted > mapped)


def bitmap_unreadable(history: History, found: Candidates, runs: Runs) -> Bools:
    """Blocks of a group with an unreadable bitmap."""
    applies = np.zeros(len(found), bool)
    applies[runs.owner[history.fs.bitmaps.blocks_unknown(runs.physical, runs.length)]] = True
    return applies


def beyond_evidence(history: History, found: Candidates, runs: Runs) -> Bools:
    """Blocks of the file system beyond the end of the evidence."""
    applies = np.zeros(len(found), bool)
    applies[runs.owner[runs.physical + runs.length > history.fs.blocks.blocks_count]] = True
    return applies


def inode_checksum_bad(history: History, found: Candidates) -> Bools:
    """The inode checksum is wrong; journal states were verified when read."""
    superblock = history.fs.superblock
    if not superblock.has_metadata_checksums:
        return np.zeros(len(found), bool)
    fits: Bools = inode_checksums_ok(history.states.table.take(found.state_row), superblock)
    return ~fits


def uncommitted_state(history: History, found: Candidates) -> Bools:
    """The state is of an uncommitted transaction; its data may not be on disk."""
    log = history.log
    open_ones = [item.order for item in (log.transactions if log else ()) if not item.committed]
    return np.isin(history.states.tid[found.state_row], open_ones)


def later_fast_commit(history: History, found: Candidates) -> Bools:
    """Fast commits change files and allocate blocks; later full commits may not show it."""
    last = history.last_fast_commit
    later: Bools = (found.map_source == JOURNAL) & (history.states.tid[found.state_row] < last)
    return later


def journal_copy_outdated(history: History, found: Candidates, journaled: ContentCopies) -> Bools:
    """Content was journaled, then rewritten under a later mount without data=journal."""
    applies = np.zeros(len(found), bool)
    states, mtime = history.states, history.states.table.mtime
    for place, (_, tags) in journaled.items():
        assert history.log is not None
        row = int(found.state_row[place])
        first = int(np.searchsorted(states.instance, states.instance[row]))
        same = first + np.flatnonzero(mtime[first : row + 1] == mtime[row])
        applies[place] = history.log.tags.order[tags].max() < states.tid[same[0]]
    return applies


def journal_disk_conflict(
    history: History, found: Candidates, journaled: ContentCopies, reuse: BlockReuse
) -> Bools:
    """Journal copy and disk differ although the copy is checkpointed.

    A transaction can end between block allocation and the write of the journaled data, and a
    deletion can precede the checkpoint: either content may be the right one.
    """
    applies = np.zeros(len(found), bool)
    log = history.log
    if not journaled or log is None:
        return applies
    known = log.transactions
    places = np.fromiter(journaled, np.int64)
    owner = np.repeat(places, [len(journaled[place][0]) for place in places.tolist()])
    blocks, tags = (np.concatenate(column) for column in zip(*journaled.values(), strict=True))
    written_out = ~known.to_replay[known.row_of(log.tags.order[tags])]
    mine, other = overlap_pairs(blocks, np.ones_like(blocks), reuse.start, reuse.length)
    written_out[mine[owner[mine] == reuse.candidate[other]]] = False  # the disk tells of others
    owner, blocks, tags = owner[written_out], blocks[written_out], tags[written_out]
    for start in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = slice(start, start + BLOCKS_AT_ONCE)
        disk, readable = history.fs.fetch(blocks[some])
        differ = readable & (disk != log.read_copies(tags[some])).any(axis=1)
        applies[owner[some][differ]] = True
    return applies


def journal_data_incomplete(
    history: History, found: Candidates, runs: Runs, journaled: ContentCopies
) -> Bools:
    """With data=journal, a deletion prevents the checkpoint of data still pending."""
    files = is_sized_file(history, found)
    copies, written = _copies(found, journaled), _written_blocks(found, runs)
    usual = 2 * (copies > 0)[files].sum() > (written > 0)[files].sum()
    files &= (copies < written) & ((copies > 0) | usual)
    return files


def _copies(found: Candidates, journaled: ContentCopies) -> Int64s:
    """Per candidate: blocks with a data copy in the journal."""
    copies = np.zeros(len(found), np.int64)
    for place, (blocks, _) in journaled.items():
        copies[place] = len(blocks)
    return copies


def _written_blocks(found: Candidates, runs: Runs) -> Int64s:
    """Per candidate: number of written blocks."""
    return np.bincount(runs.owner, runs.length * ~runs.unwritten, len(found)).astype(np.int64)


def kept_by_later_version(
    history: History, found: Candidates, runs: Runs, uses: BlockUses
) -> Bools:
    """Blocks of an earlier version that later states of the instance also map."""
    applies = np.zeros(len(found), bool)
    order, instance = history.states.tid, history.states.instance
    wanted = runs.take(found.superseded[runs.owner])
    mine, other = overlap_pairs(wanted.physical, wanted.length, uses.start, uses.length)
    candidate = wanted.owner[mine]
    row = found.state_row[candidate]
    later = (uses.instance[other] == instance[row]) & (uses.tid[other] > order[row])
    applies[candidate[later & (order[row] != TID_ON_DISK)]] = True
    return applies


def check_last_block(
    history: History, found: Candidates, runs: Runs, journaled: ContentCopies, writes: WriteHistory
) -> tuple[Bools, Bools]:
    """(blank, foreign) per candidate (bool), from the block that holds its last byte.

    Blank: the last bytes are zeros or in no written block. The size can be committed before
    the data, by an append within the last block or when a file grows while its data awaits
    writeback. A file written once has all of its last block or none of it.
    Foreign: the slack, which the kernel zero-fills, is not zero: another file used the block
    within one transaction, which leaves no other trace.
    Source: kernel fs/ext4/inode.c, `ext4_da_should_update_i_disksize`, `ext4_setattr`.
    """
    table, row, block_size = history.states.table, found.state_row, history.fs.superblock.block_size
    size = table.size[row]
    last, end = np.divmod(size - 1, block_size)
    judged = (
        is_sized_file(history, found)
        & ((table.flags[row] & int(InodeFlags.ENCRYPT)) == 0)  # ciphertext has no zero padding
        & (size > 0)
        & has_map(table.mode[row], size, table.flags[row])
    )
    judged[list(journaled)] = False
    holds = judged[runs.owner] & ~runs.unwritten & (runs.logical <= last[runs.owner])
    held = runs.take(holds & (last[runs.owner] < runs.logical + runs.length))
    block = held.physical + last[held.owner] - held.logical
    blank, foreign = judged, np.zeros(len(found), bool)
    in_one_go = writes.written_once[row] & ((table.flags[row] & int(InodeFlags.EXTENTS)) != 0)
    step = max(PREFETCH_BYTES // history.fs.superblock.block_size, 1)
    some = [slice(at, at + step) for at in range(0, len(held), step)]
    read = prefetch_map(lambda part: history.fs.fetch(block[part]), some)
    for part, (rows, readable) in zip(some, read, strict=True):
        owner, used = held.owner[part], block_size - 1 - zero_tails(rows)  # last nonzero byte
        near = np.maximum(end[owner][:, None] - np.arange(MIN_ZERO_PADDING), 0)
        zeros = ~np.take_along_axis(rows, near, axis=1).any(axis=1)
        zeros = np.where(in_one_go[owner], used < 0, zeros)
        blank[owner] = readable & zeros
        foreign[owner] = readable & (used > end[owner])
    return blank, foreign


def is_sized_file(history: History, found: Candidates) -> Bools:
    """Regular files of known size."""
    return history.states.table.is_regular[found.state_row] & ~found.size_unknown


def _inline(history: History, found: Candidates) -> Bools:
    """Files with inline data; on disk they stay inline until writeback allocates blocks.

    Source: kernel fs/ext4/inline.c, `ext4_da_convert_inline_data_to_extent`.
    """
    inline: Bools = (history.states.table.flags[found.state_row] & int(InodeFlags.INLINE_DATA)) != 0
    return is_sized_file(history, found) & inline


def in_place_write_not_flushed(history: History, found: Candidates, writes: WriteHistory) -> Bools:
    """In-place writes: a commit waits only for data in newly allocated blocks.

    Source: kernel fs/ext4/inode.c, `ext4_write_end` and `ext4_map_blocks` (data=ordered).
    """
    table, states = history.states.table, history.states
    dirtied = writes.last_in_place_write_row(states.instance[found.state_row])[found.state_row]
    recent = writes.may_not_be_flushed(found.state_row, dirtied)
    return (
        is_sized_file(history, found)
        & ~_inline(history, found)
        & (table.size[found.state_row] > 0)
        & recent
    )


def changed_after_last_state(history: History, found: Candidates) -> Bools:
    """i_version of the freed or orphan inode exceeds that of the last state with content."""
    row, version = found.state_row, history.states.table.version
    after = emptied_state(history, found)
    return is_sized_file(history, found) & (after >= 0) & (version[after] > version[row])


def writeback_in_progress(history: History, found: Candidates, runs: Runs, recent: Bools) -> Bools:
    """The state was committed during writeback, which raises the size step by step.

    Unless the file is large, writeback continues at once and the next transaction shows more.
    Source: kernel fs/ext4/inode.c, `mpage_map_and_submit_extent`.
    """
    row, states = found.state_row, history.states
    size, block_size = states.table.size[row], history.fs.superblock.block_size
    ends = np.zeros(len(found), np.int64)
    np.maximum.at(ends, runs.owner, runs.logical + runs.length)
    full = (size > 0) & (ends * block_size == size)
    following = history.next_tid[row]
    last = history.log.transactions.order.max(initial=0) if history.log else 0
    at_once = (states.tid[row] >= last) & np.isin(following, [TID_NONE, int(TID_ON_DISK)])
    at_once |= following == states.tid[row] + 1
    going_on = recent & (at_once | (size >= MIN_WRITEBACK_CHUNK))
    working: Bools = (
        is_sized_file(history, found) & full & (states.tid[row] != TID_ON_DISK) & going_on
    )
    return working


def on_unreadable_media(blocks: BlockReader, runs: Runs, count: int) -> Bools:
    """Per owner of runs (bool): some of its written blocks are unreadable.

    Args:
        blocks: of the file system.
        runs: `owner` is below `count`.
        count: number of owners.
    """
    table, doubtful = unreadable_blocks(blocks), np.zeros(count, bool)
    if len(table):
        start, length = table[:, 0], table[:, 1] - table[:, 0]
        mine, _ = overlap_pairs(runs.physical, runs.length, start, length)
        doubtful[runs.owner[mine[~runs.unwritten[mine]]]] = True
    return doubtful


def may_have_newer_copies(history: History, found: Candidates, journaled: ContentCopies) -> Bools:
    """Per candidate (bool): a transaction between its oldest copy and its state is damaged.

    Args:
        history: of the file system.
        found: the candidates.
        journaled: (blocks, journal copies) of candidates whose content was journaled.
    """
    newer = np.zeros(len(found), bool)
    if history.log is None or not journaled:
        return newer
    places = np.fromiter(journaled, np.int64)
    order = history.log.tags.order
    oldest = np.array([order[copies].min() for _, copies in journaled.values()], np.int64)
    newer[places] = history.gaps.any_damaged(oldest, history.states.tid[found.state_row[places]])
    return newer


def are_contradicted(
    history: History, journaled: ContentCopies, death: Int64s, taken: tuple[Rows, Int64s, Int64s]
) -> Bools:
    """Candidates of which the disk contradicts a checkpointed copy; bool (n,).

    An unmount checkpoints every copy to its home block. Other content there was written later,
    without the journal but before the deletion: it is what a reader of the file got. Causes are
    a mount without `data=journal` and two kernel buffers of one block.

    Args:
        history: of the file system.
        journaled: per candidate: (blocks that ascend, rows of the log's tags).
        death: per candidate: the order of its deletion.
        taken: (candidate, start, length) of blocks that others had later, whose bytes say nothing.
    """
    found = np.zeros(len(death), bool)
    if not journaled or history.log is None or history.copies is None:
        return found
    blocks, tags = (np.concatenate(part) for part in zip(*journaled.values(), strict=True))
    candidate = np.repeat(list(journaled), [len(each) for each, _ in journaled.values()])
    orders = np.zeros(len(history.log.tags), np.int64)
    orders[history.copies.tag_rows] = history.copies.tids
    gaps = history.gaps
    after = np.append(gaps.tid_after[gaps.unmounted], np.iinfo(np.int64).max)
    row = np.searchsorted(gaps.tid_before[gaps.unmounted], orders[tags])
    kept = after[row] <= death[candidate]  # an unmount lies between copy and deletion
    owner, start, length = taken
    mine, place = overlap_pairs(start, length, blocks, np.ones(len(blocks), np.int64))
    kept[place[owner[mine] == candidate[place]]] = False
    rows = np.flatnonzero(kept)
    for at in range(0, len(rows), BLOCKS_AT_ONCE):
        some = rows[at : at + BLOCKS_AT_ONCE]
        home, readable = history.fs.fetch(blocks[some])
        other = (home != history.log.read_copies(tags[some])).any(axis=1)
        other &= readable & home.any(axis=1)  # zeros: discarded since
        found[candidate[some[other]]] = True
    return found
