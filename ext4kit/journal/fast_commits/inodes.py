"""Inodes that fast commits change: their bytes, block maps and allocation.

Source: kernel fs/ext4/fast_commit.c, `ext4_fc_replay_inode`, `ext4_fc_replay_add_range`,
`ext4_fc_replay_del_range`; fs/ext4/inode.c, `ext4_evict_inode`.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field

import numpy as np

from ext4kit.errors import CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import has_map
from ext4kit.filesystem.geometry import group_and_slot
from ext4kit.journal.fast_commits.allocation import BlockAllocator, writable_inode
from ext4kit.journal.fast_commits.extents import ExtentList, build_extent_tree
from ext4kit.journal.fast_commits.overlay import BlockOverlay, get_field, set_fields
from ext4kit.parsers import xattr
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.inode import INODE, INODE_EXTRA, InodeFlags, inode_seed, seal_inode
from ext4kit.units import SECTOR

I_BLOCK = INODE.offset_of("i_block")
BEHIND_I_BLOCK = INODE.offset_of("i_generation")
STRUCTURE = int(InodeFlags.INDEX | InodeFlags.INLINE_DATA | InodeFlags.EXTENTS)


@dataclass(slots=True, eq=False)
class InodeEditor:
    """One inode that a fast commit changes.

    Attributes:
        number: inode number.
        raw: bytes of the inode.
        in_use: whether the inode is allocated.
        on_orphan_list: whether the inode is on the orphan list, which keeps it allocated.
        extents: the extents of the inode; None if it has another kind of map.
        tree_blocks: tree blocks of the inode before the change.
        indirect_map: the blocks of an indirect map, which fast commits do not change.
        map_changed: whether the extent tree must be rewritten.
        changed: whether the inode must be written.
    """

    number: int
    raw: bytearray
    in_use: bool
    on_orphan_list: bool
    extents: ExtentList | None = None
    tree_blocks: list[int] = field(default_factory=list)
    indirect_map: ExtentList | None = None
    map_changed: bool = False
    changed: bool = False

    def get(self, field: str) -> int:
        """A field of the inode's first 128 bytes."""
        return get_field(INODE, self.raw, field)

    def put(self, **values: int) -> None:
        """Set fields of the inode's first 128 bytes."""
        self.changed = True
        set_fields(INODE, self.raw, **values)

    @property
    def is_directory(self) -> bool:
        """Whether the inode is a directory."""
        return stat.S_ISDIR(self.get("i_mode"))

    @property
    def flags(self) -> int:
        """`i_flags`."""
        return self.get("i_flags")

    @property
    def size(self) -> int:
        """`i_size` in bytes."""
        return self.get("i_size_high") << 32 | self.get("i_size_lo")

    @size.setter
    def size(self, value: int) -> None:
        self.put(i_size_lo=value, i_size_high=value >> 32)

    @property
    def file_acl(self) -> int:
        """Block of extended attributes, 0 for none."""
        return self.get("i_file_acl_high") << 32 | self.get("i_file_acl_lo")

    @property
    def extra_isize(self) -> int:
        """Bytes of fields after the first 128."""
        room = len(self.raw) >= INODE.size + INODE_EXTRA.size
        return get_field(INODE_EXTRA, self.raw, "i_extra_isize", INODE.size) if room else 0

    @property
    def uses_extents(self) -> bool:
        """Whether `i_block` is the root of an extent tree."""
        return bool(self.flags & InodeFlags.EXTENTS)

    def content(self) -> ExtentList:
        """The blocks of the content, from the extents or the indirect map."""
        return self.extents or self.indirect_map or ExtentList.empty()

    @property
    def is_inline(self) -> bool:
        """Whether the content is in the inode."""
        return bool(self.flags & InodeFlags.INLINE_DATA)


