"""All that is known of some blocks, as objects for people and records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.directories import with_inodes
from ext4kit.filesystem.inodes import ROOT
from ext4kit.history.inode_states import NO_NUMBERS, TID_ON_DISK
from ext4kit.journal.block_types import BlockRole
from ext4kit.owners.earlier import EarlierOwners, EarlierUses, Knowledge
from ext4kit.owners.present import BlockOwners, PresentUses
from ext4kit.parsers.journal import BlockType
from ext4kit.recovery.model import DeletedFile, TransactionTime
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.records import FoundFiles
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.units import Progress

if TYPE_CHECKING:
    from ext4kit.workspace import Workspace

_HEADERS = {
    BlockType.DESCRIPTOR: "descriptor block",
    BlockType.COMMIT: "commit block",
    BlockType.REVOKE: "revoke block",
}


@dataclass(frozen=True, slots=True)
class PresentUse:
    """What a block is now.

    Attributes:
        role, inode, number, file_block, used: as in `PresentUses`.
        paths: full paths of the owner.
        size: of the owner, bytes; 0 without one.
        since: the first transaction that shows the owner with the block; None if none does.
    """

    role: BlockRole
    inode: int
    number: int
    file_block: int
    used: int
    paths: tuple[bytes, ...] = ()
    size: int = 0
    since: TransactionTime | None = None


@dataclass(frozen=True, slots=True)
class EarlierUse:
    """Who had a block before.

    Attributes:
        role: what the block was.
        inode, generation: of the owner.
        file_block: in the file; -1 of tree and attribute blocks.
        paths: full paths of the owner while it had the block, the oldest first; empty if unknown.
        first, last: the first and the last transaction that show it; None for other evidence.
        ended: the first transaction that shows the inode without the block, None if none does.
        knowledge: what that rests on.
        file: the deleted file, or earlier version, whose content the block holds or held.
        is_reused: recovery found a later owner of the block.
    """

    role: BlockRole
    inode: int
    generation: int
    file_block: int
    paths: tuple[bytes, ...]
    first: TransactionTime | None
    last: TransactionTime | None
    ended: TransactionTime | None
    knowledge: Knowledge
    file: DeletedFile | None
    is_reused: bool


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A copy of a block in the journal.

    Attributes:
        transaction: it belongs to; its time is that of the commit.
        is_committed: whether that has a valid commit block.
        log_block: where it is.
        offset: byte in the volume; None if the log is on another device.
    """

    transaction: TransactionTime
    is_committed: bool
    log_block: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class LogBlock:
    """What a block of the journal holds.

    Attributes:
        kind: in words.
        transaction: it belongs to; None if none is known.
        home: the block that it is a copy of, None for none.
    """

    kind: str
    transaction: TransactionTime | None = None
    home: int | None = None


@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """All that is known of a block.

    Attributes:
        block: the block.
        is_allocated: as its bitmap has it; None outside the file system or where it is unreadable.
        present: what it is now, at least one.
        earlier: who had it before, the oldest first; without the present owner.
        contents: carved contents with the block.
        copies: of it in the journal, the oldest first.
        log: what it holds, of a block of the journal.
    """

    block: int
    is_allocated: bool | None
    present: tuple[PresentUse, ...]
    earlier: tuple[EarlierUse, ...] = ()
    contents: tuple[DeletedFile, ...] = ()
    copies: tuple[BlockCopy, ...] = ()
    log: LogBlock | None = None

    @property
    def role(self) -> BlockRole:
        """What it is now."""
        return self.present[0].role


def who(
    workspace: Workspace,
    blocks: Int64s,
    sources: frozenset[SearchSource] = ALL_SOURCES,
    progress: Progress | None = None,
) -> list[BlockAnswer]:
    """All that is known of blocks: owners now and before, contents, copies in the journal.

    Args:
        workspace: of the file system, opened with its journal replayed; not of a lost one.
        blocks: int64 (n,), in any order.
        sources: where to search for deleted files. Contents are carved only if a block is free.
        progress: as for `find_deleted`.

    Returns:
        An answer for each block, in their order.
    """
    owners = BlockOwners.read(workspace)
    present = owners.of(blocks).inode
    used = workspace.fs.bitmaps.blocks_in_use(blocks)  # before a search counts more as used
    if used.all():
        sources -= {SearchSource.RUNS}
    watched = np.unique(np.append(present[present > ROOT], NO_NUMBERS))
    found = find_deleted(workspace, True, sources, progress, watched).files
    assert isinstance(found, FoundFiles)
    return answers(workspace, owners, EarlierOwners(found), blocks, used)


