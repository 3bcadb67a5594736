#!/usr/bin/env python3
"""Check a manifest of recovered files against a raw image, without the tool that wrote it.

Run: python3 ext4check.py IMAGE MANIFEST [--out OUT] [--offset BYTES]

Each place that a record names is read again: inode, checksum, map, bytes and hash, times, owners,
name and path. All inodes, extent blocks and directories in journal and image are searched for later
owners. A line is printed for each claim that does not hold. Exit code: 0 all that can be decided is
confirmed, 1 something is refuted, 2 usage. Extended attributes, content without an inode and the
reasons in `problems` are not checked; fast commits are not read. Written from the kernel's
Documentation/filesystems/ext4/ alone (super, group_descr, inodes, ifork, directory, attributes,
journal, checksums).
"""

from __future__ import annotations

import argparse
import base64
import bisect
import hashlib
import json
import struct
import sys
from collections import Counter, defaultdict
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

NOW = 1 << 62  # the order of what is on the disk: behind every transaction
EXTENTS, EA_INODE, INLINE = 0x80000, 0x200000, 0x10000000  # i_flags
_KINDS = "fifo chardev directory blockdev file symlink socket".split()  # noqa: SIM905
KINDS = dict(zip((1, 2, 4, 6, 8, 10, 12), _KINDS, strict=True))  # upper bits of i_mode
Run = tuple[int, int, int, bool]  # file block, block, count, unwritten
Place = tuple[int, int | None, bytes]  # byte of the image, transaction, bytes of the block


CRC = list(range(65536))  # crc32c of two bytes
for _ in range(16):
    CRC = [value >> 1 ^ (0x82F63B78 if value & 1 else 0) for value in CRC]


def crc32c(register: int, data: bytes) -> int:
    """The register behind an even number of bytes; it is not inverted at the end."""
    for word in struct.unpack(f"<{len(data) // 2}H", data):
        register = CRC[(register ^ word) & 0xFFFF] ^ register >> 16
    return register


def num(data: bytes, at: int, size: int = 4, order: Any = "little") -> int:
    """A number of so many bytes."""
    return int.from_bytes(data[at : at + size], order)


big = partial(num, order="big")  # as in the journal


class Inode:
    """The fields of an inode."""

    def __init__(self, raw: bytes, number: int, fs: FileSystem) -> None:
        self.raw, self.number = raw, number
        self.mode, self.links, self.flags = num(raw, 0, 2), num(raw, 26, 2), num(raw, 32)
        self.type = KINDS.get(self.mode >> 12, "")
        owners = ((2, 120), (24, 122))
        self.uid, self.gid = (num(raw, at, 2) | num(raw, more, 2) << 16 for at, more in owners)
        is_large = bool(self.type == "file" or fs.incompat & 0x4000)
        self.size = num(raw, 4) | num(raw, 108) * is_large << 32
        self.generation, self.dtime, self.extra = num(raw, 100), num(raw, 20), num(raw, 128, 2)
        self.version = num(raw, 36) | (num(raw, 152) << 32 if self.extra >= 28 else 0)
        self.atime, self.ctime, self.mtime = map(self._time, (8, 12, 16), (140, 132, 136))
        self.crtime = self._time(144, 148) if self.extra >= 24 else None
        self.checksum = num(raw, 124, 2) | (num(raw, 130, 2) << 16 if self.extra >= 4 else 0)
        self.seed = crc32c(fs.seed, struct.pack("<II", number, self.generation))
        self.has_checksum = bool(fs.ro_compat & 0x400)
        has_map = self.flags & INLINE or any(raw[42:44] if self.flags & EXTENTS else raw[40:100])
        self.is_whole = self.links > 0 or (self.size > 0 and bool(has_map))  # not truncated yet
        self.is_empty = not self.is_whole or bool(self.flags & INLINE and self.dtime)
        is_fast = self.type == "symlink" and self.size < 60 and not self.flags & EXTENTS
        has_map = self.type in ("file", "directory", "symlink")
        self.is_mapped = has_map and not is_fast and not self.flags & INLINE

    def _time(self, at: int, more: int) -> int:
        bits = num(self.raw, more) if self.extra >= more - 124 else 0
        seconds: int = struct.unpack_from("<i", self.raw, at)[0] + ((bits & 3) << 32)
        return seconds * 10**9 + (bits >> 2)

    def fits(self) -> bool:
        """Whether the stored checksum is that of number, generation and bytes."""
        high = 132 if self.extra >= 4 else 130
        raw = self.raw[:124] + b"\0\0" + self.raw[126:130] + bytes(high - 130) + self.raw[high:]
        mask = -1 if self.extra >= 4 else 0xFFFF
        return not self.has_checksum or self.checksum == crc32c(self.seed, raw) & mask

    def inline(self) -> bytes:
        """Its inline data: i_block, then system.data in the attributes behind the fields."""
        raw, start, at = self.raw, 128 + self.extra, 132 + self.extra
        while num(raw, start) == 0xEA020000 and num(raw, at):
            if raw[at + 1] == 7 and raw[at + 16 : at + 16 + raw[at]] == b"data":
                value = start + 4 + num(raw, at + 2, 2)
                return raw[40:100] + raw[value : value + num(raw, at + 8)]
            at += 16 + (raw[at] + 3 & ~3)
        return raw[40:100]


