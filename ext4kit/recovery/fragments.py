"""Separates whole carved files from probable fragments of overwritten files.

If nothing was written since the deletions, each carved content is complete, and a boundary of
unallocated space is a boundary of a file. If space was reused, a carved content may be the rest of
a partly overwritten file with the same boundaries. Then only its own bytes can show that a file
begins there.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.filetypes.identify import text_encoding
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.candidates import NO_MAP
from ext4kit.recovery.carved_contents import UNTAGGED_JOURNAL, CarvedContents, head_at
from ext4kit.unallocated.space import UnallocatedSpace

MAX_REUSE_SHARE = 0.1  # mean share of reused space from which on contents are probably not whole
MAX_CONTENTS_PER_INODE = 1.2  # with more contents, inodes were reused and therefore space too
_HEAD = 16 << 10
_WORD = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")
_OPENING_BYTES = frozenset(
    b"#<{[/\"'-*!%@\\$(;=_`~"
)  # bytes that often begin a text but seldom continue one
_UTF8_CONTINUATION = range(0x80, 0xC0)


def mark_fragments(
    contents: CarvedContents, blocks: BlockAttribution, space: UnallocatedSpace
) -> CarvedContents:
    """The contents with probable fragments marked."""
    if not len(contents) or not space_was_reused(contents, blocks):
        return contents
    doubted = ~contents.end_proven & (contents.map_source != UNTAGGED_JOURNAL)
    fragment = contents.is_fragment | doubted
    runs = contents.runs
    begins = np.flatnonzero(np.diff(runs.owner, prepend=-1) != 0)
    front = runs.physical[begins] - 1
    claimed = Intervals.union(blocks.runs.physical, blocks.runs.length)
    behind = np.ones(len(contents), bool)
    behind[runs.owner[begins]] = (space.unused.rows_at(front) == NO_ROW) | (
        claimed.rows_at(front) != NO_ROW
    )
    for row in np.flatnonzero(doubted & contents.is_reliable).tolist():
        fragment[row] = not _looks_like_file_start(head_at(contents, row, _HEAD), bool(behind[row]))
    return replace(contents, is_reliable=contents.is_reliable & ~fragment, is_fragment=fragment)


def space_was_reused(contents: CarvedContents, blocks: BlockAttribution) -> bool:
    """Whether much of the space of deleted files was reused.

    This is so if contents outnumber the deleted inodes without a map, or if files created or
    written after the deletions occupy much of the space.
    """
    found, table = blocks.candidates, blocks.history.states.table
    unmapped = (found.map_source == NO_MAP) & table.is_regular[found.state_row]
    if contents.is_reliable.sum() > MAX_CONTENTS_PER_INODE * unmapped.sum():
        return True
    time, length = _write_times(blocks)
    order = np.argsort(time)
    later = np.append(np.cumsum(length[order][::-1])[::-1], 0)
    freed = table.ctime[found.state_row[unmapped]]
    freed_before = np.searchsorted(time[order], freed, side="right")
    left = int(contents.runs.length.sum())
    shares = later[freed_before] / np.maximum(later[freed_before] + left, 1)
    return float(shares.sum()) > MAX_REUSE_SHARE * len(shares)


def _write_times(blocks: BlockAttribution) -> tuple[Int64s, Int64s]:
    """(last write or creation time, ns; number of blocks) of each run of a file."""
    fs, table, row = blocks.history.fs, blocks.history.states.table, blocks.candidates.state_row
    columns = table.crtime[row], table.mtime[row], table.links_count[row]
    times, lengths = [_write_time(*columns)[blocks.runs.owner]], [blocks.runs.length]
    for live, maps in fs.allocated_maps():
        runs = maps.runs.take(live.is_regular[maps.runs.owner])
        times.append(_write_time(live.crtime, live.mtime, live.links_count)[runs.owner])
        lengths.append(runs.length)
    return np.concatenate(times), np.concatenate(lengths)


def _write_time(crtime: Int64s, mtime: Int64s, links_count: Int64s) -> Int64s:
    """Time of the last write; for freed inodes the creation, because a deletion sets mtime."""
    return np.where(links_count > 0, np.maximum(crtime, mtime), crtime)


def _looks_like_file_start(head: bytes, behind_others: bool) -> bool:
    """Whether carved content begins like a text; other data give no such evidence.

    Args:
        head: the first bytes of the content.
        behind_others: whether the block before the content belongs to another file, which may have
            overwritten the start of the content.
    """
    if not head or head[0] in _UTF8_CONTINUATION or not text_encoding(head):
        return False
    first = _WORD.match(head)
    if first is None:
        return head[0] in _OPENING_BYTES
    words = set(_WORD.findall(head, first.end()))
    if first[0] not in words and any(word.endswith(first[0]) for word in words):
        return False  # starts with the end of a word
    stands_out = head[0] >= 0x80 or head[:1].isupper() or head[:1].isdigit() or head[:1] == b"_"
    return stands_out or (first[0] in words and not behind_others)
