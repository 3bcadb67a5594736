"""The engine: candidates, their names, later owners and grades become deleted files."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ext4kit import reasons
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.xattrs import lacks_inline_data
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.history import TID_NONE, TID_ON_DISK, UNREPLAYED, History
from ext4kit.history.names import NameHistory
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Severity
from ext4kit.reasons import Reason
from ext4kit.recovery.artifacts import Artifacts, search
from ext4kit.recovery.candidates import (
    INODE_TABLE,
    JOURNAL,
    NO_MAP,
    STALE_INDEX,
    Candidates,
    select_candidates,
)
from ext4kit.recovery.carved_contents import content_at, content_files, find_carved_contents
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.fragments import mark_fragments
from ext4kit.recovery.grading.discarded import report_discarded
from ext4kit.recovery.joining import match_contents
from ext4kit.recovery.model import (
    DeletedFile,
    DeletedFiles,
    Grade,
    ReusedRange,
    Sources,
    TransactionTime,
)
from ext4kit.recovery.names import FoundEntryPaths, KnownName
from ext4kit.recovery.proof import Proofs
from ext4kit.recovery.remains import (
    TaggedContentBlocks,
    drop_overlaps,
    without_blocks,
    without_copied,
)
from ext4kit.recovery.removed_names import find_removed_names
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.recovery.untagged_content import UntaggedContentBlocks
from ext4kit.recovery.xattrs import XattrReader
from ext4kit.unallocated.space import Progress

TAGGED_COPIES, UNTAGGED_COPIES = "copies in the journal", "copies without a descriptor"
DISCARDED = "zeros: discarded, or never written"
MAP_SOURCE_TEXTS = {STALE_INDEX: "stale index entries of the freed inode"}


def find_deleted(
    fs: FileSystem,
    versions: bool = False,
    sources: Set[SearchSource] = frozenset({SearchSource.JOURNAL}),
    progress: Progress | None = None,
) -> DeletedFiles:
    """Everything that was deleted and is still known of, with its grade.

    Args:
        fs: the file system; open it with its journal replayed.
        versions: also the earlier states of files whose blocks were dropped by a rewrite.
        sources: where to look; all but JOURNAL read the whole free space.
        progress: called with (done, in all): bytes of the free space that are read, then rounds in
            which contents without an inode are joined.
    """
    findings = search(History(fs, keeps_rewritten=versions), sources, progress)
    engine = _Engine(findings, versions, progress)
    files = engine.files()
    return DeletedFiles(fs, files, cache(lambda: find_removed_names(engine.names, files)))


class _Engine:
    def __init__(
        self, findings: Artifacts, versions: bool, progress: Progress | None = None
    ) -> None:
        self.history, self.fs = findings.history, findings.history.fs
        self._shown_by, self._seen_in = cache(self.state_source), cache(self.name_source)
        self.found: Candidates = select_candidates(self.history, versions, findings.maps)
        self.columns = Columns(findings, self.found)
        self.names = NameHistory(self.history)
        self.other_names = FoundEntryPaths(self.history, self.names, findings.names)
        self.attributes = XattrReader(self.history, findings.structures)
        self.attributes.report_ownerless()
        contents = find_carved_contents(findings, self.columns)
        self.contents = mark_fragments(contents, self.columns, findings.space)
        self.joined = match_contents(self.columns, self.contents, self._names, progress)
        self.block_size = self.fs.superblock.block_size

    def files(self) -> list[DeletedFile]:
        """The deleted files, by path; of several under one path the last deleted comes first."""
        report_discarded(self.fs, self.columns.discarded)
        self._report_live_copy()
        death = np.where(self.found.freed_tid == TID_NONE, TID_ON_DISK, self.found.freed_tid)
        files = map(self._record, range(len(self.found)))
        keyed = [
            ((file.path is None, file.path or b"", file.superseded, -order, file.number), file)
            for file, order in zip(files, death.tolist(), strict=True)
        ]
        known = [file for _, file in sorted(keyed, key=lambda pair: pair[0])]
        joined = {joined.content for joined in self.joined.values()}
        return known + content_files(self.contents, joined)

    def _record(self, place: int) -> DeletedFile:
        columns = self.columns
        inode, source = columns.deletion.inode[place], columns.source_names[place]
        runs = columns.runs.take(slice(*columns.slices[place : place + 2]))
        reused = self._reused_blocks(place) if place in self._contested else []
        lost, copied, against = self._lost_blocks(place, reused)
        lost, discarded = self._with_discarded(place, lost)
        if discarded:
            against.append(reasons.BLOCKS_DISCARDED.filled(n=f"{discarded:,}"))
        size = self._size(place, inode, source)
        grade = self._grade(place, inode, source, runs, lost, against)
        if copied:
            against.insert(0, reasons.CONTENT_FROM_JOURNAL.filled(n=f"{copied:,}"))
            grade = Grade.CONSISTENT if grade is Grade.INTACT else grade
        name = self._names[place]
        file = DeletedFile(
            path=name.path if name else None,
            path_ground=name.ground if name else None,
            name=name.name if name else None,
            inode=inode,
            size=size,
            dtime=columns.deletion.dtime[place],
            deleted_between=self.deletion_window(place),
            grade=grade,
            blocks=columns.block_counts[place],
            blocks_reused=_total(reused),
            lost=tuple(self.reused_ranges(runs, lost, size or 0)) if lost else (),
            sources=self.provenance(place, inode, source, name),
            reasons=tuple(against),
            superseded=self._superseded[place],
            link_target=self.link_target(place, inode, source, runs, lost),
            partial_path=name.partial_path if name else None,
            _content=self._content(place, inode, source, runs, lost, size),
            _attributes=partial(self.attributes.read, inode, self._rows[place]),
            _evidence=partial(self.proofs.of, place),
        )
        return file if place not in self.joined else self._with_matched_content(file, place)

    def _with_matched_content(self, file: DeletedFile, place: int) -> DeletedFile:
        """A file of which no block is known, with what its place among others gives it."""
        joined = self.joined[place]
        row = joined.content
        content = content_at(self.contents, row)
        assert content.runs is not None
        return replace(
            file,
            size=content.size,
            grade=Grade.CARVED,
            blocks=int(content.runs.length.sum()),
            sources=file.sources | {"map": joined.evidence},
            reasons=(reasons.CARVED_BOUNDARIES,),
            first_block=int(self.contents.first_block[row]),
            _signature=int(self.contents.signature[row]),
            _content=content,
        )

    # -- what it still has ----------------------------------------------------------------

    def _lost_blocks(
        self, place: int, reused: list[tuple[int, int, str]]
    ) -> tuple[list[tuple[int, int, str]], int, list[Reason]]:
        """Reused blocks of whose bytes the log has a copy, and the others.

        Returns:
            (those without a copy, how many have one that is described, what to say of copies
            that nothing describes).
        """
        journaled, loose = self.columns.journaled, self.columns.loose
        left = without_copied(reused, journaled[place][0]) if place in journaled else reused
        copied = _total(reused) - _total(left)
        if place not in loose:
            return left, copied, []
        lost = without_copied(left, loose[place][0])
        count = _total(left) - _total(lost)
        told = reasons.CONTENT_FROM_UNTAGGED_COPIES.filled(n=f"{count:,}")
        return lost, copied, [told] if count else []

    def _report_live_copy(self) -> None:
        """Report that log and disk are of different moments."""
        if self.history.live_copy:
            what = (
                f"{self.history.live_copy}: the image was probably copied while it was mounted and"
            )
            what += " written; content may be of a later moment than the journal"
            self.fs.problems.add("image", what, Severity.WARNING)

    def _with_discarded(
        self, place: int, lost: list[tuple[int, int, str]]
    ) -> tuple[list[tuple[int, int, str]], int]:
        """(the lost blocks, discarded ones among them; how many were discarded)."""
        first, last = self.columns.discarded_slices[place : place + 2]
        if first == last:
            return lost, 0
        table = self.columns.discarded
        pieces = [
            (int(table.physical[row]), int(table.length[row]), DISCARDED)
            for row in range(first, last)
        ]
        for copies in (self.columns.journaled, self.columns.loose):
            if place in copies:
                pieces = without_copied(pieces, copies[place][0])
        found = drop_overlaps(sorted(lost + pieces, key=lambda piece: piece[0]))
        return found, _total([piece for piece in found if piece[2] == DISCARDED])

    @cached_property
    def _contested(self) -> set[int]:
        """Candidates of which others had blocks."""
        return {*self.columns.reuse.candidate.tolist(), *self.columns.freed_rivals[0].tolist()}

    def _reused_blocks(self, place: int) -> list[tuple[int, int, str]]:
        """(first block, count, owner) without overlaps, in order."""
        columns = self.columns
        (first, last), (begin, end) = (
            slices[place : place + 2] for slices in (columns.reuse_slices, columns.rival_slices)
        )
        reuse, (_, start, length, number) = columns.reuse, columns.freed_rivals
        found = [
            (int(reuse.start[row]), int(reuse.length[row]), self._owner(row))
            for row in range(first, last)
        ]
        for row in range(begin, end):
            found.append((int(start[row]), int(length[row]), f"deleted inode {number[row]}"))
        return drop_overlaps(sorted(found, key=lambda piece: piece[0]))

    def _owner(self, row: int) -> str:
        number, order = int(self.columns.reuse.number[row]), int(self.columns.reuse.order[row])
        if order == TID_ON_DISK:
            if not number:
                return "in use now, by metadata or an owner not found"
            path = self.columns.owner_paths.get(number)
            shown = "" if path is None else " " + path.decode("utf-8", "backslashreplace")
            return f"inode {number}{shown}"
        moment = self.columns.moments.get(order)
        when = f" in transaction {moment.transaction}" if moment else ""
        return f"inode {number}{when}" if number else f"metadata written{when}"

    def _grade(
        self,
        place: int,
        inode: Inode,
        source: str,
        runs: Runs,
        lost: list[tuple[int, int, str]],
        against: list[Reason],
    ) -> Grade:
        """The grade, and the reasons for anything below intact."""
        if source == NO_MAP:
            against += self._traces_of_a_map(place)
            return Grade.OVERWRITTEN
        against += self.columns.reasons.get(place, ())
        if inode.is_inline and lacks_inline_data(inode):
            against.append(reasons.INLINE_DATA_INCOMPLETE)
        if place in self.columns.untrusted:
            against.append(reasons.MAP_BLOCK_REUSED)
        if not len(runs) and self._changed_later(place, inode):
            against.append(reasons.CHANGED_AFTER_LAST_STATE)
        reused, blocks = _total(lost), self.columns.block_counts[place]
        grade = Grade.PARTIAL if against or reused else Grade.INTACT
        if grade is Grade.INTACT and place in self.columns.unrecorded:
            against += self.columns.unrecorded[place]
            grade = Grade.CONSISTENT
        if blocks and reused >= blocks:
            grade = Grade.OVERWRITTEN
        if inode.is_encrypted:
            against.append(reasons.ENCRYPTED)
        return grade

    def _traces_of_a_map(self, place: int) -> list[Reason]:
        """What to say of a candidate without a map."""
        said = [reasons.NO_BLOCK_MAP]
        if place in self.columns.stale_extents:
            count, last = self.columns.stale_extents[place]
            size = f"{last * self.block_size:,}"
            said.append(reasons.EXTENT_COUNT.filled(n=count, size=size))
        return said

    def _changed_later(self, place: int, inode: Inode) -> bool:
        """Whether a file last seen without blocks got some before it was freed.

        Freeing blocks sets mtime; an inode that never had any keeps its own. What a fast commit
        freed does not tell.
        """
        ends = self.columns.deletion
        if inode.kind != "file" or inode.is_inline:
            return False
        if UNREPLAYED <= ends.order[place] < TID_ON_DISK or inode.number in self.history.undated:
            return True
        freed = ends.freed_mtime[place]
        return freed is not None and freed != inode.mtime

    def _size(self, place: int, inode: Inode, source: str) -> int | None:
        if source == NO_MAP:
            return None
        return self.columns.sizes[place] or None if self._unsized[place] else inode.size

    @cached_property
    def _rows(self) -> list[int]:
        found: list[int] = self.found.state_row.tolist()
        return found

    @cached_property
    def _unsized(self) -> list[bool]:
        found: list[bool] = self.found.size_unknown.tolist()
        return found

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
        if inode.kind != "file" or source == NO_MAP or size is None:
            return None
        return self._reader_for(place, inode, runs, lost, size)

    def _reader_for(
        self,
        place: int,
        inode: Inode,
        runs: Runs,
        lost: list[tuple[int, int, str]],
        size: int,
    ) -> Content:
        """The bytes, from the inode, or from its blocks with the log's copies in front."""
        if inode.is_inline or inode.is_fast_symlink:
            return Content(self.fs.blocks, size, inline=self.inline_bytes(inode))
        blocks: Any = self.fs.blocks
        if place in self.columns.loose and self.history.log is not None:
            blocks = UntaggedContentBlocks(blocks, self.history.log, *self.columns.loose[place])
        if place in self.columns.journaled:
            blocks = TaggedContentBlocks(self.history, blocks, *self.columns.journaled[place])
        return Content(blocks, size, without_blocks(runs, lost))

    def inline_bytes(self, inode: Inode) -> bytes:
        """The content that the inode itself holds; its start where attributes are broken."""
        try:
            return self.fs.content(inode).inline
        except CorruptError:
            return inode.i_block

    def link_target(
        self, place: int, inode: Inode, source: str, runs: Runs, lost: list[tuple[int, int, str]]
    ) -> bytes | None:
        if inode.kind != "symlink" or source == NO_MAP or lost:
            return None
        try:
            size = min(inode.size, self.block_size)
            return self._reader_for(place, inode, runs, lost, size).read(0, size)
        except AccessError:
            return None

    def reused_ranges(
        self, runs: Runs, lost: list[tuple[int, int, str]], size: int
    ) -> list[ReusedRange]:
        """Lost blocks as byte ranges of the file."""
        found = []
        for start, length, owner in lost:
            inside = (runs.physical <= start) & (start < runs.physical + runs.length)
            for row in np.flatnonzero(inside).tolist():
                at = int(runs.logical[row] + start - runs.physical[row]) * self.block_size
                found.append(ReusedRange(at, min(length * self.block_size, size - at), owner))
        return sorted(found, key=lambda piece: piece.offset)

    # -- where from, and what it was called -----------------------------------------------

    @cached_property
    def _superseded(self) -> list[bool]:
        found: list[bool] = self.found.superseded.tolist()
        return found

    def deletion_window(self, place: int) -> tuple[TransactionTime | None, TransactionTime | None]:
        """The last transaction that shows it linked, and the first that shows it gone."""
        ends, moments = self.columns.deletion, self.columns.moments
        return moments.get(ends.last_linked_tid[place]), moments.get(ends.first_missing_tid[place])

    def provenance(self, place: int, inode: Inode, source: str, name: KnownName | None) -> Sources:
        """What inode, map and name rest on."""
        where = self._shown_by(self.columns.deletion.order[place])
        if source == INODE_TABLE and inode.number in self.fs.orphans:
            where = "orphan list"
        if self._undescribed[place]:
            where = "copy without a descriptor"
        sources: Sources = {"inode": where}
        if source != NO_MAP:
            sources["map"] = (
                where if source in (JOURNAL, INODE_TABLE) else MAP_SOURCE_TEXTS.get(source, source)
            )
        if told := self.content_source(place):
            sources["content"] = told
        if name is not None:
            sources["name"] = name.source
        return sources

    def state_source(self, order: int) -> str:
        """Where a state was seen that was first there at that order."""
        if UNREPLAYED < order < TID_ON_DISK:
            return "fast commit"
        return self.transaction_text(order) or "inode table"

    def transaction_text(self, order: int) -> str:
        """The transaction of the log that has this order, "" where it has none."""
        moment = self.columns.moments.get(order)
        return f"journal transaction {moment.transaction}" if moment else ""

    def content_source(self, place: int) -> str:
        """Where in the log content is read from, "" for content that is read in its place."""
        described, loose = place in self.columns.journaled, place in self.columns.loose
        found = [TAGGED_COPIES] * described + [UNTAGGED_COPIES] * loose
        return ", ".join(found) if found else ""

    @cached_property
    def _undescribed(self) -> list[bool]:
        found: list[bool] = self.history.states.untagged[self.found.state_row].tolist()
        return found

    @cached_property
    def _name_rows(self) -> Any:
        """Per candidate: row of its last name in the names over time, -1 for none."""
        return self.names.last_name_rows(self.history.states.life[self.found.state_row])

    @cached_property
    def proofs(self) -> Proofs:
        """Where in the image the facts of the candidates stand."""
        return Proofs(self.columns, self.names, self._name_rows)

    @cached_property
    def _names(self) -> list[KnownName | None]:
        """Per candidate: its last name."""
        lives = self.history.states.life[self.found.state_row]
        rows = self._name_rows
        found = [self.other_names.name_of(life) for life in np.where(rows < 0, lives, -1).tolist()]
        named = np.flatnonzero(rows >= 0)
        rows, death = rows[named], self.found.freed_tid[named]
        stood = self.names.places(rows, np.where(death == TID_NONE, TID_ON_DISK, death))
        names = self.names.name_table
        columns = zip(
            named.tolist(), rows.tolist(), names.last_seen[rows].tolist(), stood, strict=True
        )
        for place, row, seen, where in columns:
            other = self.other_names.name_of(int(lives[place])) if where is None else None
            below = other.partial_path if other and other.name == names.name[row] else None
            source = self._seen_in(seen)
            path, ground = (where.path, where.ground) if where else (None, None)
            found[place] = KnownName(names.name[row], path, below, source, ground)
        return found

    def name_source(self, order: int) -> str:
        """Where a name was seen that was last there at that order."""
        kept = {
            TID_BEFORE_LOG: "freed directory block",
            SLACK_ENTRY: "removed entry left in its directory",
        }
        kept[UNREPLAYED] = "directory block that a fast commit changes"
        kept[int(TID_ON_DISK)] = "directory on the disk"
        if order in kept:
            return kept[order]
        if UNREPLAYED < order < TID_ON_DISK:
            return "fast commit"
        return self.transaction_text(order) or "journal"


def _total(pieces: list[tuple[int, int, str]]) -> int:
    """Blocks in (first block, count, owner) each."""
    return sum([length for _, length, _ in pieces]) if pieces else 0
