"""Doubts: what keeps a candidate from being vouched for although no later owner is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ext4kit.filesystem.maps import Runs, has_map
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags, inode_checksums_ok
from ext4kit.past.states import NOW, Past
from ext4kit.recovery.candidates import LOG, STALE_INDEX, Candidates
from ext4kit.recovery.intervals import overlaps
from ext4kit.recovery.ownership import Ownership
from ext4kit.units import NANOSECONDS

SECTOR = 512
BLOCKS_AT_ONCE = 4096
WRITEBACK = 60 * NANOSECONDS  # dirty pages are on disk well before that
COMMIT_INTERVAL = 5 * NANOSECONDS  # the longest that a transaction stays open by default
ZEROS = 4  # bytes of zeros at a file's end that are more than chance


def find_doubts(
    past: Past,
    found: Candidates,
    runs: Runs,
    ownership: Ownership,
    journaled: Mapping[int, tuple[Any, Any]],
) -> list[tuple[Any, str]]:
    """Reasons against the grade intact.

    Args:
        past: what is known over time.
        found: the candidates.
        runs: their blocks up to their size.
        ownership: who had which block.
        journaled: (blocks, log copies) of candidates whose content went through the log.

    Returns:
        (per candidate (bool), what is wrong with it) pairs.
    """
    blank, foreign = _ends_of(past, found, runs, journaled)
    return [
        (found.source == STALE_INDEX, "size not known: up to the last byte that is not zero"),
        (found.damaged, "a part of its block map could not be read"),
        (_incomplete(past, found), "its block map holds fewer blocks than its inode counts"),
        (_beyond(past, found, runs), "a part of it lies beyond the end of the evidence"),
        (_unproven(past, found), "the checksum of its inode does not fit"),
        (_uncommitted(past, found), "its state comes from a transaction without a commit"),
        (_unseen(past, found), "a later fast commit may have changed its blocks unseen"),
        (
            _written_again(past, found, runs, ownership),
            "the same file went on using blocks of this state: their bytes may be newer",
        ),
        (
            blank & _recent(past, found),
            "its last bytes are zeros and it went soon: they may never have been written",
        ),
        (
            _overtaken(past, found, journaled),
            "its last write did not go through the log, which holds earlier bytes of it",
        ),
        (
            _unlogged(past, found, runs, journaled) & _recent(past, found),
            "the log has not all of its journaled bytes, and they may not be in their place",
        ),
        (
            _rewritten(past, found) & _recent(past, found),
            "it was written in place and went soon: the bytes may be older ones of its own",
        ),
        (foreign, "the block with its end was written by others"),
    ]


def _incomplete(past: Past, found: Candidates) -> Any:
    """The map lacks blocks that i_blocks counts.

    A tree block that a deletion of several transactions had cut down on disk reads well and
    has a good checksum. Clusters and values kept in inodes of their own are counted otherwise.
    """
    superblock, table = past.fs.superblock, past.states.table
    if superblock.cluster_ratio > 1 or Incompat.EA_INODE in superblock.features:
        return np.zeros(len(found), bool)
    owners = np.concatenate([found.runs.owner, found.nodes[0]])
    lengths = np.concatenate([found.runs.length, np.ones(len(found.nodes[0]), np.int64)])
    mapped = np.bincount(owners, lengths, len(found)) + (table.file_acl[found.row] > 0)
    counted = table.blocks[found.row] * SECTOR // superblock.block_size
    kinds = np.isin(table.mode[found.row] & 0xF000, (0x8000, 0xA000))
    return kinds & (found.source != STALE_INDEX) & (counted > mapped)


def _beyond(past: Past, found: Candidates, runs: Runs) -> Any:
    """Blocks that the file system has and the evidence lacks."""
    doubtful = np.zeros(len(found), bool)
    doubtful[runs.owner[runs.physical + runs.length > past.fs.blocks.blocks_count]] = True
    return doubtful


def _unproven(past: Past, found: Candidates) -> Any:
    """States in the log were checked when they were read; those on disk are so here."""
    superblock = past.fs.superblock
    if not superblock.has_metadata_checksums:
        return np.zeros(len(found), bool)
    return ~inode_checksums_ok(past.states.table.take(found.row), superblock)


def _uncommitted(past: Past, found: Candidates) -> Any:
    """What an interrupted commit says never came to pass; its data may not have been written."""
    log = past.log
    open_ones = [item.order for item in (log.transactions if log else ()) if not item.committed]
    return np.isin(past.states.order[found.row], open_ones)


def _unseen(past: Past, found: Candidates) -> Any:
    """Fast commits change files and take blocks; later full commits need not show that."""
    last = past.last_fast_commit
    return (found.source == LOG) & (past.states.order[found.row] < last)


def _overtaken(past: Past, found: Candidates, journaled: Mapping[int, tuple[Any, Any]]) -> Any:
    """Content was journaled, and written otherwise under a later mount without data=journal."""
    doubtful = np.zeros(len(found), bool)
    states, mtime = past.states, past.states.table.mtime
    for place, (_, tags) in journaled.items():
        assert past.log is not None
        row = int(found.row[place])
        first = int(np.searchsorted(states.life, states.life[row]))
        same = first + np.flatnonzero(mtime[first : row + 1] == mtime[row])
        doubtful[place] = past.log.tags.order[tags].max() < states.order[same[0]]
    return doubtful


def _unlogged(
    past: Past, found: Candidates, runs: Runs, journaled: Mapping[int, tuple[Any, Any]]
) -> Any:
    """Where data is journaled, a deletion keeps what was not yet checkpointed off its place."""
    files = _files(past, found)
    copies = np.zeros(len(found), np.int64)
    for place, (blocks, _) in journaled.items():
        copies[place] = len(blocks)
    written = np.bincount(runs.owner, runs.length * ~runs.unwritten, len(found))
    usual = 2 * (copies > 0)[files].sum() > (written > 0)[files].sum()
    return files & (copies < written) & ((copies > 0) | usual)


def _written_again(past: Past, found: Candidates, runs: Runs, ownership: Ownership) -> Any:
    """An earlier state's blocks that later states of the same life have too."""
    doubtful = np.zeros(len(found), bool)
    claims, order, life = ownership.logged, past.states.order, past.states.life
    wanted = runs.take(found.superseded[runs.owner])
    mine, other = overlaps(wanted.physical, wanted.length, claims.start, claims.length)
    candidate = wanted.owner[mine]
    row = found.row[candidate]
    later = (claims.life[other] == life[row]) & (claims.order[other] > order[row])
    doubtful[candidate[later & (order[row] != NOW)]] = True
    return doubtful


