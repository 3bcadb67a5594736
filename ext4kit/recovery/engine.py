"""The engine: candidates, their names, later owners and grades become deleted files."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.maps import Runs, spread
from ext4kit.journal.overlay import CopiesInFront
from ext4kit.parsers.inode import Inode, InodeFlags
from ext4kit.past.appearances import REMNANT
from ext4kit.past.directories import BEFORE
from ext4kit.past.names import NameHistory
from ext4kit.past.states import NEVER, NOW, UNREPLAYED, Past
from ext4kit.recovery.candidates import (
    DISK,
    LOG,
    NOTHING,
    STALE_INDEX,
    Candidates,
    find_candidates,
)
from ext4kit.recovery.deleted import Deleted, DeletedFile, Grade, LostRange, Moment
from ext4kit.recovery.doubts import find_doubts
from ext4kit.recovery.ends import Ends, find_ends
from ext4kit.recovery.intervals import overlaps
from ext4kit.recovery.ownership import Ownership, Reuse
from ext4kit.units import NANOSECONDS


def find_deleted(fs: FileSystem, versions: bool = False) -> Deleted:
    """Everything that was deleted and is still known of, with its grade.

    Args:
        fs: the file system; open it with its journal replayed.
        versions: also the earlier states of files whose blocks were dropped by a rewrite.
    """
    return Deleted(fs, _Engine(fs, versions).files())


class _JournaledData(CopiesInFront):
    """The blocks of one file, those that went through the log as data read from there."""

    def __init__(self, past: Past, blocks: Any, copies: Any) -> None:
        assert past.log is not None
        super().__init__(past.fs.blocks, past.log)
        self._blocks, self._copies = blocks, copies

    def copies_of(self, blocks: Any) -> Any:
        """The log's copy of each block that has one."""
        place = np.minimum(np.searchsorted(self._blocks, blocks), len(self._blocks) - 1)
        return np.where(self._blocks[place] == blocks, self._copies[place], -1)


