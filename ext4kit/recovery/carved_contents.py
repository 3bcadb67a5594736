"""Contents without an inode: rebuilt maps without a known owner, and carved runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Strings
from ext4kit.carving import carve, format_sizes
from ext4kit.carving.result import HAS_LENGTH, CarvedFiles
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.recovery.artifacts import Artifacts
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.maps.rebuilt import INDIRECT_BLOCKS, owners_without_overlap
from ext4kit.recovery.model import DeletedFile, Grade
from ext4kit.recovery.untagged_content import block_features_of_journal
from ext4kit.unallocated.space import UnallocatedSpace

UNALLOCATED, UNTAGGED_JOURNAL = "unallocated blocks", "untagged journal blocks"


@dataclass(frozen=True, slots=True)
class CarvedContents:
    """Contents without an inode, one row each.

    Attributes:
        first_block: first block.
        end_block: one past the last block.
        size: bytes.
        signature: number of the signature at the start, 0 for none.
        is_reliable: bool, True where the content is probably exactly one file.
        is_fragment: bool, True where the content is probably a fragment of a file.
        end_proven: bool, True where the end is known from format, block list or extent tree.
        map_source: provenance of the blocks.
        runs: blocks of the contents; `owner` is the row in this table.
        reader: reader of the blocks.
    """

    first_block: Int64s
    end_block: Int64s
    size: Int64s
    signature: Int64s
    is_reliable: Bools
    is_fragment: Bools
    end_proven: Bools
    map_source: Strings
    runs: Runs
    reader: BlockReader

    def __len__(self) -> int:
        return len(self.first_block)


def find_carved_contents(artifacts: Artifacts, blocks: BlockAttribution) -> CarvedContents:
    """All content outside the blocks of candidates."""
    claimed = Intervals.union(blocks.runs.physical, blocks.runs.length)  # blocks of candidates
    parts = [_from_ownerless_maps(artifacts, claimed)]
    if artifacts.block_features is not None:
        parts.append(_from_unallocated(artifacts, blocks, claimed, parts[0].runs))
        log = artifacts.space.log
        if len(blocks.unassigned) and log is not None and log.reader.blocks is log.home:
            space = artifacts.space
            runs, features = block_features_of_journal(log, blocks.unassigned)
            copies = carve(space.blocks, features, runs, Intervals.empty())
            parts.append(_to_contents(space, copies, UNTAGGED_JOURNAL))
    return _concat(parts)


def _from_ownerless_maps(artifacts: Artifacts, claimed: Intervals) -> CarvedContents:
    """Rebuilt maps of unknown inodes, if all their blocks are unallocated."""
    maps = artifacts.maps.take(artifacts.maps.instance < 0)
    if len(maps):  # otherwise the bitmaps of all groups would be read without need
        runs, unused = maps.runs, artifacts.space.unused
        mine, _ = overlap_pairs(runs.physical, runs.length, claimed.start, claimed.length)
        free = Intervals.union(unused.start, unused.length)
        used = np.zeros(len(maps), bool)
        used[runs.owner[mine]] = True
        used[runs.owner[~free.contains(runs.physical, runs.length)]] = True
        maps = maps.take(~used & owners_without_overlap(maps.runs, len(maps)))
    doubted = np.zeros(len(maps), bool)
    for doubtful, _ in maps.reasons:
        doubted |= doubtful
    blocks = artifacts.space.blocks
    size, kind, confirmed = format_sizes(blocks, maps.runs, maps.size)
    proven = maps.source != INDIRECT_BLOCKS
    held = np.bincount(maps.runs.owner, maps.runs.length, len(maps)) * blocks.block_size
    doubted |= ~proven & ~confirmed & (HAS_LENGTH[kind] | (size == held))  # may go on elsewhere
    standing = ~doubted, np.zeros(len(maps), bool), proven
    return _make(blocks, maps.runs, size, kind, standing, maps.source)


def _from_unallocated(
    artifacts: Artifacts, blocks: BlockAttribution, claimed: Intervals, unowned: Runs
) -> CarvedContents:
    """Contents carved from unallocated blocks without an owner."""
    assert artifacts.block_features is not None
    structures, maps = artifacts.metadata, artifacts.maps
    metadata = np.unique(structures.block[~structures.in_journal])
    trees = np.concatenate([blocks.candidates.tree_blocks[1], maps.tree_blocks[1]])
    claimed = Intervals.union(
        np.concatenate([claimed.start, unowned.physical, trees]),
        np.concatenate([claimed.length, unowned.length, np.ones(len(trees), np.int64)]),
    )
    space = artifacts.space
    found = carve(
        space.blocks,
        artifacts.block_features,
        space.unused,
        claimed,
        artifacts.headless_bodies,
        metadata,
    )
    return _to_contents(space, found, UNALLOCATED)


def _to_contents(space: UnallocatedSpace, found: CarvedFiles, name: str) -> CarvedContents:
    """Carved files converted to contents."""
    first = np.searchsorted(found.run_file, np.arange(len(found)))
    before = np.cumsum(found.run_count) - found.run_count
    logical = before - before[first][found.run_file] if len(found) else before
    runs = Runs(
        found.run_file, logical, found.run_count, found.run_first, np.zeros(len(before), bool)
    )
    source = np.full(len(found), name)
    kind = found.kind.astype(np.int64)
    standing = found.is_reliable, found.is_fragment, found.end_proven
    return _make(space.blocks, runs, found.size, kind, standing, source)


def _make(
    blocks: BlockReader,
    runs: Runs,
    size: Int64s,
    signature: Int64s,
    standing: tuple[Bools, Bools, Bools],
    source: Strings,
) -> CarvedContents:
    """Make the table of contents; `standing` is (reliable, fragment, end proven)."""
    first, end = np.full(len(size), np.iinfo(np.int64).max), np.zeros(len(size), np.int64)
    np.minimum.at(first, runs.owner, runs.physical)
    np.maximum.at(end, runs.owner, runs.physical + runs.length)
    return CarvedContents(first, end, size, signature, *standing, source, runs, blocks)


def _concat(parts: list[CarvedContents]) -> CarvedContents:
    runs = Runs.stacked([(part.runs, len(part)) for part in parts])
    names = ("size", "signature", "is_reliable", "is_fragment", "end_proven", "map_source")
    values = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    size, kind, sure, fragment, proven, source = values
    return _make(parts[0].reader, runs, size, kind, (sure, fragment, proven), source)


def content_at(contents: CarvedContents, row: int) -> Content:
    """The content of a row."""
    low, high = np.searchsorted(contents.runs.owner, [row, row + 1])
    runs = contents.runs.take(slice(int(low), int(high)))
    return Content(contents.reader, int(contents.size[row]), runs)


def head_at(contents: CarvedContents, row: int, most: int) -> bytes:
    """At most `most` first bytes of a row; b"" if they cannot be read."""
    try:
        return content_at(contents, row).read(0, min(most, int(contents.size[row])))
    except AccessError:
        return b""


def content_file(contents: CarvedContents, row: int) -> DeletedFile:
    """Record of content without a matched inode."""
    against = () if contents.is_reliable[row] else (reasons.CARVED_BOUNDARIES,)
    content = content_at(contents, row)
    assert content.runs is not None
    return DeletedFile(
        path=None,
        name=None,
        inode=None,
        size=content.size,
        dtime=None,
        deleted_between=(None, None),
        grade=Grade.CARVED,
        blocks=int(content.runs.length.sum()),
        blocks_reused=0,
        lost=(),
        sources={"map": str(contents.map_source[row])},
        reasons=(reasons.CARVED_FRAGMENT,) if contents.is_fragment[row] else against,
        superseded=False,
        link_target=None,
        first_block=int(contents.first_block[row]),
        fragment=bool(contents.is_fragment[row]),
        _signature=int(contents.signature[row]),
        _content=content,
    )