class FileSystem:
    """Superblock, groups, inodes and maps of a file system in a raw image."""

    def __init__(self, file: BinaryIO, base: int) -> None:
        self.file, self.base, self.block_size = file, base, 1024
        sb = self.sb = self._raw(1)
        if num(sb, 56, 2) != 0xEF53:
            raise ValueError(f"no ext2, ext3 or ext4 at byte {base}")
        self.block_size, self.first_block = 1024 << num(sb, 24), num(sb, 20)
        self.compat, self.incompat, self.ro_compat = (num(sb, at) for at in (92, 96, 100))
        self.per_group, self.inodes_per_group = num(sb, 32), num(sb, 40)
        self.ratio = 1 << num(sb, 28) - num(sb, 24) if self.ro_compat & 0x200 else 1
        self.inode_size = num(sb, 88, 2) if num(sb, 76) else 128
        self.seed = num(sb, 624) if self.incompat & 0x2000 else crc32c(0xFFFFFFFF, sb[104:120])
        self.group, self.raw = lru_cache(None)(self._group), lru_cache(4096)(self._raw)
        self.journal: Journal | None = None
        if self.compat & 4 and num(sb, 224):
            self.journal = Journal(self, self.inode(num(sb, 224), NOW)[1])
            self.group.cache_clear()  # it may have newer descriptors
        groups = range(-(-num(sb, 0) // self.inodes_per_group))
        self.tables = sorted((num(self.group(one), 8), one) for one in groups)

    def _raw(self, block: int) -> bytes:
        self.file.seek(self.base + block * self.block_size)
        return self.file.read(self.block_size).ljust(self.block_size, b"\0")

    def as_of(self, block: int, order: int) -> Place:
        """A block as of an order: its newest copy up to then, else what a recovery would write."""
        log = self.journal
        found = log.newest(block, order) if log and order < NOW else None
        found = log.due.get(block) if log and found is None else found
        if log and found is not None:
            return log.place(found)
        return self.base + block * self.block_size, None, self.raw(block)

    def _group(self, group: int) -> bytes:
        size = num(self.sb, 254, 2) if self.incompat & 0x80 else 32
        index, slot = divmod(group, self.block_size // size)
        block = 1024 // self.block_size + 1 + index
        if self.incompat & 0x10 and index >= num(self.sb, 260):  # meta_bg
            powers = {base**power for base in (3, 5, 7) for power in range(21)} | {0}
            block = self.first_block + (group - slot) * self.per_group
            block += not self.ro_compat & 1 or group - slot in powers
        return self.as_of(block, NOW)[2][slot * size : (slot + 1) * size]

    def locate(self, number: int) -> tuple[int, int]:
        """Block and byte in it of an inode."""
        group, index = divmod(number - 1, self.inodes_per_group)
        skip, byte = divmod(index * self.inode_size, self.block_size)
        return num(self.group(group), 8) + skip, byte

    def inode(self, number: int, order: int) -> tuple[Place, Inode]:
        """An inode as of an order, and its place."""
        block, skip = self.locate(number)
        byte, tid, data = self.as_of(block, order)
        raw = data[skip : skip + self.inode_size]
        return (byte + skip, tid, raw), Inode(raw, number, self)

    def numbers_in(self, block: int) -> range:
        """The numbers of the inodes in a block of an inode table."""
        row = bisect.bisect(self.tables, (block, NOW)) - 1
        start, group = self.tables[max(row, 0)]
        per_block, before = self.block_size // self.inode_size, group * self.inodes_per_group + 1
        first = before + (block - start) * per_block
        last = min(first + per_block, before + self.inodes_per_group)
        return range(first, last if row >= 0 else first)

    def in_use(self, number: int, is_inode: bool = False) -> bool:
        """Whether the bitmaps mark a block, or an inode, as in use."""
        sizes = (self.inodes_per_group, 1) if is_inode else (self.per_group, self.first_block)
        group, bit = divmod(number - sizes[1], sizes[0])
        is_lazy = self.ro_compat & 0x410 and num(self.group(group), 18, 2) & (2 - is_inode)
        bit //= 1 if is_inode else self.ratio
        bitmap = self.as_of(num(self.group(group), 4 * is_inode), NOW)[2]
        return not is_lazy and bool(bitmap[bit // 8] >> bit % 8 & 1)

    def map(self, inode: Inode, node: Any) -> tuple[list[Run], list[int]]:  # noqa: C901
        """Runs of content and the blocks of the tree, which `node` reads."""
        runs, nodes, per_block = list[Run](), list[int](), self.block_size // 4

        def extents(data: bytes, depth: int) -> None:
            level = num(data, 6, 2)
            if num(data, 0, 2) != 0xF30A or level > 5 or (depth >= 0 and level != depth):
                return
            for at in range(12, min(12 + 12 * num(data, 2, 2), len(data) - 11), 12):
                logical, length, start = struct.unpack_from("<IHxxI", data, at)
                if level:
                    nodes.append(num(data, at + 4) | num(data, at + 8, 2) << 32)
                    extents(node(nodes[-1]), level - 1)
                else:
                    is_free, start = length > 32768, start | num(data, at + 6, 2) << 32
                    runs.append((logical, start, length - 32768 * is_free, is_free))

        def pointers(block: int, level: int, logical: int) -> int:
            if not block or not level:
                runs.extend([(logical, block, 1, False)] if block else [])
                return int(logical + per_block**level)
            nodes.append(block)
            for one in struct.unpack(f"<{per_block}I", node(block)):
                logical = pointers(one, level - 1, logical)
            return logical

        if inode.is_mapped and inode.flags & EXTENTS:
            extents(inode.raw[40:100], -1)
        elif inode.is_mapped:
            logical = 0
            for index, block in enumerate(struct.unpack("<15I", inode.raw[40:100])):
                logical = pointers(block, max(index - 11, 0), logical)
        return runs, nodes


class Journal:
    """Every copy in the journal, of whatever lap."""

    def __init__(self, fs: FileSystem, inode: Inode) -> None:
        self.fs, self.due = fs, dict[int, int]()  # due: what a recovery would write
        self.blocks = [run[1] + step for run in fs.map(inode, fs.raw)[0] for step in range(run[2])]
        sb = fs.raw(self.blocks[0])
        self.first, self.sequence, self.start = big(sb, 20), big(sb, 24), big(sb, 28)
        incompat = big(sb, 40) * (big(sb, 4) == 4)  # the second version has features
        self.v3, v2, self.wide = (bool(incompat & bit) for bit in (16, 8, 2))
        self.has_checksums = v2 or self.v3
        self.tag_size = 16 if self.v3 else 8 + 4 * self.wide + 2 * v2
        self.has_fast_commits = bool(fs.compat & 0x400 or incompat & 32)
        area = (big(sb, 84) or 256) if self.has_fast_commits else 0
        self.end = min(big(sb, 16), len(self.blocks)) - area
        self.seed = crc32c(0xFFFFFFFF, sb[48:64])
        self.headers = dict[int, tuple[int, int]]()  # log block -> kind, order
        self.tags, self.commits = list[tuple[int, int, int, int, bool]](), dict[int, int]()
        for at in range(self.first, self.end):
            self._header(at, fs.raw(self.blocks[at]))
        self.where: dict[int, tuple[int, int, bool]] = {}  # log block -> home, order, escaped
        self.copies: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._claim()
        if fs.incompat & 4 and self.start:
            self._recover()

    def place(self, at: int) -> Place:
        """A copy: byte in the image, transaction, and bytes with the first four as they were."""
        block, (_, order, escaped) = self.blocks[at], self.where[at]
        data = b"\xc0\x3b\x39\x98" * escaped + self.fs.raw(block)[4 * escaped :]
        return self.fs.base + block * self.fs.block_size, order % (1 << 32), data

    def order(self, tid: int) -> int:
        """A transaction id as a number that is larger for a later one."""
        return self.sequence + (tid - self.sequence + (1 << 31)) % (1 << 32) - (1 << 31)

    def _header(self, at: int, data: bytes) -> None:
        if data[:4] != b"\xc0\x3b\x39\x98":
            return
        kind, order = self.headers[at] = big(data, 4), self.order(big(data, 8))
        end = 16 if kind == 2 else len(data) - 4  # where the block's own checksum stands
        right = crc32c(self.seed, data[:end] + bytes(4) + data[end + 4 :])
        fits = not self.has_checksums or big(data, end) == right
        self.tags += self._tags(at, data) if fits and kind == 1 else []
        if fits and kind == 2:
            self.commits[order] = big(data, 48, 8) * 10**9 + big(data, 56)

    def _tags(self, descriptor: int, data: bytes) -> Any:
        """(descriptor, log block of the copy, home block, checksum, escaped)."""
        at, place, flags = 12, descriptor, 0
        while at + self.tag_size <= len(data) - 4 * self.has_checksums and not flags & 8:
            flags = big(data, at + 4) if self.v3 else big(data, at + 6, 2)
            checksum = big(data, at + 12) if self.v3 else big(data, at + 4, 2)
            home = big(data, at) | (big(data, at + 8) << 32 if self.wide else 0)
            place = self._wrap(place + 1)
            yield descriptor, place, home, checksum, bool(flags & 1)
            at += self.tag_size + (0 if flags & 2 else 16)

    def _wrap(self, at: int) -> int:
        return self.first + (at - self.first) % (self.end - self.first)

    def _is_copy(self, at: int, order: int, checksum: int) -> bool:
        seed = crc32c(self.seed, struct.pack(">I", order % (1 << 32)))
        value = crc32c(seed, self.fs.raw(self.blocks[at])) if self.has_checksums else checksum
        return at not in self.headers and checksum == value & (-1 if self.v3 else 0xFFFF)

    def _claim(self) -> None:
        """Give each log block to the newest transaction with a tag that fits it."""
        newest, broken = dict[int, tuple[int, int]](), set[int]()
        for descriptor, at, _, checksum, _ in self.tags:
            order = self.headers[descriptor][1]
            if newest.get(at, (-NOW, 0))[0] < order and self._is_copy(at, order, checksum):
                newest[at] = order, descriptor
        for descriptor, at, home, _, escaped in self.tags:
            order = self.headers[descriptor][1]
            if newest.get(at) != (order, descriptor):
                broken.add(descriptor)  # a later lap came through behind it
            elif self.has_checksums or (order in self.commits and descriptor not in broken):
                self.where[at] = home, order, escaped
                self.copies[home].append((order, at))
        for copies in self.copies.values():
            copies.sort(key=lambda one: (one[0], (one[1] - (self.start or self.first)) % self.end))

    def _recover(self) -> None:
        """The last copies of committed transactions, less those that were revoked since."""
        at, order, size = self.start, self.sequence, 8 if self.wide else 4
        last, revoked = dict[int, tuple[int, int]](), dict[int, int]()
        while order in self.commits and self.headers.get(at, (0, 0))[1] == order:
            kind, data = self.headers[at][0], self.fs.raw(self.blocks[at])
            tags = [(home, place) for one, place, home, _, _ in self.tags if one == at]
            last.update({home: (order, place) for home, place in tags})
            for byte in range(16, min(big(data, 12), len(data)), size) if kind == 5 else ():
                revoked[big(data, byte, size)] = order
            order += kind == 2
            at = self._wrap(at + 1 + len(tags))
        kept = {home: one for home, one in last.items() if revoked.get(home, -NOW) < one[0]}
        self.due = {home: place for home, (_, place) in kept.items() if place in self.where}

    def newest(self, block: int, order: int) -> int | None:
        """Log block of the newest copy of a block up to an order."""
        copies = self.copies.get(block, [])
        row = bisect.bisect_right(copies, order, key=lambda one: one[0])
        return copies[row - 1][1] if row else None


class History:
    """States of all inodes in journal and on disk, their blocks, and directory entries."""

    def __init__(self, fs: FileSystem) -> None:
        self.fs, self.copies = fs, fs.journal.copies if fs.journal else {}
        self.states: dict[int, list[tuple[int, Inode]]] = defaultdict(list)
        self.claims: list[tuple[int, int, int, tuple[int, int]]] = []
        self.directories: dict[int, set[int]] = defaultdict(set)  # block -> whose it was
        self.names: dict[int, set[tuple[bytes, int]]] = defaultdict(set)  # -> name, directory
        for home in self.copies:
            self._logged(home, fs.numbers_in(home))
        for number in range(1, num(fs.sb, 0) + 1):
            self._add(number, NOW, fs.inode(number, NOW)[0][2])
        for states in self.states.values():
            for row, (order, inode) in enumerate(states):
                if inode.is_whole:
                    self._claim(order, inode, self.last(states, row))
        self.claims.sort()
        self.ends = list(accumulate((claim[1] for claim in self.claims), max))
        for block, owners in self.directories.items():
            for order in (NOW, *(order for order, _ in self.copies.get(block, ()))):
                self._enter(fs.as_of(block, order)[2], owners)

    def _add(self, number: int, order: int, raw: bytes) -> None:
        is_users = number >= max(num(self.fs.sb, 84), 11) or number == 2
        inode = Inode(raw, number, self.fs) if is_users and raw[:2] != b"\0\0" else None
        if inode and inode.type and not inode.flags & EA_INODE and (order == NOW or inode.fits()):
            self.states[number].append((order, inode))

    def _logged(self, home: int, numbers: range) -> None:
        before, size = dict[int, bytes](), self.fs.inode_size
        for order, _ in self.copies[home]:
            data = self.fs.as_of(home, order)[2]
            for slot, number in enumerate(numbers):
                raw = data[slot * size : slot * size + size]
                if raw != before.get(number):
                    self._add(number, order, raw)
                before[number] = raw

    def last(self, states: list[tuple[int, Inode]], row: int) -> int:
        """The last order at which a state is known to have held."""
        after = states[row + 1][0] if row + 1 < len(states) else NOW + 1
        return states[row][0] if after == NOW else min(after, NOW) - 1

    def map(self, inode: Inode, order: int) -> tuple[list[Run], list[int]]:
        """As of an order; a tree block on the disk has to carry its owner's checksum."""

        def node(block: int) -> bytes:
            _, tid, data = self.fs.as_of(block, order)
            end = min(12 + 12 * num(data, 4, 2), len(data) - 4)
            trusted = tid is not None or not inode.has_checksum or not inode.flags & EXTENTS
            trusted = trusted or num(data, end) == crc32c(inode.seed, data[:end])
            return data if trusted else bytes(len(data))

        return self.fs.map(inode, node)

    def _claim(self, order: int, inode: Inode, last: int) -> None:
        runs, nodes = self.map(inode, last)
        for _, start, count, _ in [*runs, *((0, block, 1, False) for block in nodes)]:
            self.claims.append((start, start + count, order, (inode.number, inode.generation)))
            if inode.type == "directory":
                for block in range(start, start + count):
                    self.directories[block].add(inode.number)
        data = inode.inline() if inode.type == "directory" and inode.flags & INLINE else b""
        self._enter(data[4:60], {inode.number})
        self._enter(data[60:], {inode.number})

    def _enter(self, data: bytes, directories: set[int]) -> None:
        at = 0
        while at + 8 <= len(data):
            name = data[at + 8 : at + 8 + data[at + 6]]
            self.names[num(data, at)] |= {(name, one) for one in directories if name}
            at += max(num(data, at + 4, 2), 8)

    def reaches(self, directory: int, parts: list[bytes]) -> bool:
        """Whether entries of these names lead from the root to a directory."""
        above = [parent for name, parent in self.names[directory] if [name] == parts[-1:]]
        found = any(self.reaches(parent, parts[:-1]) for parent in above)
        return found if parts else directory == 2

    def later(self, block: int, order: int, life: tuple[int, int]) -> Any:
        """Others that have a block behind an order."""
        row = bisect.bisect_left(self.claims, (block + 1,))
        while row and self.ends[row - 1] > block:
            row -= 1
            _, end, when, who = self.claims[row]
            if end > block and when > order and who != life:
                yield f"inode {who[0]} has block {block} later"


class Check:
    """One record: `failed` says what does not hold, `unknown` what cannot be decided."""

    def __init__(self, history: History, record: dict[str, Any], out: Path | None) -> None:
        self.history, self.fs, self.log = history, history.fs, history.fs.journal
        self.record, self.out, self.evidence = record, out, record.get("evidence") or {}
        self.failed, self.unknown = list[str](), list[str]()
        try:
            self._run()
        except (LookupError, TypeError, ValueError, AttributeError, OSError) as error:
            self.failed.append(f"makes no sense: {error!r}")

    def claim(self, holds: bool, what: str) -> None:
        """Keep what does not hold."""
        self.failed += [what] * (not holds)

    def same(self, what: str, found: Any) -> None:
        """Keep a value of the record, or of its evidence, that is another one."""
        told = self.record.get(what, self.evidence.get(what))
        self.claim(told == found, f"{what} is {found}, not {told}")

    def _order(self, tid: int | None) -> int:
        return NOW if tid is None or self.log is None else self.log.order(tid)

    def _run(self) -> None:
        record, evidence = self.record, self.evidence
        if not evidence.get("inode_at"):
            self.unknown.append("no place of an inode is named")
            return
        if self.log and self.log.has_fast_commits and self.log.due:
            self.unknown.append("fast commits are not read")
        self.same("file_system_at", self.fs.base)
        source, tid = record["sources"]["inode"], evidence["inode_at"]["transaction"]
        at = self._order(tid if source == f"journal transaction {tid}" else None)
        self.states = self.history.states[record["inode"]]
        self.row = max(row for row, (order, _) in enumerate(self.states) if order <= at)
        self.order, self.inode = self.states[self.row]
        self.claim(self.order == at, f"the source of the inode is not {source}")
        self.gone = (*self.states, (NOW, None))[self.row + 1][0]
        self.last = self.history.last(self.states, self.row)
        self.life = [one for one in self.states if one[1].generation == self.inode.generation]
        is_rebuilt = record["sources"].get("map") != source
        self._inode(is_rebuilt)
        self._end()
        if not is_rebuilt:
            self._map()
        elif "map" in record["sources"]:
            self.unknown.append("its map is put together from freed metadata")
        if record["name"] is not None:
            self._name()

    def _place(self, order: int) -> dict[str, Any]:
        """What the record has to say of the place of a state."""
        (byte, tid, _), inode = self.fs.inode(self.inode.number, order)
        self.claim(inode.fits(), "the checksum of the inode does not fit")
        place = {"offset": byte, "block": self.fs.locate(inode.number)[0], "transaction": tid}
        return place | {"checksum": inode.checksum if inode.has_checksum else None}

    def _inode(self, is_rebuilt: bool) -> None:
        inode, block = self.inode, self.fs.locate(self.inode.number)[0]
        self.same("inode_at", self._place(self.order))
        for key in ("mode", "generation", "atime", "mtime", "ctime", "crtime", "type"):
            self.same(key, getattr(inode, key))
        linked = [one for order, one in self.life if one.links and order <= self.order]
        before = (inode, *linked)[0 if inode.links else -1]
        for key in ("uid", "gid"):  # a deletion clears the high halves
            self.same(key, getattr(inode, key) | getattr(before, key) & 0xFFFF0000)
        if not is_rebuilt:
            self.same("size", inode.size)
        orders = [order for order, _ in self.history.copies.get(block, ())]
        older, newer = (sum(map(test, orders)) for test in (self.order.__gt__, self.order.__lt__))
        self.same("copies", {"older": older, "newer": newer})
        shown = (NOW, NOW) if self.order == NOW else (self.order, self.last)
        first, last = (None if one == NOW else self.fs.as_of(block, one)[1] for one in shown)
        owner = {"inode": inode.number, "generation": inode.generation}
        self.same("last_owner", owner | {"first": first, "last": last})

    def _end(self) -> None:
        record, later = self.record, [one for one in self.life if one[0] >= self.order]
        freed = [one for one in later if not one[1].links and one[1].is_empty]
        self.same("freed_at", self._place(freed[0][0]) if freed else None)
        last = self.life[-1][1]
        self.same("dtime", None if last.links or last.is_whole else last.dtime * 10**9 or None)
        linked = [order for order, one in self.life if one.links and order <= self.order]
        linked = [self.order] if record["superseded"] else linked
        after = [order for order, _ in self.states if linked and order > linked[-1]]
        times = self.log.commits if self.log else {}
        ends = [one for one in (*linked[-1:], *after[:1]) if one != NOW]
        told = [{"transaction": one % (1 << 32), "time": times.get(one)} for one in ends]
        self.same("deleted_between", [*told, None, None][:2])
        if record["grade"] == "intact" and record["type"] == "file":
            self.claim(bool(freed) and freed[0][1].version <= self.inode.version, "it went on")
            self.claim(not record["lost"] and not record["blocks_reused"], "it has lost blocks")

    def _map(self) -> None:
        record, size = self.record, self.fs.block_size
        runs, nodes = self.history.map(self.inode, self.last)
        found = [(*self.fs.as_of(block, self.last)[:2], block) for block in nodes]
        keys = ("offset", "transaction", "block")
        told = [tuple(map(one.get, keys)) for one in self.evidence["map_at"]]
        self.claim(sorted(told, key=str) == sorted(found, key=str), f"map_at is {found}")
        end = -(-self.inode.size // size)
        runs = [(run[0], run[1], min(run[2], end - run[0]), run[3]) for run in runs if run[0] < end]
        self.same("blocks", sum(run[2] for run in runs))
        if record["type"] != "file":
            return
        told = [run for run in record["extents"] if run[2] > 0]
        runs = [run for run in runs if not run[3]]
        mapped = {run[0] + step: run[1] + step for run in runs for step in range(run[2])}
        if sum(run[2] for run in told) > len(mapped) or len(told) < len(record["extents"]):
            self.claim(False, "extents are more than the map has")
            return
        held = {run[0] + step: run[1] + step for run in told for step in range(run[2])}
        starts = [(one["offset"], one["length"]) for one in record["lost"]]
        ranges = [range(start // size, -(-(start + length) // size)) for start, length in starts]
        lost = {block for block in mapped if any(block in one for one in ranges)}
        is_part = held.items() <= mapped.items() and not lost & held.keys()
        is_part &= sum(run[2] for run in told) == len(held)  # none overlaps
        self.claim(is_part and mapped.keys() - held.keys() <= lost, "extents are not the map's")
        copied = dict[int, bytes]()
        for one in self.evidence["content_at"]:
            byte, tid, copied[one["block"]] = self.fs.as_of(one["block"], min(self.gone, NOW - 1))
            self.claim((byte, tid) == (one["offset"], one["transaction"]), "content_at is wrong")
        self._unused(set(held.values()) - copied.keys())
        if record["sha256"] and record["size"] == self.inode.size:
            self._hash(held, copied)

    def _unused(self, blocks: set[int]) -> None:
        """Nobody had the blocks since, as far as journal, inodes and bitmaps tell."""
        is_held = self.order == NOW and self.fs.in_use(self.inode.number, True)
        for block in blocks:
            self.claim(is_held or not self.fs.in_use(block), f"block {block} is in use")
            orders = [order for order, _ in self.history.copies.get(block, ())]
            is_unchanged = self.order == NOW or max(orders, default=-NOW) <= self.gone
            self.claim(is_unchanged, f"block {block} was written through the journal later")
            life = self.inode.number, self.inode.generation
            self.failed += self.history.later(block, self.order, life)

    def _hash(self, held: dict[int, int], copied: dict[int, bytes]) -> None:
        digest, end, size = hashlib.sha256(), self.record["size"], self.fs.block_size
        if self.inode.flags & INLINE:
            digest.update(self.inode.inline()[:end].ljust(end, b"\0"))
            end = 0
        for logical in range(-(-end // size)):
            block = held.get(logical, -1)
            data = self.fs.as_of(block, NOW)[2] if block >= 0 else bytes(size)
            digest.update(copied.get(block, data)[: end - logical * size])
        if "without a descriptor" in self.record["sources"].get("content", ""):
            self.unknown.append("its content is read from copies that no descriptor names")
            return
        self.same("sha256", digest.hexdigest())
        if self.out and self.record["output"]:
            data = (self.out / self.record["output"]).read_bytes()
            self.claim(hashlib.sha256(data).digest() == digest.digest(), "the file in OUT differs")

    def _name(self) -> None:
        record, at = self.record, self.evidence["name_at"]
        name, path = (base64.b64decode(record.get(f"{key}_bytes", "")) or str(record[key]).encode()
                      for key in ("name", "path"))
        if at is None:
            self.unknown.append("no place of its name is named")
            return
        tid = at["transaction"]
        start, found, data = self.fs.as_of(at["block"], self._order(tid))
        byte = at["offset"] - start
        entry = data[byte : byte + 8 + len(name)] if 0 <= byte < len(data) - 8 else bytes(8)
        is_entry = num(entry, 0) == record["inode"] and entry[6] == len(name) and found == tid
        self.claim(is_entry and entry[8:] == name, "no entry of this name and inode is there")
        told = record["sources"]["name"].split()
        self.claim(told[0] != "journal" or told[-1] == str(tid), "the name's source is another")
        owners, inside = self.history.directories[at["block"]], self.fs.numbers_in(at["block"])
        owners = {inside[byte // self.fs.inode_size]} if inside else owners
        parts = path.strip(b"/").split(b"/")
        leads = any(self.history.reaches(one, parts[:-1]) for one in owners) and parts[-1] == name
        self.claim(record["path"] is None or leads, "no directory entries make up its path")


def report(history: History, records: list[dict[str, Any]], out: Path | None) -> int:
    """Print what does not hold, and how many records are what; the exit code."""
    counts: Counter[str] = Counter()
    for number, record in enumerate(records, 1):
        check = Check(history, record, out)
        counts["refuted" if check.failed else "undecided" if check.unknown else "confirmed"] += 1
        for line in check.failed:
            print(f"record {number}, inode {record.get('inode')}: {line}")
    print(", ".join(f"{counts[word]} {word}" for word in ("confirmed", "refuted", "undecided")))
    return 1 if counts["refuted"] else 0


def main() -> int:
    """Check all records of a manifest."""
    parser = argparse.ArgumentParser(description="Check a manifest against a raw image.")
    parser.add_argument("image", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--out", type=Path, help="folder with the recovered files")
    parser.add_argument("--offset", type=int, help="byte at which the file system begins")
    given = parser.parse_args()
    try:
        records = [json.loads(line) for line in given.manifest.read_text("utf-8").splitlines()]
        bases = (one["evidence"]["file_system_at"] for one in records if one.get("evidence"))
        base = next(bases, 0) if given.offset is None else given.offset
        return report(History(FileSystem(given.image.open("rb"), base)), records, given.out)
    except (OSError, ValueError, LookupError) as error:
        print(f"ext4check: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
