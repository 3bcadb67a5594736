"""Records of deleted files, from candidates and carved contents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np

from ext4kit import reasons
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.history.history import TID_NONE, TID_ON_DISK
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.candidates import INODE_TABLE, JOURNAL, NO_MAP
from ext4kit.recovery.carved_contents import CarvedContents, content_at, content_files
from ext4kit.recovery.content import link_target, open_content, reused_ranges
from ext4kit.recovery.grading.grade import Grading
from ext4kit.recovery.joining import Match
from ext4kit.recovery.journal_content import TaggedContentBlocks
from ext4kit.recovery.losses import Losses
from ext4kit.recovery.model import DeletedFile, Grade, Sources
from ext4kit.recovery.names import CandidateNames, KnownName
from ext4kit.recovery.proof import Proofs
from ext4kit.recovery.provenance import (
    MAP_SOURCES,
    ORPHAN_LIST,
    TAGGED_COPIES,
    UNTAGGED_COPIES,
    UNTAGGED_COPY,
    state_source,
)
from ext4kit.recovery.untagged_content import UntaggedContentBlocks
from ext4kit.recovery.xattrs import XattrReader


def build_records(
    names: CandidateNames,
    blocks: BlockAttribution,
    losses: Losses,
    grading: Grading,
    contents: CarvedContents,
    matches: dict[int, Match],
    xattrs: XattrReader,
) -> list[DeletedFile]:
    """Deleted files by path; at equal paths the last deleted comes first.

    Carved contents without an inode follow, by first block.

    Args:
        names: last names.
        blocks: blocks and later owners.
        losses: lost blocks.
        grading: grades and reasons.
        contents: carved contents.
        matches: candidate -> carved content matched to it.
        xattrs: reader of extended attributes.
    """
    freed_tid = blocks.candidates.freed_tid
    freed = np.where(freed_tid == TID_NONE, TID_ON_DISK, freed_tid).tolist()
    keyed = []
    for place, file in enumerate(_candidate_files(names, blocks, losses, grading, xattrs)):
        if (match := matches.get(place)) is not None:
            file = _with_content(file, contents, match)
        key = file.path is None, file.path or b"", file.superseded, -freed[place], file.number
        keyed.append((key, file))
    known = [file for _, file in sorted(keyed, key=lambda pair: pair[0])]
    return known + content_files(contents, {match.content for match in matches.values()})


def _candidate_files(
    names: CandidateNames,
    blocks: BlockAttribution,
    losses: Losses,
    grading: Grading,
    xattrs: XattrReader,
) -> Iterator[DeletedFile]:
    """Records of the candidates, in their order."""
    deletion = blocks.deletion
    candidates, history = blocks.candidates, blocks.history
    fs, proofs = history.fs, Proofs(blocks, names)
    block_size = fs.superblock.block_size
    inode_source = cache(partial(state_source, blocks.transactions))
    rows, superseded = candidates.state_row.tolist(), candidates.superseded.tolist()
    size_unknown = candidates.size_unknown.tolist()
    untagged = history.states.untagged[candidates.state_row].tolist()
    for place, map_source in enumerate(candidates.map_source.tolist()):
        inode, lost = deletion.inode[place], losses.of(place)
        runs, name = blocks.runs_of(place), names.names[place]
        size = blocks.sizes[place] or None if size_unknown[place] else inode.size
        size = None if map_source == NO_MAP else size
        where = inode_source(deletion.tid[place])
        if map_source == INODE_TABLE and inode.number in fs.orphans:
            where = ORPHAN_LIST
        if untagged[place]:
            where = UNTAGGED_COPY
        content, target = None, None
        if inode.kind == "file" and size is not None:
            reader = _block_reader(blocks, place)
            content = open_content(fs, reader, inode, runs, lost.pieces, size)
        elif inode.kind == "symlink" and map_source != NO_MAP and not lost.pieces:
            reader, length = _block_reader(blocks, place), min(inode.size, block_size)
            target = link_target(open_content(fs, reader, inode, runs, (), length))
        yield DeletedFile(
            path=name.path if name else None,
            path_ground=name.ground if name else None,
            name=name.name if name else None,
            inode=inode,
            size=size,
            dtime=deletion.dtime[place],
            deleted_between=(
                blocks.transactions.get(deletion.last_linked_tid[place]),
                blocks.transactions.get(deletion.first_missing_tid[place]),
            ),
            grade=grading.grades[place],
            blocks=blocks.block_counts[place],
            blocks_reused=lost.reused,
            lost=reused_ranges(runs, lost.pieces, size or 0, block_size),
            sources=_sources(blocks, place, where, map_source, name),
            reasons=grading.reasons[place],
            superseded=superseded[place],
            link_target=target,
            partial_path=name.partial_path if name else None,
            deletion_bound=deletion.bound[place],
            other_paths=names.others.get(place, ()),
            _content=content,
            _attributes=partial(xattrs.read, inode, rows[place]),
            _evidence=partial(proofs.of, place),
        )


def _with_content(file: DeletedFile, contents: CarvedContents, match: Match) -> DeletedFile:
    """A file without known blocks, with its matched carved content."""
    content = content_at(contents, match.content)
    assert content.runs is not None
    return replace(
        file,
        size=content.size,
        grade=Grade.CARVED,
        blocks=int(content.runs.length.sum()),
        sources=file.sources | {"map": match.evidence},
        reasons=(reasons.CARVED_BOUNDARIES,),
        first_block=int(contents.first_block[match.content]),
        _signature=int(contents.signature[match.content]),
        _content=content,
    )


def _sources(
    blocks: BlockAttribution, place: int, where: str, map_source: str, name: KnownName | None
) -> Sources:
    """Provenance of inode, map, content and name."""
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
