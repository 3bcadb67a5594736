"""The judgement on a finished image: what of the book can still be had from its bytes."""

from __future__ import annotations

import hashlib
import stat
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from sample_images.recipes.entryscan import Entry, entries_left
from sample_images.recipes.logwalk import Copies, copies_in_log
from sample_images.recipes.ondisk import (
    EXTENT_MAGIC,
    EXTENTS_FLAG,
    Disk,
    Slot,
    TreeBlock,
    content_digest,
    leaf_of,
)
from sample_images.recipes.stage import Recorded
from sample_images.recipes.truth import FileTruth, LiveFile

Folders = dict[bytes, int]


def judge(
    image: Path, book: list[Recorded], live: list[LiveFile], folders: Folders
) -> list[FileTruth]:
    """Settle state, blocks and ways for every state in the book that is no longer there.

    Args:
        image: the finished image; only read.
        book: all recorded states, oldest first.
        live: the files that are there at the end.
        folders: inode of each directory that is there at the end, by path.
    """
    gone = _settle_states(book, live)
    reserved = _reserved_blocks(book)
    with Disk(image) as disk:
        copies = copies_in_log(disk)
        evidence = _Evidence.gather(disk, copies)
        left = entries_left(disk, _removed_entries(gone, folders))
        for recorded in gone:
            truth = recorded.truth
            truth.blocks_hold = _blocks_hold(disk, truth)
            truth.inode_known = evidence.inode_known(recorded)
            truth.inode_undescribed = evidence.undescribed_has(recorded)
            truth.allocated_over = _allocated_over(truth, reserved)
            truth.path_in_log = evidence.path_in_log(recorded, folders)
            truth.name_left = recorded.names[-1][:2] in left
            truth.parts_left = _parts_left(recorded, left, folders)
            truth.path_left = truth.parts_left == len(recorded.names)
    return [recorded.truth for recorded in gone]


def _removed_entries(gone: list[Recorded], folders: Folders) -> set[Entry]:
    steps = (step for recorded in gone for step in recorded.names)
    return {(inode, name) for inode, name, path in steps if folders.get(path) != inode}


def _parts_left(recorded: Recorded, left: set[Entry], folders: Folders) -> int:
    steps = reversed(recorded.names)
    known = (folders.get(path) == inode or (inode, name) in left for inode, name, path in steps)
    return sum(1 for _ in takewhile(bool, known))


def _settle_states(book: list[Recorded], live: list[LiveFile]) -> list[Recorded]:
    """Drop what still lives as it was and states told twice; mark which state was the last."""
    living = {(one.inode, one.generation): one.sha256 for one in live}
    lives: defaultdict[tuple[int, int], list[Recorded]] = defaultdict(list)
    for recorded in book:
        lives[(recorded.truth.inode, recorded.truth.generation)].append(recorded)
    gone: list[Recorded] = []
    for key, states in lives.items():
        newest_of = {state.truth.sha256: state for state in states}  # the last telling wins
        newest_of.pop(living.get(key, ""), None)
        for state in newest_of.values():
            is_last = key not in living and state is states[-1]
            state.truth.state = "deleted" if is_last else "earlier"
            gone.append(state)
    return gone


def _reserved_blocks(book: list[Recorded]) -> dict[int, set[tuple[int, int]]]:
    """Blocks in unwritten extents, with the lives (inode, generation) that had them so."""
    reserved: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    for recorded in book:
        truth = recorded.truth
        for _, block, count, unwritten in truth.blocks:
            for one in range(block, block + count if unwritten else block):
                reserved[one].add((truth.inode, truth.generation))
    return reserved


def _allocated_over(truth: FileTruth, reserved: dict[int, set[tuple[int, int]]]) -> bool:
    own = {(truth.inode, truth.generation)}
    if not reserved:
        return False
    return any(
        reserved.get(one, own) - own
        for _, block, count, unwritten in truth.blocks
        if not unwritten
        for one in range(block, block + count)
    )


def _blocks_hold(disk: Disk, truth: FileTruth) -> bool:
    """Whether the blocks have its bytes, and zeros behind its end.

    Of a file of two bytes another one may have written just the same.
    """
    if truth.inline:
        return True
    if content_digest(disk, truth.blocks, truth.size) != truth.sha256:
        return False
    last, end = divmod(truth.size, disk.block_size)
    return not any(
        any(disk.read(block + last - logical)[end:])
        for logical, block, count, unwritten in truth.blocks
        if end and not unwritten and logical <= last < logical + count
    )


