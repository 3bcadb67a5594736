"""The hash index of a directory: search for the leaf of a name, and splits for new entries.

Source: kernel fs/ext4/namei.c, `dx_probe`, `do_split`, `ext4_dx_add_entry`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.types import Int64s, UInt8s, UInt32s
from ext4kit.errors import CorruptError
from ext4kit.journal.fast_commits.overlay import set_fields
from ext4kit.parsers.htree import (
    DX_COUNTLIMIT,
    DX_ENTRY,
    DX_ROOT,
    DX_TAIL,
    FAKE_DIRENT,
    IndexEntries,
    index_checksum,
    parse_node,
    parse_root,
)


@dataclass(frozen=True, slots=True)
class HtreeStep:
    """One index block on the path to a leaf: its file block, its entries, and the chosen entry."""

    block: int
    entries: IndexEntries
    slot: int

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return self.entries.count >= self.entries.limit

    @property
    def child(self) -> int:
        """File block that the chosen entry refers to."""
        return int(self.entries.blocks[self.slot])


@dataclass(frozen=True, slots=True)
class HtreeEditor:
    """The index blocks of one directory.

    Attributes:
        edit: file block -> its bytes, to be changed in place.
        append: adds a zeroed file block.
        seed: checksum seed of the directory, None where blocks have no checksums.
        most_levels: greatest number of levels of index nodes below the root.
    """

    edit: Callable[[int], UInt8s]
    append: Callable[[], tuple[int, UInt8s]]
    seed: int | None
    most_levels: int

    @property
    def hash_version(self) -> int:
        """Hash version from the root."""
        return parse_root(self.edit(0)).hash_version

    def path_to(self, wanted: int) -> list[HtreeStep]:
        """The steps from the root to the leaf for the hash `wanted`.

        Raises:
            CorruptError: an index block is damaged.
        """
        root = parse_root(self.edit(0))
        steps = [_step(0, root.entries, wanted)]
        for _ in range(root.indirect_levels):
            block = steps[-1].child
            steps.append(_step(block, parse_node(self.edit(block)), wanted))
        return steps

    def leaves_for(self, wanted: int) -> list[int]:
        """The leaves that can hold names with the hash `wanted`, which may span several leaves."""
        steps, found = self.path_to(wanted), []
        while True:
            found.append(steps[-1].child)
            following = self._next_leaf(steps)
            if following is None:
                return found
            steps = following
            last = steps[-1]
            if int(last.entries.hashes[last.slot]) != wanted | 1:
                return found

    def _next_leaf(self, steps: list[HtreeStep]) -> list[HtreeStep] | None:
        """The path to the leaf after the one that `steps` lead to, None if that is the last one."""
        for depth in range(len(steps) - 1, -1, -1):
            one = steps[depth]
            if one.slot + 1 < one.entries.count:
                way = [*steps[:depth], HtreeStep(one.block, one.entries, one.slot + 1)]
                if depth < len(steps) - 1:  # the parent entry has the hash of its first leaf
                    return self._descend(way, len(steps), int(one.entries.hashes[one.slot + 1]))
                return way
        return None

    def _descend(self, way: list[HtreeStep], depth: int, first_hash: int) -> list[HtreeStep]:
        """Descend along first entries, which have the hash of the parent entry."""
        while len(way) < depth:
            block = way[-1].child
            entries = parse_node(self.edit(block))
            hashes = entries.hashes.copy()
            hashes[0] = first_hash
            way = [*way, HtreeStep(block, replace(entries, hashes=hashes), 0)]
        return way

    def add(self, steps: list[HtreeStep], value: int, leaf: int) -> None:
        """Add a leaf after the one that `steps` lead to; its parent must have room."""
        last = steps[-1]
        at = last.slot + 1
        hashes = np.insert(last.entries.hashes, at, value)
        blocks = np.insert(last.entries.blocks, at, leaf)
        self._write_entries(last.block, last.entries, hashes, blocks)

    def split_full_node(self, steps: list[HtreeStep]) -> None:
        """Split the full index block whose parent has room, or add a level below a full root.

        A split moves the upper half of the entries into a new sibling. A new level takes over all
        entries of the root and becomes its only child.

        Raises:
            CorruptError: the index is as large as the format allows.
        """
        depth = len(steps) - 1
        while depth and steps[depth - 1].is_full:
            depth -= 1
        if not depth:
            if len(steps) > self.most_levels:
                raise CorruptError("htree", None, "the index is full")
            entries = steps[0].entries
            block = self._new_node(entries.hashes, entries.blocks)
            set_fields(DX_ROOT, self.edit(0), indirect_levels=len(steps))
            self._write_entries(0, entries, entries.hashes[:1], np.array([block]))
            return
        one, half = steps[depth], steps[depth].entries.count // 2
        hashes, blocks = one.entries.hashes, one.entries.blocks
        block = self._new_node(hashes[half:], blocks[half:])
        self._write_entries(one.block, one.entries, hashes[:half], blocks[:half])
        self.add(steps[:depth], int(hashes[half]), block)

    def _new_node(self, hashes: UInt32s, blocks: Int64s) -> int:
        number, row = self.append()
        set_fields(FAKE_DIRENT, row, rec_len=len(row) if len(row) < 65536 else 65535)
        tail = DX_TAIL.size if self.seed is not None else 0
        limit = (len(row) - FAKE_DIRENT.size - tail) // DX_ENTRY.size
        entries = IndexEntries(FAKE_DIRENT.size, limit, hashes, blocks)
        self._write_entries(number, entries, hashes, blocks)
        return number

    def _write_entries(
        self, block: int, old: IndexEntries, hashes: UInt32s, blocks: Int64s
    ) -> None:
        """Write an index block's entries, count and checksum."""
        row = self.edit(block)
        table = np.zeros(len(blocks), DX_ENTRY.dtype)
        table["hash"], table["block"] = hashes, blocks
        row[old.offset : old.offset + table.nbytes] = table.view(np.uint8)
        set_fields(DX_COUNTLIMIT, row, old.offset, limit=old.limit, count=len(blocks))
        if self.seed is not None:
            value = index_checksum(self.seed, row, replace(old, hashes=hashes, blocks=blocks))
            set_fields(DX_TAIL, row, old.tail_offset, dt_checksum=value)


def _step(block: int, entries: IndexEntries, wanted: int) -> HtreeStep:
    """The step that chooses the last entry whose hash is at most `wanted`."""
    place = int(np.searchsorted(entries.hashes[1:], wanted, side="right"))
    return HtreeStep(block, entries, place)
