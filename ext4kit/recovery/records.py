"""Records of deleted files, from candidates and carved contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import overload

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW, Int64s, RowSlice
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.rewrites import find_rewrites
from ext4kit.parsers.inode import Inode
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.candidates import INODE_TABLE, JOURNAL, NO_MAP, STALE_INDEX
from ext4kit.recovery.carved_contents import CarvedContents, content_at, content_file
from ext4kit.recovery.columns import DeletedColumns
from ext4kit.recovery.content import link_target, open_content, reused_ranges
from ext4kit.recovery.grading.grade import Grading
from ext4kit.recovery.joining import Match, Matches
from ext4kit.recovery.journal_content import TaggedContentBlocks
from ext4kit.recovery.listed_files import MIN_NAMED_BYTES, ListedName, listed_name
from ext4kit.recovery.losses import Losses
from ext4kit.recovery.model import DeletedFile, DeletionGround, Grade, Sources
from ext4kit.recovery.names import CandidateNames, KnownName
from ext4kit.recovery.proof import Proofs
from ext4kit.recovery.provenance import (
    INFERRED,
    MAP_SOURCES,
    ORPHAN_LIST,
    TAGGED_COPIES,
    UNTAGGED_COPIES,
    UNTAGGED_COPY,
    state_source,
)
from ext4kit.recovery.untagged_content import UntaggedContentBlocks
from ext4kit.recovery.xattrs import XattrReader

_AT_ONCE = 1024  # number of records whose columns are read together


@dataclass(frozen=True, slots=True)
class FoundFiles(Sequence[DeletedFile]):
    """Records of deleted files, each built when it is read because a disk may have millions.

    Attributes:
        names: the last names of the candidates.
        blocks: blocks of the candidates and their later owners.
        losses: lost blocks of the candidates.
        grading: grades and reasons of the candidates.
        contents: carved contents.
        listed: carved content without an inode -> its entries in live lists.
        matches: carved contents matched to candidates.
        xattrs: reader of extended attributes.
        proofs: evidence places of the candidates.
        rows: rows of candidates, and ~row for contents without an inode, in the order of the
            records.
    """

    names: CandidateNames
    blocks: BlockAttribution
    losses: Losses
    grading: Grading
    contents: CarvedContents
    listed: Mapping[int, Sequence[ListedName]]
    matches: Matches
    xattrs: XattrReader
    proofs: Proofs
    rows: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[DeletedFile]:
        for start in range(0, len(self.rows), _AT_ONCE):
            yield from self._build(self.rows[start : start + _AT_ONCE])

    @overload
    def __getitem__(self, place: int) -> DeletedFile: ...
    @overload
    def __getitem__(self, place: RowSlice) -> FoundFiles: ...
    def __getitem__(self, place: int | RowSlice) -> DeletedFile | FoundFiles:
        if isinstance(place, slice):
            return replace(self, rows=self.rows[place])
        return next(self._build(np.array([self.rows[place]])))

    def take(self, places: Int64s) -> FoundFiles:
        """The records at some places."""
        return replace(self, rows=self.rows[places])

    def columns(self) -> DeletedColumns:
        """What is known of the records before they are built."""
        candidates, table = self.blocks.candidates, self.blocks.history.states.table
        row = np.maximum(self.rows, 0)
        has_inode = self.rows >= 0
        if not has_inode.any():
            return DeletedColumns.of(self)
        state = candidates.state_row[row]
        size = np.where(
            candidates.size_unknown, self.blocks.sizes, table.size[candidates.state_row]
        )
        size[candidates.map_source == NO_MAP] = 0
        for place, match in self.matches.of_candidate.items():
            size[place] = content_at(self.contents, match.content).size
        named = self.names.names
        names = [named[row] if row >= 0 else None for row in self.rows.tolist()]
        return DeletedColumns(
            [None if name is None else name.path for name in names],
            np.where(has_inode, table.number[state], 0),
            has_inode & candidates.superseded[row],
            has_inode & table.is_regular[state],
            np.where(has_inode, size[row], 0),
            has_inode & np.isin(row, list(self.names.wiped)),
            lambda places: table.take(state[places]),
            lambda: self._rewritten(np.where(has_inode, state, NO_ROW)),
        )

    def _rewritten(self, state: Int64s) -> Int64s:
        """Places of the records that were last written in place, given their states."""
        history = self.blocks.history
        instances = list(find_rewrites(history))
        places = np.flatnonzero(state != NO_ROW)
        return places[np.isin(history.states.instance[state[places]], instances)]

    def _build(self, rows: Int64s) -> Iterator[DeletedFile]:
        """Build the records of some rows."""
        states = self.blocks.candidates.state_row[rows[rows >= 0]]
        inodes = self.blocks.history.states.table.take(states).each()
        for row in rows.tolist():
            yield self._record(row, next(inodes)) if row >= 0 else self._carved(~row)

    def _carved(self, row: int) -> DeletedFile:
        """Record of content without an inode."""
        return _with_listed_name(content_file(self.contents, row), self.listed.get(row, ()))

    def _record(self, place: int, inode: Inode) -> DeletedFile:
        """Record of a candidate, given the inode of its state."""
        blocks, candidates, deletion = self.blocks, self.blocks.candidates, self.blocks.deletion
        uid, gid = int(deletion.uid[place]), int(deletion.gid[place])
        if (uid, gid) != (inode.uid, inode.gid):
            inode = replace(inode, uid=uid, gid=gid)
        row, map_source = int(candidates.state_row[place]), str(candidates.map_source[place])
        lost, name = self.losses.of(place), self.names.names[place]
        size: int | None = inode.size
        if map_source == STALE_INDEX or candidates.rebuilt_row[place] != NO_ROW:
            size = int(blocks.sizes[place]) or None
        if map_source == NO_MAP:
            size = None
        runs = blocks.runs_of(place)
        content, target = self._content(place, inode, runs, size)
        bound = int(deletion.bound[place])
        ground = DeletionGround.UNLINKED if deletion.is_unlinked[place] else DeletionGround.REUSED
        file = DeletedFile(
            path=name.path if name else None,
            path_ground=name.ground if name else None,
            name=name.name if name else None,
            inode=inode,
            size=size,
            dtime=int(deletion.dtime[place]) or None,
            deleted_between=(
                blocks.transactions.get(int(deletion.last_linked_tid[place])),
                blocks.transactions.get(int(deletion.first_missing_tid[place])),
            ),
            grade=self.grading.grades[place],
            blocks=int(blocks.block_counts[place]),
            blocks_reused=lost.reused,
            lost=reused_ranges(
                runs, lost.pieces, size or 0, blocks.history.fs.superblock.block_size
            ),
            sources=_sources(blocks, place, row, map_source, name),
            reasons=self.grading.reasons[place],
            superseded=bool(candidates.superseded[place]),
            link_target=target,
            partial_path=name.partial_path if name else None,
            deletion_bound=(bound, ground) if bound else None,
            other_paths=self.names.others.get(place, ()),
            former_paths=self.names.former.get(place, ()),
            wiping=self.names.wiped.get(place),
            _content=content,
            _attributes=partial(self.xattrs.read, inode, row),
            _evidence=partial(self.proofs.of, place),
        )
        match = self.matches.of_candidate.get(place)
        return file if match is None else _with_content(file, self.contents, match)

    def _content(
        self, place: int, inode: Inode, runs: Runs, size: int | None
    ) -> tuple[Content | None, bytes | None]:
        """(content, target of a symbolic link) of a candidate; None for what it does not have."""
        blocks, lost = self.blocks, self.losses.of(place).pieces
        fs, has_map = blocks.history.fs, blocks.candidates.map_source[place] != NO_MAP
        if inode.kind == "file" and size is not None:
            return open_content(fs, _block_reader(blocks, place), inode, runs, lost, size), None
        if inode.kind != "symlink" or not has_map or lost:
            return None, None
        reader, length = _block_reader(blocks, place), min(inode.size, fs.superblock.block_size)
        return None, link_target(open_content(fs, reader, inode, runs, (), length))


def build_records(
    names: CandidateNames,
    blocks: BlockAttribution,
    losses: Losses,
    grading: Grading,
    contents: CarvedContents,
    listed: Mapping[int, Sequence[ListedName]],
    matches: Matches,
    xattrs: XattrReader,
) -> FoundFiles:
    """Deleted files sorted by path; of files with equal paths, the last deleted one comes first.

    Carved contents without an inode follow, sorted by first block.
    """
    candidates = blocks.candidates
    number = blocks.history.states.table.number[candidates.state_row]
    freed = np.where(candidates.freed_tid == TID_NONE, TID_ON_DISK, candidates.freed_tid)
    order = np.lexsort((number, -freed, candidates.superseded))
    paths = [b"" if name is None else name.path or b"" for name in names.names]
    by_path = sorted(order.tolist(), key=lambda place: (not paths[place], paths[place]))
    named = {row: some for row, some in listed.items() if row not in matches.disputed}
    carved = np.argsort(contents.first_block, kind="stable")
    carved = carved[~np.isin(carved, list(matches.contents))]
    return FoundFiles(
        names, blocks, losses, grading, contents, named, matches, xattrs, Proofs(blocks, names),
        np.append(np.array(by_path, np.int64), ~carved),
    )  # fmt: skip


def _with_content(file: DeletedFile, contents: CarvedContents, match: Match) -> DeletedFile:
    """The record of a file without known blocks, with its matched carved content added."""
    content = content_at(contents, match.content)
    assert content.runs is not None
    sources: Sources = {"map": match.evidence}
    if match.digest is not None:
        sources["digest"] = match.digest
    return replace(
        file,
        size=content.size,
        grade=Grade.CARVED,
        blocks=int(content.runs.length.sum()),
        sources=file.sources | sources,
        reasons=() if match.digest is not None else (reasons.CARVED_BOUNDARIES,),
        first_block=int(contents.first_block[match.content]),
        _signature=int(contents.signature[match.content]),
        _content=content,
    )


def _with_listed_name(file: DeletedFile, listed: Sequence[ListedName]) -> DeletedFile:
    """The record of content without an inode, with the name from live lists added."""
    known = listed_name(listed) if (file.size or 0) >= MIN_NAMED_BYTES else None
    if known is None:
        return file
    sources = file.sources | {"name": INFERRED, "digest": listed[0].text}
    return replace(
        file,
        name=known[0],
        partial_path=known[1],
        sources=sources,
        reasons=(),  # the digest proves its boundaries
        fragment=False,
    )


def _sources(
    blocks: BlockAttribution, place: int, row: int, map_source: str, name: KnownName | None
) -> Sources:
    """Provenance of inode, map, content and name of a candidate."""
    states, fs = blocks.history.states, blocks.history.fs
    where = state_source(blocks.transactions, int(blocks.deletion.tid[place]))
    if map_source == INODE_TABLE and int(states.table.number[row]) in fs.orphans:
        where = ORPHAN_LIST
    if states.untagged[row]:
        where = UNTAGGED_COPY
    sources: Sources = {"inode": where}
    if map_source != NO_MAP:
        from_state = map_source in (JOURNAL, INODE_TABLE)
        sources["map"] = where if from_state else MAP_SOURCES.get(map_source, map_source)
    copies = [TAGGED_COPIES] * (place in blocks.tagged)
    copies += [UNTAGGED_COPIES] * (place in blocks.untagged)
    if copies:
        sources["content"] = ", ".join(copies)
    if name is not None:
        sources["name"] = name.source
    return sources


def _block_reader(blocks: BlockAttribution, place: int) -> BlockReader:
    """Block reader that prefers journal copies of a candidate's content to the disk."""
    history = blocks.history
    reader: BlockReader = history.fs.blocks
    if history.log is None:
        return reader
    if place in blocks.untagged:
        reader = UntaggedContentBlocks(reader, history.log, *blocks.untagged[place])
    if place in blocks.tagged:
        reader = TaggedContentBlocks(reader, history.log, *blocks.tagged[place])
    return reader