class InodeEditors:
    """All inodes that fast commits change, each read at its first use.

    Args:
        fs: the file system before the fast commits.
        draft: receives the changes.
        space: records allocated and freed blocks and inodes.
        moment: deletion time of freed inodes, seconds since 1970.
    """

    def __init__(
        self, fs: FileSystem, draft: BlockOverlay, space: BlockAllocator, moment: int
    ) -> None:
        self.fs = fs
        self.draft = draft
        self.space = space
        self._moment = moment
        self._known: dict[int, InodeEditor] = {}
        self._orphans = frozenset(fs.orphans)

    def get(self, number: int) -> InodeEditor:
        """An inode by its number.

        Raises:
            CorruptError: the number is invalid, or the map is damaged.
            AccessError: the inode cannot be read.
        """
        if number not in self._known:
            self._known[number] = self._read(number)
        return self._known[number]

    def _read(self, number: int) -> InodeEditor:
        """An inode and its map before the change; the blocks of the map count as freed."""
        fs = self.fs
        first = fs.superblock.first_usable_inode
        if not (number == 2 or first <= number <= fs.superblock.inodes_count):
            what = f"inode {number} cannot be changed by a fast commit"
            raise CorruptError("fast commit", None, what)
        inode = fs.inode(number)
        used = bool(fs.bitmaps.inodes_in_use(np.array([number]))[0])
        live = used and inode.mode != 0 and inode.links_count > 0
        subject = InodeEditor(number, bytearray(inode.raw), live, used and number in self._orphans)
        if not used or inode.mode == 0:
            return subject
        table = fs.inode_table(np.array([number]))
        maps = fs.map_table_silently(table)
        if maps.damaged[0]:
            raise CorruptError(f"inode {number}", None, "its block map is damaged")
        data, nodes = maps.runs, maps.tree_blocks[1]
        self.space.note_freed(data.physical, data.length)  # until `write_all`
        self.space.note_freed(nodes, np.ones_like(nodes))
        subject.tree_blocks = nodes.tolist()
        if subject.uses_extents:
            subject.extents = ExtentList.from_rows(data)
        elif has_map(table.mode, table.size, table.flags)[0]:
            subject.indirect_map = ExtentList.from_rows(data)
        return subject

    # -- replay of tags -------------------------------------------------------------------

    def replay_inode_tag(self, number: int, raw: bytes) -> None:
        """Replay all of an INODE tag except the map; the structure of a directory does not change.

        Raises:
            CorruptError: the tag is longer than an inode; also as `get`.
            AccessError: as `get`.
        """
        subject = self.get(number)
        if len(raw) > len(subject.raw):
            raise CorruptError("fast commit", None, f"inode {number} with {len(raw)} bytes")
        fresh = not subject.in_use and not subject.on_orphan_list
        old_flags, old_size, generation = subject.flags, subject.size, subject.get("i_generation")
        if fresh:
            subject.raw[:] = bytes(len(subject.raw))
            subject.extents, subject.indirect_map, subject.tree_blocks = None, None, []
        keeps = subject.is_directory and not fresh
        tail = raw[BEHIND_I_BLOCK:]
        if keeps:
            tail = tail[: INODE.size + subject.extra_isize - BEHIND_I_BLOCK]
        had_inline = subject.is_inline
        subject.changed = True
        subject.raw[:I_BLOCK] = raw[:I_BLOCK]
        subject.raw[BEHIND_I_BLOCK : BEHIND_I_BLOCK + len(tail)] = tail
        if keeps:
            subject.put(i_flags=subject.flags & ~STRUCTURE | old_flags & STRUCTURE)
            subject.size = old_size
        else:
            self._set_map_root(subject, raw, had_inline)
        subject.map_changed |= subject.get("i_generation") != generation
        subject.in_use = subject.get("i_links_count") > 0

    def _set_map_root(self, subject: InodeEditor, raw: bytes, had_inline: bool) -> None:
        """Set `i_block` after an INODE tag, which holds the root of the map but no tree blocks."""
        if subject.uses_extents:
            if subject.extents is None:
                subject.extents, subject.map_changed = ExtentList.empty(), True
                if had_inline:
                    remove_inline_xattr(subject)
            return
        subject.extents, subject.map_changed = None, False
        subject.raw[I_BLOCK:BEHIND_I_BLOCK] = raw[I_BLOCK:BEHIND_I_BLOCK]

    def add_range(self, number: int, logical: int, length: int, physical: int, state: bool) -> None:
        """Replay an ADD_RANGE tag.

        Raises:
            CorruptError: the range is outside the file system, or extents do not map the inode.
            AccessError: as `get`.
        """
        subject, extents = self._with_extents(number)
        first, count = self.fs.superblock.first_data_block, self.fs.superblock.blocks_count
        if not (first < physical and physical + length <= count and length > 0):
            what = f"invalid range at block {physical:,} of inode {number}"
            raise CorruptError("fast commit", None, what)
        subject.extents = extents.with_range(logical, length, physical, state)
        subject.map_changed = subject.changed = True

    def remove_range(self, number: int, logical: int, length: int) -> None:
        """Replay a DEL_RANGE tag.

        Raises:
            CorruptError: extents do not map the inode.
            AccessError: as `get`.
        """
        subject, extents = self._with_extents(number)
        subject.extents = extents.without(logical, logical + length)
        subject.map_changed = subject.changed = True

    def _with_extents(self, number: int) -> tuple[InodeEditor, ExtentList]:
        subject = self.get(number)
        if subject.extents is None:
            what = "a range was added, but it has no extents"
            raise CorruptError(f"inode {number}", None, what)
        return subject, subject.extents

    def unlink(self, subject: InodeEditor) -> None:
        """Decrease the link count; an inode without links is freed."""
        links = max(subject.get("i_links_count") - 1, 0)
        subject.put(i_links_count=0 if subject.is_directory else links)
        if subject.get("i_links_count") == 0:
            self._free_inode(subject)

    def _free_inode(self, subject: InodeEditor) -> None:
        """Free an inode: keep type, owner and times, clear content and attributes."""
        subject.in_use = subject.on_orphan_list = False
        subject.put(i_links_count=0, i_dtime=self._moment)
        self._release_xattr_block(subject)
        if subject.extents is not None:
            subject.extents, subject.map_changed = ExtentList.empty(), True
            subject.size = 0
        if subject.indirect_map is not None:
            subject.raw[I_BLOCK:BEHIND_I_BLOCK] = bytes(BEHIND_I_BLOCK - I_BLOCK)
            subject.indirect_map, subject.tree_blocks, subject.size = None, [], 0
        subject.put(i_blocks_lo=0, i_blocks_high=0)

    def _release_xattr_block(self, subject: InodeEditor) -> None:
        """Decrease the reference count of the attribute block, and free it if no user is left."""
        block = subject.file_acl
        if not block:
            return
        subject.put(i_file_acl_lo=0, i_file_acl_high=0)
        header = xattr.parse_block_header(bytes(self.draft.read(block)))
        if header.reference_count <= 1:
            self.space.note_freed(np.array([block]), np.ones(1, np.int64))
            return
        row = self.draft.writable(block)
        left = header.reference_count - 1
        set_fields(xattr.XATTR_BLOCK_HEADER, row, h_refcount=left, h_checksum=0)
        if self.fs.superblock.has_metadata_checksums:
            register = crc32c(self.fs.superblock.seed, block.to_bytes(8, "little"))
            set_fields(xattr.XATTR_BLOCK_HEADER, row, h_checksum=crc32c(register, row))

    # -- the end --------------------------------------------------------------------------

    def write_all(self) -> None:
        """Write every changed inode and its extent tree, and record their blocks as allocated.

        Raises:
            CorruptError: no block is free for a tree.
        """
        for subject in self._known.values():
            self._write_one(subject)

    def _write_one(self, subject: InodeEditor) -> None:
        used = subject.in_use or subject.on_orphan_list
        if subject.changed and not used and subject.get("i_mode") != 0:
            self._free_inode(subject)
        if subject.extents is not None and subject.map_changed:
            self._write_tree(subject, subject.extents)
        content = subject.indirect_map if subject.extents is None else subject.extents
        if content is not None:
            nodes = np.array(subject.tree_blocks, np.int64)
            self.space.note_used(content.physical, content.length)
            self.space.note_used(nodes, np.ones_like(nodes))
            if subject.extents is not None and subject.changed:
                clusters = self.space.count_clusters(content.physical, content.length)
                clusters += self.space.count_clusters(nodes, np.ones_like(nodes))
                clusters += bool(subject.file_acl)
                superblock = self.fs.superblock
                size = superblock.cluster_ratio * superblock.block_size
                self._set_block_count(subject, clusters * size // SECTOR)
        if used and subject.file_acl:
            self.space.keep(subject.file_acl)
        if not subject.changed:
            return
        self.space.note_inode(subject.number, used, subject.is_directory)
        seal_inode(subject.raw, subject.number, self.fs.superblock)
        slot = writable_inode(self.fs, self.draft, subject.number)
        slot[:] = np.frombuffer(subject.raw, np.uint8)

    def _set_block_count(self, subject: InodeEditor, sectors: int) -> None:
        if RoCompat.HUGE_FILE not in self.fs.superblock.features:
            subject.put(i_blocks_lo=sectors)
            return
        subject.put(i_flags=subject.flags & ~int(InodeFlags.HUGE_FILE))
        if sectors >= 1 << 48:
            sectors //= self.fs.superblock.block_size // SECTOR
            subject.put(i_flags=subject.flags | int(InodeFlags.HUGE_FILE))
        subject.put(i_blocks_lo=sectors, i_blocks_high=sectors >> 32)

    def _write_tree(self, subject: InodeEditor, extents: ExtentList) -> None:
        spare, used = list(reversed(subject.tree_blocks)), []
        group = group_and_slot(self.fs.superblock, subject.number)[0]

        def take() -> int:
            used.append(spare.pop() if spare else self.space.allocate(group))
            return used[-1]

        tree = build_extent_tree(extents, self.fs.superblock.block_size, take, self.seed(subject))
        for block, data in tree.nodes.items():
            self.draft.zeroed(block)[:] = np.frombuffer(data, np.uint8)
        subject.raw[I_BLOCK:BEHIND_I_BLOCK] = tree.root
        subject.tree_blocks = used

    def seed(self, subject: InodeEditor) -> int | None:
        """Checksum seed of the inode's metadata, None where the format has no checksums."""
        if not self.fs.superblock.has_metadata_checksums:
            return None
        generation = subject.get("i_generation")
        return inode_seed(self.fs.superblock, subject.number, generation)


def remove_inline_xattr(subject: InodeEditor) -> None:
    """Remove the attribute with inline content from the inode's body; keep all others.

    Raises:
        CorruptError: the attributes in the body are damaged.
    """
    raw = bytes(subject.raw)
    if not xattr.has_body(raw, subject.extra_isize):
        return
    first = xattr.body_offset(subject.extra_isize) + xattr.XATTR_BODY_HEADER.size
    area = bytearray(len(raw) - first)
    at, end = 0, len(area)
    for offset in xattr.entry_offsets(raw, first, len(raw)):
        entry = xattr.XATTR_ENTRY.parse(raw, offset)
        size = xattr.XATTR_ENTRY.size + entry.e_name_len
        name = raw[offset + xattr.XATTR_ENTRY.size : offset + size]
        if entry.e_name_index == xattr.SYSTEM and name == b"data":
            continue
        area[at : at + size] = raw[offset : offset + size]
        if entry.e_value_size and not entry.e_value_inum:
            value = raw[first + entry.e_value_offs :][: entry.e_value_size]
            end -= -(-len(value) // 4) * 4
            area[end : end + len(value)] = value
            set_fields(xattr.XATTR_ENTRY, area, at, e_value_offs=end)
        at += -(-size // 4) * 4
    subject.changed = True
    subject.raw[first:] = area
    if not at:
        subject.raw[first - xattr.XATTR_BODY_HEADER.size : first] = bytes(4)
