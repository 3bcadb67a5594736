"""File contents in untagged journal blocks, for data=journal.

The copies of a transaction are in the order in which it first changed their blocks (kernel
fs/jbd2/transaction.c, `__jbd2_journal_file_buffer`). The blocks of a sequentially written file are
therefore in file order (mixed with metadata), and the files are in creation order. The kernel
zero-fills the rest of the last block, so the file size determines where the data in its copy end. A
position for a file is accepted if it agrees with the creation order of all files of the
transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from ext4kit.arrays.grouping import expand, row_bounds
from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.carving import BlockFeatures, feature_scanner, zero_tails
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history import History
from ext4kit.journal import Log
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.journal_content import ContentCopies, TaggedContentBlocks
from ext4kit.scan import BlockBatch, Scanner
from ext4kit.unallocated.group_metadata import group_metadata_test, named_metadata_test
from ext4kit.unallocated.untagged import tids_of_untagged

_ROWS_AT_ONCE = 1024
_MAX_ZERO_TAIL = 64  # maximum zero bytes at the end of a block in the middle of a file
_MAX_POSITIONS = 4  # maximum positions that fit a file; if more fit, none is used
_MAX_PAIRS = 1 << 16  # maximum pairs of file and position that are examined together
_MIN_CHAIN = 3  # minimum positions in order that are not there by chance


@dataclass(frozen=True, slots=True)
class DataEnds(Table):
    """Where the data of untagged journal blocks ends.

    Attributes:
        position: int64 (n,), number of the log block.
        data_end: int64 (n,), bytes of the block up to the last nonzero one; 0 for metadata.
        of_group: bool (n,), True for blocks that look like group metadata.
    """

    position: Int64s
    data_end: Int64s
    of_group: Bools


@dataclass(frozen=True, slots=True)
class UntaggedBlocks(Table):
    """Untagged journal blocks that are not metadata, by position.

    Attributes:
        position: int64 (n,), number of the log block.
        tid: int64 (n,), tid of the transaction that wrote the block.
        data_end: int64 (n,), bytes of the block up to the last nonzero one.
        of_group: bool (n,), True for blocks that look like group metadata.
    """

    position: Int64s
    tid: Int64s
    data_end: Int64s
    of_group: Bools

    @classmethod
    def from_scan(cls, log: Log | None, ends: DataEnds, metadata: Int64s) -> UntaggedBlocks:
        """Untagged blocks with data.

        Args:
            log: the journal.
            ends: result of `data_end_scanner`.
            metadata: int64, log blocks recognised as metadata.
        """
        kept = ends.take(~np.isin(ends.position, metadata) & (ends.data_end > 0))
        tids = tids_of_untagged(log, kept.position)
        return cls(kept.position, tids, kept.data_end, kept.of_group)


def data_end_scanner(fs: FileSystem) -> Scanner[DataEnds | None]:
    """A scanner that finds `DataEnds` in the log."""
    is_of_group, is_named = group_metadata_test(fs), named_metadata_test(fs)

    def look(batch: BlockBatch) -> DataEnds | None:
        if not batch.in_log:
            return None
        data = batch.data
        ends = np.where(is_named(data), 0, data.shape[1] - zero_tails(data))
        return DataEnds(batch.blocks, ends, is_of_group(data))

    return Scanner("ends of data", look)


@dataclass(frozen=True, slots=True)
class WantedFiles(Table):
    """Files whose contents are searched for, as int64 columns (n,).

    Attributes:
        size: bytes, more than 0; all blocks of the file are mapped and written.
        tid: tid of the transaction that shows the state.
        crtime: creation time, ns; inode: inode number.
    """

    size: Int64s
    tid: Int64s
    crtime: Int64s
    inode: Int64s


def place_contents(copies: UntaggedBlocks, wanted: WantedFiles, block_size: int) -> Rows:
    """Find the contents of files among the untagged copies.

    Returns:
        int64 (n,): row of `copies` with the first block of each file, -1 for none. The other blocks
        of the file are in the rows after that.
    """
    found = np.full(len(wanted), NO_ROW)
    file, first = _candidate_positions(copies, wanted, block_size)
    count = -(-wanted.size // block_size)
    order, held = copies.tid[first], np.sort(copies.tid)
    sort = np.lexsort((wanted.inode[file], wanted.crtime[file], order))
    edges = np.flatnonzero(np.diff(order[sort])) + 1
    for group in np.split(sort, edges) if len(sort) else ():
        here = group[:_MAX_PAIRS]
        chain = here[_heaviest_increasing_chain(file[here], first[here], count[file[here]])]
        blocks = int(count[file[chain]].sum())
        low, high = np.searchsorted(held, [order[here[0]], order[here[0]] + 1]).tolist()
        if len(chain) >= _MIN_CHAIN or 2 * blocks >= high - low:
            found[file[chain]] = first[chain]
    return found


def _candidate_positions(
    copies: UntaggedBlocks, wanted: WantedFiles, block_size: int
) -> tuple[Rows, Rows]:
    """(file, row of its first block) of all positions where the data ends fit the file."""
    count = -(-wanted.size // block_size)
    end = wanted.size - (count - 1) * block_size
    by_end = np.argsort(copies.data_end, kind="stable")
    low = np.searchsorted(copies.data_end[by_end], end)
    high = np.searchsorted(copies.data_end[by_end], end, side="right")
    several = (high - low > _MAX_POSITIONS) & (end < block_size)
    file, position = expand(np.where(several | (end == block_size), 0, high - low))
    last = by_end[low[file] + position]
    first = last - count[file] + 1
    kept = first >= 0
    file, first, last = file[kept], first[kept], last[kept]
    short = np.concatenate([[0], np.cumsum(copies.data_end < block_size - _MAX_ZERO_TAIL)])
    fits = short[last] == short[first]  # no block but the last one ends in many zeros
    before = np.maximum(first - 1, 0)
    after = np.minimum(before + 1, len(copies) - 1)
    gap: Bools = copies.position[after] != copies.position[before] + 1
    fits &= (first == 0) | (copies.data_end[before] < block_size) | gap
    fits &= ~copies.of_group[first]  # such a block may precede the rest of a file
    fits &= (copies.tid[first] == copies.tid[last]) & (copies.tid[last] <= wanted.tid[file])
    return file[fits], first[fits]


class _ParetoFront:
    """Pareto-optimal chains: last file, number of blocks, last place; the first two ascend."""

    def __init__(self) -> None:
        self.files, self.blocks, self.places = [NO_ROW], [0], [NO_ROW]

    def best_before(self, file: int) -> tuple[int, int]:
        """(number of blocks, last place) of the best chain that ends before a file."""
        at = bisect_left(self.files, file) - 1
        return self.blocks[at], self.places[at]

    def add(self, file: int, blocks: int, place: int) -> None:
        """Add a chain and remove the chains that it dominates."""
        at = bisect_left(self.files, file)
        same = at < len(self.files) and self.files[at] == file and self.blocks[at] >= blocks
        if same or self.blocks[at - 1] >= blocks:
            return
        beaten = at
        while beaten < len(self.files) and self.blocks[beaten] <= blocks:
            beaten += 1
        here = slice(at, beaten)
        self.files[here], self.blocks[here], self.places[here] = [file], [blocks], [place]


def _heaviest_increasing_chain(file: Int64s, first: Int64s, count: Int64s) -> list[int]:
    """The places with most blocks that are in the same order as their files.

    Args:
        file: int64 (n,), file of each place; places are sorted by file.
        first: int64 (n,), first row of each place.
        count: int64 (n,), number of rows of each place.
    """
    rank = np.cumsum(np.append(False, file[1:] != file[:-1])[: len(file)]).tolist()
    starts, counts = first.tolist(), count.tolist()
    blocks, above = [0] * len(rank), [NO_ROW] * len(rank)
    front, waiting = _ParetoFront(), list[tuple[int, int]]()
    for place in np.argsort(first, kind="stable").tolist():
        while waiting and waiting[0][0] <= starts[place]:
            done = heappop(waiting)[1]
            front.add(rank[done], blocks[done], done)
        blocks[place], above[place] = front.best_before(rank[place])
        blocks[place] += counts[place]
        heappush(waiting, (starts[place] + counts[place], place))
    for _, done in waiting:
        front.add(rank[done], blocks[done], done)
    chain, place = list[int](), front.places[-1]
    while place != NO_ROW:
        chain.append(place)
        place = above[place]
    return chain


def find_untagged_copies(
    history: History, candidates: Candidates, runs: Runs, reused: Rows, copies: UntaggedBlocks
) -> tuple[ContentCopies, Int64s]:
    """Find the untagged copies that have the content of candidates.

    Args:
        history: the states.
        candidates: the candidates.
        runs: blocks of the candidates up to their sizes.
        reused: candidates with reused blocks; the contents of the other candidates are on disk.
        copies: untagged blocks of the journal.

    Returns:
        (candidate -> (blocks, log blocks), log blocks with contents of unknown files). The latter
        are only from transactions in which files were located.
    """
    if not len(copies):
        return {}, np.zeros(0, np.int64)
    block_size = history.fs.superblock.block_size
    places = _whole_files(history, candidates, runs, block_size)
    table, row = history.states.table, candidates.state_row[places]
    tid = history.states.tid[row]
    wanted = WantedFiles(table.size[row], tid, table.crtime[row], table.number[row])
    first = place_contents(copies, wanted, block_size)
    bounds = row_bounds(runs.owner, len(candidates)).tolist()
    found: dict[int, tuple[Int64s, Int64s]] = {}
    asked = np.isin(places, reused) & (first >= 0)
    for place, at in zip(places[asked].tolist(), first[asked].tolist(), strict=True):
        mine = runs.take(slice(*bounds[place : place + 2]))
        run, position = expand(mine.length)
        blocks, logical = mine.physical[run] + position, mine.logical[run] + position
        order = np.argsort(blocks)
        found[place] = blocks[order], copies.position[at + logical[order]]
    count = -(-wanted.size // block_size)
    return found, _unassigned(copies, first[first >= 0], count[first >= 0])


def _whole_files(history: History, candidates: Candidates, runs: Runs, block_size: int) -> Rows:
    """Regular files in their last state with all blocks mapped and written."""
    table, row = history.states.table, candidates.state_row
    size = table.size[row]
    mapped = np.bincount(runs.owner, runs.length * ~runs.unwritten, len(candidates))
    kept = table.is_regular[row] & (size > 0) & ~candidates.size_unknown
    kept &= ~candidates.superseded & (mapped == -(-size // block_size))
    return np.flatnonzero(kept)


def _unassigned(copies: UntaggedBlocks, first: Rows, count: Int64s) -> Int64s:
    """Log blocks in the transactions of located files that belong to none of these files."""
    row, position = expand(count)
    taken = np.zeros(len(copies), bool)
    taken[first[row] + position] = True
    evident = np.isin(copies.tid, copies.tid[first])
    return copies.position[evident & ~taken]


class UntaggedContentBlocks(TaggedContentBlocks):
    """As `TaggedContentBlocks`, but copies are given by their position in the journal."""

    def read_with(self, blocks: Int64s, copies: Int64s) -> Bytes2D:
        """As `read_many`, with the result of `copies_of`."""
        logged = copies >= 0
        rows = np.empty((len(blocks), self.block_size), np.uint8)
        if not logged.all():
            rows[~logged] = self.base.read_many(blocks[~logged])
        rows[logged] = self.log.reader.read(copies[logged])
        return rows

    def log_blocks_of(self, copies: Int64s) -> Int64s:
        """Each copy is named by its log block."""
        return copies


def block_features_of_journal(log: Log, positions: Int64s) -> tuple[Intervals, BlockFeatures]:
    """Log blocks converted to file system blocks for carving.

    Args:
        log: an internal journal.
        positions: int64, log blocks.

    Returns:
        (these blocks, their block features).
    """
    order = np.argsort(log.reader.log_blocks[positions], kind="stable")
    positions = positions[order]
    blocks = log.reader.log_blocks[positions]
    features = [
        feature_scanner(BlockBatch(blocks[at : at + _ROWS_AT_ONCE], log.reader.read(some)))
        for at in range(0, len(positions), _ROWS_AT_ONCE)
        if len(some := positions[at : at + _ROWS_AT_ONCE])
    ]
    found = BlockFeatures.concat([part for part in features if part is not None])
    return Intervals.of_numbers(blocks), found