def _ends_of(
    past: Past, found: Candidates, runs: Runs, journaled: Mapping[int, tuple[Any, Any]]
) -> tuple[Any, Any]:
    """(blank, foreign) per candidate (bool), from the block that holds its last byte.

    Blank: the last bytes are zeros or in no written block. The size can be committed before
    the bytes, with an append within the last block and when a file is made longer while its
    data waits for writeback. Foreign: bytes behind the end, which the kernel writes as zeros,
    are none: somebody used the block within one transaction, which leaves no other trace.
    Source: kernel fs/ext4/inode.c, `ext4_da_should_update_i_disksize`, `ext4_setattr`.
    """
    table, row, block_size = past.states.table, found.row, past.fs.superblock.block_size
    size = table.size[row]
    last, end = np.divmod(size - 1, block_size)
    judged = _files(past, found) & (size > 0) & has_map(table.mode[row], size, table.flags[row])
    judged &= ~np.array([place in journaled for place in range(len(found))], bool)
    holds = judged[runs.owner] & ~runs.unwritten & (runs.logical <= last[runs.owner])
    held = runs.take(holds & (last[runs.owner] < runs.logical + runs.length))
    block = held.physical + last[held.owner] - held.logical
    blank, foreign = judged, np.zeros(len(found), bool)
    for start in range(0, len(held), BLOCKS_AT_ONCE):
        owner = held.owner[start : start + BLOCKS_AT_ONCE]
        rows, readable = past.fs.fetch(block[start : start + BLOCKS_AT_ONCE])
        near = np.maximum(end[owner][:, None] - np.arange(ZEROS), 0)
        blank[owner] = readable & ~np.take_along_axis(rows, near, axis=1).any(axis=1)
        foreign[owner] = readable & (_last_used(rows) > end[owner])
    return blank, foreign


def _last_used(rows: Any) -> Any:
    """Per row: position of the last byte that is not zero, -1 for none."""
    used = rows != 0
    last = rows.shape[1] - 1 - np.argmax(used[:, ::-1], axis=1)
    return np.where(used.any(axis=1), last, -1)


def _files(past: Past, found: Candidates) -> Any:
    """Regular files of known size, their bytes not encrypted."""
    table, row = past.states.table, found.row
    plain = (table.flags[row] & int(InodeFlags.ENCRYPT)) == 0
    return plain & ((table.mode[row] & 0xF000) == 0x8000) & (found.source != STALE_INDEX)


def _rewritten(past: Past, found: Candidates) -> Any:
    """Written in place: only bytes in newly taken blocks are on disk when a state is committed.

    A state whose mtime is later than that of the first state with the same map was. Without
    delayed allocation (files without extents) an append goes into the last block in place as
    well, so there the life's first state with content is compared. A file older than the log
    may have been, unless its last write is of the moment of its creation.
    Source: kernel fs/ext4/inode.c, `ext4_write_end` and `ext4_map_blocks` (data=ordered).
    """
    states, table = past.states, past.states.table
    same = np.zeros(len(states), bool)
    by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
    kept = (table.i_block[1:] == table.i_block[:-1]).all(axis=1)
    kept |= ~by_extents[1:] & (table.size[:-1] > 0)
    same[1:] = (states.life[1:] == states.life[:-1]) & kept
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(states))))[found.row]
    times = [item.commit_time_ns for item in (past.log.transactions if past.log else ())]
    oldest = min((time for time in times if time is not None), default=0)
    is_first = first == np.searchsorted(states.life, states.life[first])
    older = (
        is_first
        & (table.extra_isize[first] >= 24)
        & (table.crtime[first] < oldest - COMMIT_INTERVAL)
    )
    older &= table.mtime[first] != table.crtime[first]
    changed = table.mtime[first] != table.mtime[found.row]
    inline = (table.flags[found.row] & int(InodeFlags.INLINE_DATA)) != 0
    return _files(past, found) & ~inline & (table.size[found.row] > 0) & (changed | older)


def _recent(past: Past, found: Candidates) -> Any:
    """It went, or the log ended, before writeback was sure to be through."""
    return _ages(past, found.row) < WRITEBACK


def _ages(past: Past, rows: Any) -> Any:
    """Nanoseconds from each state's last write to its deletion, or to the log's last commit."""
    states = past.states
    last = np.searchsorted(states.life, states.life[rows], side="right") - 1
    freed = (states.table.links_count[last] == 0) & ~states.whole[last]
    times = [item.commit_time_ns for item in (past.log.transactions if past.log else ())]
    stop = max((time for time in times if time is not None), default=0)
    gone = np.where(freed, (states.table.dtime[last] + 1) * NANOSECONDS, stop)
    return gone - states.table.mtime[rows]
