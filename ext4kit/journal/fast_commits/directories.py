"""Directories that fast commits change: linear, with a hash index, or inline.

Source: kernel fs/ext4/namei.c, `ext4_add_entry`, `ext4_init_new_dir`; fs/ext4/inline.c,
`ext4_convert_inline_data_nolock`.
"""

from __future__ import annotations

import struct

import numpy as np

from ext4kit.arrays.types import Int64s, UInt8s
from ext4kit.errors import CorruptError
from ext4kit.filesystem.geometry import group_and_slot
from ext4kit.journal.fast_commits.dirents import (
    DirentArea,
    DirentRecord,
    NewDirent,
    dirent_size,
    entries_end,
    write_tail,
)
from ext4kit.journal.fast_commits.extents import ExtentList
from ext4kit.journal.fast_commits.htree import HtreeEditor
from ext4kit.journal.fast_commits.inodes import (
    I_BLOCK,
    InodeEditor,
    InodeEditors,
    remove_inline_xattr,
)
from ext4kit.parsers import xattr
from ext4kit.parsers.directory import parse_entries
from ext4kit.parsers.features import Compat, Incompat
from ext4kit.parsers.htree import UNSIGNED_STEP
from ext4kit.parsers.inode import InodeFlags
from ext4kit.parsers.name_hashes import dirhash

UNSIGNED_HASH = 0x2  # s_flags
SIPHASH = 6  # the highest known hash version
INLINE_ENTRIES = I_BLOCK + 4  # preceded by the number of the parent
INLINE_END = I_BLOCK + 60
DIRECTORY = 2
BLOCKS_AT_ONCE = 4096
MOST_BLOCKS = 1 << 22  # largest plausible directory