class _Engine:
    def __init__(self, fs: FileSystem, versions: bool) -> None:
        self.fs = fs
        self.past = Past(fs)
        self.found: Candidates = find_candidates(self.past, versions)
        self.ownership = Ownership(self.past)
        self.names = NameHistory(self.past)
        self.block_size = fs.superblock.block_size

    def files(self) -> list[DeletedFile]:
        """The deleted files, by path; of several under one path the last deleted comes first."""
        death = np.where(self.found.death == NEVER, NOW, self.found.death)
        files = [
            ((file.path is None, file.path or b"", file.superseded, -order, file.number), file)
            for file, order in zip(
                map(self._file, range(len(self.found))), death.tolist(), strict=True
            )
        ]
        return [file for _, file in sorted(files, key=lambda pair: pair[0])]

    # -- columns over all candidates ------------------------------------------------------

    @cached_property
    def runs(self) -> Runs:
        """The content's blocks up to each candidate's size."""
        runs, table = self.found.runs, self.past.states.table
        size = table.size[self.found.row][runs.owner]
        unknown = (self.found.source == STALE_INDEX)[runs.owner]
        limit = np.where(unknown, NOW >> 20, -(-size // self.block_size))
        length = np.clip(limit - runs.logical, 0, runs.length)
        kept = length > 0
        return Runs(
            runs.owner[kept],
            runs.logical[kept],
            length[kept],
            runs.physical[kept],
            runs.unwritten[kept],
        )

    @cached_property
    def _slices(self) -> list[int]:
        return self._sliced(self.runs.owner)

    def _sliced(self, candidate: Any) -> list[int]:
        """Where each candidate's rows begin and the last one's end; `candidate` ascends."""
        found: list[int] = np.searchsorted(candidate, np.arange(len(self.found) + 1)).tolist()
        return found

    @cached_property
    def _blocks(self) -> list[int]:
        """Per candidate: blocks of content."""
        ends = np.concatenate([[0], np.cumsum(self.runs.length)])[self._slices]
        found: list[int] = np.diff(ends).tolist()
        return found

    @cached_property
    def _ends(self) -> Ends:
        return find_ends(self.past, self.found)

    @cached_property
    def _source_names(self) -> list[str]:
        return [str(source) for source in self.found.source.tolist()]

    @cached_property
    def _deaths(self) -> Any:
        """Per candidate: after which order a use by others counts as a later one."""
        death, order = self.found.death, self.past.states.order[self.found.row]
        return np.where((death == NOW) & (order != NOW), order, death)

    @cached_property
    def _since(self) -> Any:
        """Per candidate: the order of its state; who has a block of it later took it."""
        order = self.past.states.order[self.found.row]
        return np.where(order == NOW, self._deaths, order)

    @cached_property
    def reuse(self) -> Reuse:
        """Blocks of the candidates that others took later."""
        life = self.past.states.life[self.found.row]
        return self.ownership.reuse(self.runs, life, self._since, self._deaths)

    @cached_property
    def _reuse_slices(self) -> list[int]:
        return self._sliced(self.reuse.candidate)

    @cached_property
    def _untrusted(self) -> set[int]:
        """Candidates of which others used a tree block that nothing vouches for."""
        owner, block = self.found.nodes
        life = self.past.states.life[self.found.row]
        by_extents = self.past.states.table.flags[self.found.row] & int(InodeFlags.EXTENTS)
        proven = (by_extents != 0) & self.fs.superblock.has_metadata_checksums
        logged = np.zeros(len(block), bool)
        if self.past.history is not None and len(block):
            at = self.past.last_order(self.found.row)[owner]
            logged = self.past.history.latest(block, at) >= 0
        kept = ~proven[owner] & ~logged
        owner, block = owner[kept], block[kept]
        ones = np.ones(len(block), np.int64)
        runs = Runs(owner, ones * 0, ones, block, ones == 0)
        reuse = self.ownership.reuse(runs, life, self._since, self._deaths)
        return set(reuse.candidate.tolist())

    @cached_property
    def _reasons(self) -> dict[int, list[str]]:
        """Per candidate: the reasons against intact, where there are any."""
        found: dict[int, list[str]] = {}
        doubts = find_doubts(self.past, self.found, self.runs, self.ownership, self._journaled)
        for doubtful, reason in doubts:
            for place in np.flatnonzero(doubtful).tolist():
                found.setdefault(place, []).append(reason)
        return found

    @cached_property
    def _freed_rivals(self) -> Any:
        """(candidate, start, length, number) of blocks that an inode freed later also had.

        Of an inode whose blocks the log says nothing of, its deletion time tells whether it
        came last; in the same second it may have.
        """
        states, runs = self.past.states, self.runs
        freed = np.isin(self.found.source, (STALE_INDEX, DISK)) & (self.found.death != NEVER)
        others = runs.take(freed[runs.owner])
        mine, other = overlaps(runs.physical, runs.length, others.physical, others.length)
        life = states.life[self.found.row]
        last = np.searchsorted(states.life, life, side="right") - 1
        dtime = states.table.dtime[last]
        dtime = np.where(dtime > 0, dtime, states.table.ctime[last] // NANOSECONDS)
        number = states.table.number[self.found.row]
        later = dtime[others.owner[other]] >= dtime[runs.owner[mine]]
        later &= life[others.owner[other]] != life[runs.owner[mine]]
        later &= self.found.death[runs.owner[mine]] != NEVER
        mine, other = mine[later], other[later]
        start = np.maximum(runs.physical[mine], others.physical[other])
        end = np.minimum(
            runs.physical[mine] + runs.length[mine], others.physical[other] + others.length[other]
        )
        return runs.owner[mine], start, end - start, number[others.owner[other]]

    @cached_property
    def _rival_slices(self) -> list[int]:
        return self._sliced(self._freed_rivals[0])

    @cached_property
    def _journaled(self) -> dict[int, tuple[Any, Any]]:
        """Per candidate: (blocks, log copies) of content that went through the log as data.

        A copy belongs to the file when the file had the block by then: content that is
        journaled is so from the transaction on that gives the file its block.
        """
        history = self.past.history
        if history is None or not len(self.runs):
            return {}
        runs, states = self.runs, self.past.states
        ones = np.ones(len(history.blocks), np.int64)
        mine, tag = overlaps(runs.physical, runs.length, history.blocks, ones)
        candidate = runs.owner[mine]
        order, death = history.orders[tag], self.found.death[candidate]
        row = self.found.row[candidate]
        fits = (death == NEVER) | (order <= np.where(death == NOW, states.order[row], death))
        fits &= order >= self._owned_since(row, history.blocks[tag])
        candidate, tag = candidate[fits], tag[fits]
        found: dict[int, tuple[Any, Any]] = {}
        places, starts = np.unique(candidate, return_index=True)  # in order of candidates
        for place, tags in zip(places.tolist(), np.split(tag, starts[1:]), strict=False):
            blocks = history.blocks[tags]
            last = np.append(blocks[1:] != blocks[:-1], True)
            found[place] = (blocks[last], history.tags[tags[last]])
        return found

    def _owned_since(self, row: Any, block: Any) -> Any:
        """Per (state, block): since when it was content of that life alone, NOW for never.

        What a file truncates comes back: as a tree block of its own, or by way of others.
        """
        claims, states = self.ownership.logged, self.past.states
        mine, other = overlaps(block, np.ones_like(block), claims.start, claims.length)
        earlier = claims.order[other] <= np.minimum(states.order[row[mine]], NOW - 1)
        mine, other = mine[earlier], other[earlier]
        own = claims.content[other] & (claims.life[other] == states.life[row[mine]])
        lent, since = np.full(len(row), NEVER), np.full(len(row), NOW)
        np.maximum.at(lent, mine[~own], claims.order[other[~own]])
        own &= claims.order[other] > lent[mine]
        np.minimum.at(since, mine[own], claims.order[other[own]])
        return since

    @cached_property
    def _moments(self) -> dict[int, Moment]:
        if self.past.log is None:
            return {}
        return {
            item.order: Moment(int(item.id), item.commit_time_ns)
            for item in self.past.log.transactions
        }

    @cached_property
    def _owner_paths(self) -> dict[int, bytes]:
        """Paths of the live inodes that took blocks of deleted files."""
        wanted = np.unique(self.reuse.number)
        tree = self.fs.tree()
        rows = np.flatnonzero(np.isin(tree.number, wanted))
        return dict(zip(tree.number[rows].tolist(), tree.paths_of(rows), strict=True))

    # -- one candidate --------------------------------------------------------------------

    def _file(self, place: int) -> DeletedFile:
        inode, source = self._ends.inode[place], self._source_names[place]
        runs = self.runs.take(slice(*self._slices[place : place + 2]))
        lost = self._lost_blocks(place)
        problems: list[str] = []
        size = self._size(place, inode, source, runs)
        grade = self._grade(place, inode, source, runs, lost, problems)
        path, name, named_by = self._name(place)
        return DeletedFile(
            path=path,
            name=name,
            inode=inode,
            size=size,
            dtime=self._ends.dtime[place],
            deleted_between=self._between(place),
            grade=grade,
            blocks=self._blocks[place],
            blocks_reused=sum(length for _, length, _ in lost),
            lost=tuple(self._lost_ranges(runs, lost, size or 0)),
            sources=self._sources(place, inode, source) | ({"name": named_by} if named_by else {}),
            problems=tuple(problems),
            superseded=bool(self.found.superseded[place]),
            link_target=self._link_target(place, inode, source, runs, lost),
            _content=self._content(place, inode, source, runs, lost, size),
        )

    def _lost_blocks(self, place: int) -> list[tuple[int, int, str]]:
        """(first block, count, owner) without overlaps, in order."""
        first, last = self._reuse_slices[place : place + 2]
        reuse = self.reuse
        found = [
            (int(reuse.start[row]), int(reuse.length[row]), self._owner(row))
            for row in range(first, last)
        ]
        _, start, length, number = self._freed_rivals
        for row in range(*self._rival_slices[place : place + 2]):
            found.append((int(start[row]), int(length[row]), f"deleted inode {number[row]}"))
        return _without_overlaps(sorted(found, key=lambda piece: piece[0]))

    def _owner(self, row: int) -> str:
        number, order = int(self.reuse.number[row]), int(self.reuse.order[row])
        if order == NOW:
            if not number:
                return "in use now, by metadata or an owner not found"
            path = self._owner_paths.get(number)
            shown = "" if path is None else " " + path.decode("utf-8", "backslashreplace")
            return f"inode {number}{shown}"
        moment = self._moments.get(order)
        when = f" in transaction {moment.transaction}" if moment else ""
        return f"inode {number}{when}" if number else f"metadata written{when}"

    def _grade(
        self,
        place: int,
        inode: Inode,
        source: str,
        runs: Runs,
        lost: list[tuple[int, int, str]],
        problems: list[str],
    ) -> Grade:
        """The grade, and the reasons for anything below intact."""
        if source == NOTHING:
            problems.append("no source tells which blocks it had")
            return Grade.OVERWRITTEN
        problems += self._reasons.get(place, ())
        if inode.is_inline and inode.size > len(self._inline(inode)):
            problems.append("a part of its inline data is missing")
        if place in self._untrusted:
            problems.append("a block of its map was reused and carries no checksum")
        if self._changed_later(place, runs, inode):
            problems.append("it changed after the last state that is known")
        reused, blocks = sum(length for _, length, _ in lost), self._blocks[place]
        grade = Grade.PARTIAL if problems or reused else Grade.INTACT
        if blocks and reused >= blocks:
            grade = Grade.OVERWRITTEN
        if inode.is_encrypted:
            problems.append("encrypted: the content is ciphertext")
        return grade

    def _changed_later(self, place: int, runs: Runs, inode: Inode) -> bool:
        """Whether a file last seen without blocks got some before it was freed.

        Freeing blocks sets mtime; an inode that never had any keeps its own. What a fast commit
        freed does not tell.
        """
        freed = self._ends.freed_mtime[place]
        if len(runs) or inode.kind != "file" or inode.is_inline:
            return False
        if UNREPLAYED <= self._ends.order[place] < NOW or inode.number in self.past.undated:
            return True
        return freed is not None and freed != inode.mtime

    def _size(self, place: int, inode: Inode, source: str, runs: Runs) -> int | None:
        if source == NOTHING:
            return None
        if source != STALE_INDEX:
            return inode.size
        written = np.flatnonzero(~runs.unwritten)
        if not len(written):
            return None
        end = int(written[-1])
        block = int(runs.physical[end] + runs.length[end] - 1)
        before = int(runs.logical[end] + runs.length[end] - 1) * self.block_size
        try:
            return before + len(bytes(self.fs.blocks.read(block)).rstrip(b"\0"))
        except AccessError:
            return before + self.block_size

    def _content(
        self,
        place: int,
        inode: Inode,
        source: str,
        runs: Runs,
        lost: list[tuple[int, int, str]],
        size: int | None,
    ) -> Content | None:
        """The bytes that are its own still; later owners' blocks read as holes."""
        if inode.kind != "file" or source == NOTHING or size is None:
            return None
        return self._stored(place, inode, runs, lost, size)

    def _stored(
        self,
        place: int,
        inode: Inode,
        runs: Runs,
        lost: list[tuple[int, int, str]],
        size: int,
    ) -> Content:
        """The bytes, from the inode, or from its blocks with the log's copies in front."""
        if inode.is_inline or inode.is_fast_symlink:
            return Content(self.fs.blocks, size, inline=self._inline(inode))
        blocks: Any = self.fs.blocks
        if place in self._journaled:
            blocks = _JournaledData(self.past, *self._journaled[place])
        return Content(blocks, size, _without_blocks(runs, lost))

    def _inline(self, inode: Inode) -> bytes:
        """The content that the inode itself holds; its start where attributes are broken."""
        try:
            return self.fs.content(inode).inline
        except CorruptError:
            return inode.i_block

    def _link_target(
        self, place: int, inode: Inode, source: str, runs: Runs, lost: list[tuple[int, int, str]]
    ) -> bytes | None:
        if inode.kind != "symlink" or source == NOTHING or lost:
            return None
        try:
            size = min(inode.size, self.block_size)
            return self._stored(place, inode, runs, lost, size).read(0, size)
        except AccessError:
            return None

    def _lost_ranges(
        self, runs: Runs, lost: list[tuple[int, int, str]], size: int
    ) -> list[LostRange]:
        """Lost blocks as byte ranges of the file."""
        found = []
        for start, length, owner in lost:
            inside = (runs.physical <= start) & (start < runs.physical + runs.length)
            for row in np.flatnonzero(inside).tolist():
                at = int(runs.logical[row] + start - runs.physical[row]) * self.block_size
                found.append(LostRange(at, min(length * self.block_size, size - at), owner))
        return sorted(found, key=lambda piece: piece.offset)

    def _between(self, place: int) -> tuple[Moment | None, Moment | None]:
        """The last transaction that shows it linked, and the first that shows it gone."""
        ends, moments = self._ends, self._moments
        return moments.get(ends.alive[place]), moments.get(ends.gone[place])

    def _sources(self, place: int, inode: Inode, source: str) -> dict[str, str]:
        moment = self._moments.get(self._ends.order[place])
        where = f"journal transaction {moment.transaction}" if moment else "inode table"
        if UNREPLAYED < self._ends.order[place] < NOW:
            where = "fast commit"
        if source == DISK and inode.number in self.fs.orphans:
            where = "orphan list"
        described = {LOG: where, DISK: where, STALE_INDEX: "stale index entries of the freed inode"}
        return {"inode": where} | ({"map": described[source]} if source in described else {})

    def _name(self, place: int) -> tuple[bytes | None, bytes | None, str]:
        """(full path, name, where the name was seen) of the candidate's last name."""
        life, names = int(self.past.states.life[self.found.row[place]]), self.names.names
        found = self.names.last_name(life)
        if found < 0:
            return None, None, ""
        death = int(self.found.death[place])
        seen = int(names.seen[found])
        # A remnant may be the name of an earlier bearer of the number: no path is built on it.
        path = None
        if seen != REMNANT:
            path = self.names.path(found, int(NOW) if death == NEVER else death)
        moment = self._moments.get(seen)
        where = f"journal transaction {moment.transaction}" if moment else "journal"
        kept = {BEFORE: "freed directory block", REMNANT: "removed entry left in its directory"}
        kept[UNREPLAYED] = "directory block that a fast commit changes"
        if UNREPLAYED < seen < NOW:
            where = "fast commit"
        return path, names.name[found], kept.get(seen, where)


def _without_overlaps(pieces: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Sorted (start, length, owner) pieces with what an earlier one covers cut away."""
    kept: list[tuple[int, int, str]] = []
    end = 0
    for start, length, owner in pieces:
        stop = start + length
        start = max(start, end)
        if stop > start:
            kept.append((start, stop - start, owner))
            end = stop
    return kept


def _without_blocks(runs: Runs, lost: list[tuple[int, int, str]]) -> Runs:
    """The runs less the lost blocks."""
    if not lost:
        return runs
    row, position = spread(runs.length)
    block = runs.physical[row] + position
    starts = np.array([start for start, _, _ in lost])
    ends = np.array([start + length for start, length, _ in lost])
    place = np.searchsorted(starts, block, side="right") - 1
    own = (place < 0) | (block >= ends[np.maximum(place, 0)])
    row, position = row[own], position[own]
    cut = np.ones(len(row), bool)
    cut[1:] = (row[1:] != row[:-1]) | (position[1:] != position[:-1] + 1)
    start = np.flatnonzero(cut)
    first, skip = row[start], position[start]
    return Runs(
        runs.owner[first],
        runs.logical[first] + skip,
        np.diff(np.append(start, len(row))),
        runs.physical[first] + skip,
        runs.unwritten[first],
    )