def answers(
    workspace: Workspace,
    owners: BlockOwners,
    earlier: EarlierOwners,
    blocks: Int64s,
    used: Bools | None = None,
) -> list[BlockAnswer]:
    """As `who`, from owners that are read already.

    Args:
        workspace: of the file system.
        owners: present ones.
        earlier: earlier ones; names of live files of which no state is recorded are those of now.
        blocks: int64 (n,), in any order.
        used: bool (n,), whether each block is allocated; by default, as its bitmap has it.
    """
    if used is None:
        used = workspace.fs.bitmaps.blocks_in_use(blocks)
    return _Answers(workspace, owners, earlier, blocks, used).listed()


class _Answers:
    """Joins all sources for some blocks; arguments as for `answers`."""

    def __init__(
        self,
        workspace: Workspace,
        owners: BlockOwners,
        earlier: EarlierOwners,
        blocks: Int64s,
        used: Bools,
    ) -> None:
        self._fs, self._log = workspace.fs, workspace.log
        self._copies = workspace.copies()
        self._blocks, self._used, self._owners = blocks, used, earlier
        self._present = owners.of(blocks)
        inside = (blocks >= 0) & (blocks < self._fs.superblock.blocks_count)
        self._unknown = self._fs.bitmaps.blocks_unknown(blocks) | ~inside
        self._found = earlier.found
        self._history = earlier.history
        self._times = earlier.found.blocks.transactions

    def listed(self) -> list[BlockAnswer]:
        """An answer for each block."""
        earlier = self._owners.of(self._blocks)
        history, present = self._history, self._present
        numbers = np.union1d(present.inode, history.number[earlier.instance])
        paths = self._paths_now(numbers[numbers > 0])
        number = history.number[earlier.instance]
        at_block = set(zip(present.place.tolist(), present.inode.tolist(),
                           present.file_block.tolist(), strict=True))  # fmt: skip
        each = zip(earlier.place.tolist(), number.tolist(), earlier.file_block.tolist(),
                   history.is_allocated[earlier.instance].tolist(), strict=True)  # fmt: skip
        is_own = np.array([live and (place, inode, block) in at_block
                           for place, inode, block, live in each], bool)  # fmt: skip
        since = self._since(earlier.take(is_own))
        uses = self._present_uses(paths, since)
        before = self._earlier_uses(earlier.take(~is_own), paths)
        contents = defaultdict[int, list[DeletedFile]](list)
        for place, row in zip(*(a.tolist() for a in self._owners.contents(self._blocks)),
                              strict=True):  # fmt: skip
            contents[place].append(self._found[row])
        return [
            BlockAnswer(
                block,
                None if self._unknown[place] else bool(self._used[place]),
                tuple(uses[place]),
                tuple(before[place]),
                tuple(contents[place]),
                tuple(self._copies_of(block)),
                self._log_block(uses[place]),
            )
            for place, block in enumerate(self._blocks.tolist())
        ]

    def _paths_now(self, numbers: Int64s) -> dict[int, list[bytes]]:
        """Inode number -> its paths now."""
        found: dict[int, list[bytes]] = {ROOT: [b"/"]}
        if not len(np.setdiff1d(numbers, [ROOT])):
            return found
        tree = self._fs.tree(only=with_inodes(numbers))
        rows = np.flatnonzero(np.isin(tree.inode, numbers))
        for number, path in zip(tree.inode[rows].tolist(), tree.paths_of(rows), strict=True):
            found.setdefault(number, []).append(path)
        return found

    def _since(self, own: EarlierUses) -> dict[tuple[int, int, int], int]:
        """(place, inode, file block) -> tid of the first state that shows the present owner."""
        number = self._history.number[own.instance]
        keys = zip(own.place.tolist(), number.tolist(), own.file_block.tolist(), strict=True)
        return dict(zip(keys, own.first_tid.tolist(), strict=True))

    def _present_uses(
        self, paths: dict[int, list[bytes]], since: dict[tuple[int, int, int], int]
    ) -> list[list[PresentUse]]:
        present: PresentUses = self._present
        owners = np.unique(present.inode[present.inode > 0])
        size = dict(zip(owners.tolist(), self._fs.inode_table(owners).size.tolist(), strict=True))
        found: list[list[PresentUse]] = [[] for _ in self._blocks]
        columns = (present.place, present.role, present.inode, present.number,
                   present.file_block, present.used)  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for place, role, inode, number, file_block, used in rows:
            found[place].append(
                PresentUse(
                    BlockRole(role), inode, number, file_block, used,
                    tuple(paths.get(inode, ())), size.get(inode, 0),
                    self._times.get(since.get((place, inode, file_block), -1)),
                )
            )  # fmt: skip
        return found

    def _earlier_uses(
        self, uses: EarlierUses, paths: dict[int, list[bytes]]
    ) -> list[list[EarlierUse]]:
        history = self._history
        first, last = self._paths_at(uses, uses.first_tid), self._paths_at(uses, uses.valid_tid)
        found: list[list[EarlierUse]] = [[] for _ in self._blocks]
        number, generation = history.number[uses.instance], history.generation[uses.instance]
        columns = (uses.place, uses.role, number, generation, uses.file_block, uses.first_tid,
                   uses.last_tid, uses.ended_tid, uses.knowledge, uses.file, uses.is_reused,
                   history.is_allocated[uses.instance])  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), first, last, strict=True)
        for place, role, inode, gen, at, begin, end, ended, known, row, reused, live, *then in rows:
            file = None if row < 0 else self._found[row]
            names = list(dict.fromkeys(path for path in then if path is not None))
            if not names and file is not None and file.path is not None:
                names = [file.path]
            if not names and live:
                names = paths.get(inode, [])
            times = self._times
            found[place].append(
                EarlierUse(
                    BlockRole(role), inode, gen, at, tuple(names), times.get(begin),
                    times.get(end), times.get(ended), Knowledge(known), file, reused,
                )
            )  # fmt: skip
        return found

    def _paths_at(self, uses: EarlierUses, tids: Int64s) -> Sequence[bytes | None]:
        """The path of each owner as of a tid, None where it is unknown."""
        found: list[bytes | None] = [None] * len(uses)
        paths, states = self._found.names.paths, self._history.states
        tids = np.minimum(tids, TID_ON_DISK - 1)
        logged = np.flatnonzero(tids >= 0)
        rows = paths.name_rows_at(uses.instance[logged], tids[logged])
        logged, rows = logged[rows >= 0], rows[rows >= 0]
        number = self._history.number[uses.instance[logged]]
        state = self._history.rows_at(number, tids[logged])
        places = paths.places_at(rows, tids[logged], states.table.ctime[state])
        for at, place in zip(logged.tolist(), places, strict=True):
            found[at] = None if place is None else place.path
        return found

    def _copies_of(self, block: int) -> list[BlockCopy]:
        log, size = self._log, self._fs.superblock.block_size
        if log is None or self._copies is None:
            return []
        tags = log.tags.take(self._copies.copies_of_block(block))
        homes = log.reader.log_blocks[tags.position].tolist()
        is_here = log.home is log.reader.blocks
        rows = zip(tags.order.tolist(), tags.committed.tolist(), tags.position.tolist(), homes,
                   strict=True)  # fmt: skip
        return [
            BlockCopy(self._transaction(tid), sound, at, home * size if is_here else None)
            for tid, sound, at, home in rows
        ]

    def _transaction(self, tid: int) -> TransactionTime:
        known = self._times.get(tid)
        return TransactionTime(tid % (1 << 32), None) if known is None else known

    def _log_block(self, uses: list[PresentUse]) -> LogBlock | None:
        log, role = self._log, uses[0].role
        if log is None or role is not BlockRole.JOURNAL or uses[0].number < 0:
            return None
        at = uses[0].number
        header = np.flatnonzero(log.headers.position == at)
        tag = np.flatnonzero((log.tags.position == at) & log.tags.valid)
        if at < log.ring.first:
            return LogBlock("superblock of the journal" if at == 0 else "unused")
        if len(header):
            tid, kind = int(log.headers.order[header[0]]), int(log.headers.kind[header[0]])
            name = next((text for each, text in _HEADERS.items() if each == kind), "other block")
            return LogBlock(name, self._transaction(tid))
        if len(tag):
            tid, home = int(log.tags.order[tag[-1]]), int(log.tags.block[tag[-1]])
            return LogBlock("copy of a block", self._transaction(tid), home)
        if at >= log.ring.end:
            return LogBlock("fast-commit area")
        data = log.reader.read(np.array([at]))
        return LogBlock("block without a tag: an old copy" if data.any() else "empty")