class DirectoryEditor:
    """One directory that fast commits change.

    Args:
        subjects: the editors of all inodes.
        subject: the editor of the directory's inode.

    Raises:
        CorruptError: the inode is not a directory, or its map is damaged.
    """

    def __init__(self, subjects: InodeEditors, subject: InodeEditor) -> None:
        if not subject.in_use or not subject.is_directory:
            raise CorruptError(f"inode {subject.number}", None, "is not a directory")
        self._subjects = subjects
        self.subject = subject
        self._superblock = subjects.fs.superblock
        self._typed = subjects.fs.has_file_types
        self._size = self._superblock.block_size
        self._seed = subjects.seed(subject)
        self._end = entries_end(self._size, self._seed is not None)
        self._blocks: list[int] | None = None
        self._names: dict[bytes, int] | None = None
        self._room: Int64s = np.zeros(0, np.int64)

    # -- blocks ---------------------------------------------------------------------------

    @property
    def blocks(self) -> list[int]:
        """File system block of each file block."""
        if self._blocks is None:
            count = -(-self.subject.size // self._size)
            if count > MOST_BLOCKS:
                raise CorruptError(f"directory {self.subject.number}", None, "too large")
            found = self.subject.content().up_to(count).blocks().tolist()
            if len(found) != count:
                raise CorruptError(f"directory {self.subject.number}", None, "has holes")
            self._blocks = found
        return self._blocks

    def _edit(self, number: int) -> UInt8s:
        if not 0 <= number < len(self.blocks):
            raise CorruptError(f"directory {self.subject.number}", None, f"no block {number}")
        return self._subjects.draft.writable(self.blocks[number])

    def _append(self) -> tuple[int, UInt8s]:
        """Append a file block: (number, bytes)."""
        subject = self.subject
        if subject.extents is None:
            what = "must grow, but it has no extents"
            raise CorruptError(f"directory {subject.number}", None, what)
        number = len(self.blocks)
        ratio = self._superblock.cluster_ratio
        block = subject.extents.block_in_cluster(number, ratio)
        if not block:
            group = group_and_slot(self._superblock, subject.number)[0]
            block = self._subjects.space.allocate(group) + number % ratio
        row = self._subjects.draft.zeroed(block)
        subject.extents = subject.extents.with_range(number, 1, block, False)
        subject.map_changed = subject.changed = True
        self.blocks.append(block)
        subject.size = len(self.blocks) * self._size
        return number, row

    def _leaf(self, number: int) -> DirentArea:
        return DirentArea(self._edit(number), 0, self._end, self._size, self._typed)

    def _write_tail(self, number: int) -> None:
        write_tail(self._edit(number), self._seed)

    # -- names ----------------------------------------------------------------------------

    @property
    def _is_indexed(self) -> bool:
        by_hash = Compat.DIR_INDEX in self._superblock.features
        return by_hash and bool(self.subject.flags & InodeFlags.INDEX)

    def find(self, name: bytes) -> int:
        """Inode number of a name, 0 without such a name.

        Raises:
            CorruptError: the directory is damaged.
        """
        found = self._find(name)
        return found[1].inode if found else 0

    def _find(self, name: bytes) -> tuple[int, DirentRecord] | None:
        """(file block or inline part, record) of a name, None without such a name."""
        for number, stretch in self._areas_for(name):
            for slot in stretch.records():
                if slot.inode and slot.name == name:
                    return number, slot
        return None

    def _areas_for(self, name: bytes) -> list[tuple[int, DirentArea]]:
        if self.subject.is_inline:
            return list(enumerate(self._inline_parts()))
        if self._is_indexed:
            index = self._index()
            return [(one, self._leaf(one)) for one in index.leaves_for(self._hash(index, name))]
        number = self._linear_names().get(name)
        return [] if number is None else [(number, self._leaf(number))]

    def _linear_names(self) -> dict[bytes, int]:
        """The file block that holds each name of a directory without a hash index.

        Also records an upper bound of the room in each block.
        """
        if self._names is None:
            found: dict[bytes, int] = {}
            rooms: list[Int64s] = []
            blocks = np.array(self.blocks, np.int64)
            for start in range(0, len(blocks), BLOCKS_AT_ONCE):
                rows = self._subjects.draft.read_many(blocks[start : start + BLOCKS_AT_ONCE])
                table, broken = parse_entries(rows, self._typed, end=self._end)
                if (broken >= 0).any():
                    raise CorruptError(f"directory {self.subject.number}", None, "invalid entries")
                places = (table.block + start).tolist()
                found |= dict(zip(table.names(rows), places, strict=True))
                used = np.bincount(table.block, dirent_size(table.name_length), len(rows))
                rooms.append(self._end - used.astype(np.int64))
            self._names, self._room = found, np.concatenate([np.zeros(0, np.int64), *rooms])
        return self._names

    def remove(self, name: bytes, inode: int) -> bool:
        """Remove a name if its entry has that inode; False if the name does not exist.

        Raises:
            CorruptError: the directory is damaged.
        """
        found = self._find(name)
        if found is None:
            return False
        number, slot = found
        if slot.inode != inode:
            return True
        if self.subject.is_inline:
            self._inline_parts()[number].remove(slot.offset)
            self.subject.changed = True
            return True
        self._leaf(number).remove(slot.offset)
        self._write_tail(number)
        if self._names is not None:
            del self._names[name]
            self._room[number] += dirent_size(len(name))
        return True

    def add(self, entry: NewDirent) -> None:
        """Add a name that does not exist yet.

        Raises:
            CorruptError: the directory is damaged, or cannot grow.
        """
        if self.subject.is_inline:
            if any(part.insert(entry) for part in self._inline_parts()):
                self.subject.changed = True
                return
            self._convert_inline()
        if self._is_indexed:
            self._add_indexed(entry)
        else:
            self._add_linear(entry)

    def _add_linear(self, entry: NewDirent) -> None:
        names, wanted = self._linear_names(), dirent_size(len(entry.name))
        for number in np.flatnonzero(self._room >= wanted).tolist():
            if self._leaf(number).insert(entry):
                break
        else:
            number, _ = self._append()
            self._leaf(number).rewrite([entry])
            self._room = np.append(self._room, self._leaf(number).end)
        self._write_tail(number)
        names[entry.name] = number
        self._room[number] -= wanted

    # -- the hash index -------------------------------------------------------------------

    def _index(self) -> HtreeEditor:
        large = Incompat.LARGE_DIR in self._superblock.features
        return HtreeEditor(self._edit, self._append, self._seed, 2 if large else 1)

    def _hash(self, index: HtreeEditor, name: bytes) -> int:
        version = index.hash_version
        if version >= SIPHASH or self.subject.flags & InodeFlags.CASEFOLD:
            what = "its hashes need a key or casefolding, or their version is unknown"
            raise CorruptError(f"directory {self.subject.number}", None, what)
        if version < UNSIGNED_STEP and self._superblock.flags & UNSIGNED_HASH:
            version += UNSIGNED_STEP
        seed = struct.pack("<4I", *self._superblock.hash_seed)
        return int(dirhash(name, version, seed)[0])

    def _add_indexed(self, entry: NewDirent) -> None:
        index = self._index()
        wanted = self._hash(index, entry.name)
        while True:
            steps = index.path_to(wanted)
            leaf = steps[-1].child
            if self._leaf(leaf).insert(entry):
                self._write_tail(leaf)
                return
            if steps[-1].is_full:
                index.split_full_node(steps)
                continue
            number, value = self._split_leaf(index, leaf)
            index.add(steps, value, number)

    def _split_leaf(self, index: HtreeEditor, leaf: int) -> tuple[int, int]:
        """Move the upper half of a leaf's names to a new block; (file block, its index hash)."""
        slots = self._leaf(leaf).entries()
        hashed = sorted((self._hash(index, slot.name), at) for at, slot in enumerate(slots))
        sizes = np.cumsum([slots[at].used for _, at in hashed])
        cut = int(np.searchsorted(sizes, sizes[-1] // 2, side="right"))
        cut = min(max(cut, 1), len(hashed) - 1)
        if cut < 1:
            raise CorruptError("htree", None, "a leaf that cannot be split")
        moved, kept = ([slots[at].entry for _, at in one] for one in (hashed[cut:], hashed[:cut]))
        number, _ = self._append()
        for place, entries in ((number, moved), (leaf, kept)):
            self._leaf(place).rewrite(entries)
            self._write_tail(place)
        value = hashed[cut][0]
        return number, value | (value == hashed[cut - 1][0])

    # -- new and inline directories -------------------------------------------------------

    def init_first_block(self, parent: int) -> None:
        """Write the first block of a new directory with `.` and `..`, unless it has content.

        Raises:
            CorruptError: no block is free.
        """
        if self.subject.is_inline or len(self.subject.extents or ()):
            return
        self.subject.put(i_flags=self.subject.flags & ~int(InodeFlags.INDEX))
        self.subject.size = 0
        self._blocks, self._names = None, None
        number, _ = self._append()
        kind = DIRECTORY if self._typed else 0
        dots = [NewDirent(b".", self.subject.number, kind), NewDirent(b"..", parent, kind)]
        self._leaf(number).rewrite(dots)
        self._write_tail(number)

    def _inline_parts(self) -> list[DirentArea]:
        """The areas of the inode that hold entries: `i_block`, then the value of `system.data`."""
        area = self.subject.raw
        parts = [DirentArea(area, INLINE_ENTRIES, INLINE_END, self._size, self._typed)]
        size = self.subject.size - (INLINE_END - I_BLOCK)
        raw, extra = bytes(area), self.subject.extra_isize
        if size <= 0 or not xattr.has_body(raw, extra):
            return parts
        first = xattr.body_offset(extra) + xattr.XATTR_BODY_HEADER.size
        for offset in xattr.entry_offsets(raw, first, len(raw)):
            entry = xattr.entry_at(raw, offset, first, len(raw))
            if entry.index == xattr.SYSTEM and entry.suffix == b"data" and entry.value:
                start = first + xattr.XATTR_ENTRY.parse(raw, offset).e_value_offs
                end = start + min(size, entry.value_size)
                return [*parts, DirentArea(area, start, end, self._size, self._typed)]
        return parts

    def _convert_inline(self) -> None:
        """Move the entries of a directory from its inode into a separate block."""
        subject = self.subject
        parent = int.from_bytes(subject.raw[I_BLOCK:INLINE_ENTRIES], "little")
        entries = [slot.entry for part in self._inline_parts() for slot in part.entries()]
        remove_inline_xattr(subject)
        flags = subject.flags & ~int(InodeFlags.INLINE_DATA) | int(InodeFlags.EXTENTS)
        subject.put(i_flags=flags)
        subject.extents, subject.map_changed, subject.size = ExtentList.empty(), True, 0
        self.init_first_block(parent)
        if not all(self._leaf(0).insert(entry) for entry in entries):
            raise CorruptError(f"directory {subject.number}", None, "its entries exceed a block")
        self._write_tail(0)