@dataclass(slots=True)
class _Evidence:
    """What the image's log and tables still show."""

    disk: Disk
    copies: Copies
    names: set[tuple[int, bytes]] = field(default_factory=set)
    loose: set[tuple[int, bytes]] = field(default_factory=set)

    @classmethod
    def gather(cls, disk: Disk, copies: Copies) -> _Evidence:
        found = cls(disk, copies)
        for versions in copies.described.values():
            for block in versions:
                found.names.update(directory_entries(block))
        for block in copies.undescribed:
            found.loose.update(_loose_slots(block, disk.inode_size))
        return found

    def inode_known(self, recorded: Recorded) -> str:
        wanted = recorded.slot.signature
        held = recorded.truth.held
        if self._tree_known(recorded.tree):
            if any(_gives(slot, wanted, held) for slot in self._logged_slots(recorded)):
                return "orphan" if held else "log"
            if _gives(self.disk.slot(recorded.truth.inode), wanted, held):
                return "orphan" if held else "disk"
        if self._dead_inline(recorded):
            return "inline"
        return "stale-index" if self._stale_index(recorded) else ""

    def _logged_slots(self, recorded: Recorded) -> list[Slot]:
        block, offset = self.disk.slot_place(recorded.truth.inode)
        end = offset + self.disk.inode_size
        return [Slot(copy[offset:end]) for copy in self.copies.described.get(block, [])]

    def undescribed_has(self, recorded: Recorded) -> bool:
        _, offset = self.disk.slot_place(recorded.truth.inode)
        found = (offset, recorded.slot.signature) in self.loose
        return found and self._tree_known(recorded.tree)

    def _tree_known(self, tree: list[TreeBlock]) -> bool:
        return all(self._tree_block_known(one) for one in tree)

    def _tree_block_known(self, one: TreeBlock) -> bool:
        candidates = [self.disk.read(one.block), *self.copies.described.get(one.block, [])]
        return any(
            hashlib.sha256(data[: one.length]).hexdigest() == one.sha256 for data in candidates
        )

    def _dead_inline(self, recorded: Recorded) -> bool:
        """The dead inode still holds the content itself."""
        dead = self.disk.slot(recorded.truth.inode)
        return recorded.truth.inline and dead.signature == recorded.slot.signature

    def _stale_index(self, recorded: Recorded) -> bool:
        """The dead inode keeps its index entries, and the leaves behind them are on disk."""
        dead = self.disk.slot(recorded.truth.inode)
        before = recorded.slot
        if not recorded.tree or not before.flags & EXTENTS_FLAG:
            return False
        if dead.generation != before.generation or dead.links:
            return False
        magic, entries = struct.unpack_from("<2H", dead.map_bytes)
        if magic != EXTENT_MAGIC or entries:
            return False
        used = struct.unpack_from("<H", before.map_bytes, 2)[0]
        places = range(12, 12 + 12 * used, 12)
        same = all(leaf_of(dead.map_bytes, at) == leaf_of(before.map_bytes, at) for at in places)
        return same and all(self._on_disk(one) for one in recorded.tree)

    def _on_disk(self, one: TreeBlock) -> bool:
        data = self.disk.read(one.block)[: one.length]
        return hashlib.sha256(data).hexdigest() == one.sha256

    def path_in_log(self, recorded: Recorded, folders: Folders) -> bool:
        if recorded.slot.links != 1:
            return False  # several names: which of them was the last is not told
        return all(
            folders.get(path) == inode or (inode, name) in self.names
            for inode, name, path in recorded.names
        )


def _gives(slot: Slot, wanted: bytes, held: bool) -> bool:
    """Whether a slot shows the wanted life, and not the dead inode of an empty file."""
    return slot.signature == wanted and stat.S_ISREG(slot.mode) and (held or slot.links > 0)


def _loose_slots(block: bytes, inode_size: int) -> set[tuple[int, bytes]]:
    places = range(0, len(block) - inode_size + 1, inode_size)
    slots = ((at, Slot(block[at : at + inode_size])) for at in places)
    return {(at, slot.signature) for at, slot in slots if stat.S_ISREG(slot.mode) and slot.links}


def directory_entries(block: bytes) -> set[tuple[int, bytes]]:
    """(inode, name) of each entry when the block reads as a directory block, else nothing."""
    found: set[tuple[int, bytes]] = set()
    place, end = 0, len(block)
    while place < end - 8:
        inode, length, name_length = struct.unpack_from("<IHB", block, place)
        if length < 8 or length % 4 or place + length > end or name_length + 8 > length:
            return found
        if inode and name_length:
            found.add((inode, block[place + 8 : place + 8 + name_length]))
        place += length
    return found
