#!/usr/bin/env python3
"""Check a manifest of recovered files against a raw image, without the tool that wrote it.

Reads again each place that a record names, and searches all inodes, extent blocks and directories
in journal and image for later owners. Prints a line for each claim that does not hold. Exit code:
0 no claim is refuted, 1 one is, 2 usage, or nothing can be read. Extended attributes, content
without an inode, `problems` and fast commits are not checked. Source: kernel documentation of ext4.
"""

import argparse
import base64
import bisect
import hashlib
import json
import mmap
import re
import struct
import sys
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

NOW = 1 << 62  # the order of what is on the disk: behind every transaction
EXTENTS, EA_INODE, INLINE = 0x80000, 0x200000, 0x10000000  # i_flags
KINDS = "- fifo chardev - directory - blockdev - file - symlink - socket - - -".split()  # noqa: SIM905
Entry = tuple[int, int, int, int]  # file block, block, count, and depth or unwritten
MAGIC = b"\xc0\x3b\x39\x98"  # of a block of the journal that is no copy
CRC = list(range(65536))  # crc32c of two bytes
for _ in range(16):
    CRC = [value >> 1 ^ (0x82F63B78 if value & 1 else 0) for value in CRC]


def crc32c(register: int, data: bytes) -> int:
    """The register behind an even number of bytes; it is not inverted at the end."""
    for word in struct.unpack(f"<{len(data) // 2}H", data):
        register = CRC[(register ^ word) & 0xFFFF] ^ register >> 16
    return register


def num(data: bytes, at: int, size: int = 4, order: Any = "little") -> int:
    """A number of so many bytes; zeros follow the end."""
    return int.from_bytes(data[at : at + size], order)


big = partial(num, order="big")  # as in the journal


def blocks_of(runs: Any) -> dict[int, int]:
    """File block -> block."""
    return {run[0] + step: run[1] + step for run in runs for step in range(run[2])}


class Inode:
    """The fields of an inode as of an order; until when it is known so, when it is another."""

    def __init__(self, fs: "FileSystem", number: int, order: int) -> None:
        self.number, self.order, self.last, self.gone = number, order, NOW - 1, NOW
        self.block, skip = fs.locate(number)
        byte, self.tid, data = fs.as_of(self.block, order)
        raw = self.raw = data[skip : skip + fs.inode_size]
        self.mode, self.links, self.flags = num(raw, 0, 2), num(raw, 26, 2), num(raw, 32)
        self.type, self.extra = KINDS[self.mode >> 12], num(raw, 128, 2)
        owners = ((2, 120), (24, 122))
        self.uid, self.gid = (num(raw, at, 2) | num(raw, more, 2) << 16 for at, more in owners)
        is_large = self.type == "file" or fs.incompat & 0x4000
        self.size = num(raw, 4) | (num(raw, 108) << 32 if is_large else 0)
        self.generation, dtime = num(raw, 100), num(raw, 20)
        self.dtime = dtime if dtime > fs.inodes else 0  # else it is the next one of the orphan list
        self.version = num(raw, 36) | (num(raw, 152) << 32 if self.extra >= 28 else 0)
        self.atime, self.ctime, self.mtime = map(self._time, (8, 12, 16), (140, 132, 136))
        self.crtime = self._time(144, 148) if self.extra >= 24 else None
        self.life = number, self.generation
        self.seed = crc32c(fs.seed, struct.pack("<II", *self.life))
        checksum = num(raw, 124, 2) | (num(raw, 130, 2) << 16 if self.extra >= 4 else 0)
        is_inline, is_tree = bool(self.flags & INLINE), bool(self.flags & EXTENTS)
        has_map = is_inline or any(raw[42:44] if is_tree else raw[40:100])
        self.is_whole = self.links > 0 or (self.size > 0 and has_map)  # not truncated yet
        self.is_freed = not self.links and (not self.is_whole or is_inline and self.dtime > 0)
        is_long = self.type == "symlink" and (self.size >= 60 or is_tree)
        self.is_mapped = not is_inline and (is_long or self.type in ("file", "directory"))
        low, high = raw[:124] + bytes(2) + raw[126:130], raw[130:]
        high, mask = (bytes(2) + high[2:], 0xFFFFFFFF) if self.extra >= 4 else (high, 0xFFFF)
        self.has_checksum = bool(fs.ro_compat & 0x400)
        self.fits = not self.has_checksum or checksum == crc32c(self.seed, low + high) & mask
        self.place = {"offset": byte + skip, "block": self.block, "transaction": self.tid}
        self.place["checksum"] = checksum if self.has_checksum else None

    def _time(self, at: int, more: int) -> int:
        bits = num(self.raw, more) if self.extra >= more - 124 else 0
        seconds = int.from_bytes(self.raw[at : at + 4], "little", signed=True)
        return (seconds + ((bits & 3) << 32)) * 10**9 + (bits >> 2)

    def inline(self) -> bytes:
        """Its inline data: i_block, then the attribute system.data behind the fields."""
        tail = self.raw[132 + self.extra :]  # its entries; values count from the first one
        found = re.search(rb"\x04\x07(..).{4}(.{4}).{4}data", tail, re.DOTALL)
        at, size = (num(found[1], 0), num(found[2], 0)) if found else (0, 0)
        return self.raw[40:100] + tail[at : at + size]


class FileSystem:
    """A file system in a raw image: its groups, and each inode, block and name over time."""

    def __init__(self, path: Path, base: int) -> None:
        with path.open("rb") as file:
            self.image, self.base = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), base
        self.copies = defaultdict[int, list[tuple[int, int, bool]]](list)  # order, block, escaped
        self.orders = dict[int, list[int]]()  # block -> the orders of its copies
        self.due = dict[int, tuple[int, int, bool]]()  # block -> the copy a recovery would write
        sb = self.sb = self.image[base + 1024 : base + 2048]
        self.compat, self.incompat, self.ro_compat = (num(sb, at) for at in (92, 96, 100))
        self.blocks = num(sb, 4) | (num(sb, 336) << 32 if self.incompat & 0x80 else 0)
        self.first_block, self.inodes = num(sb, 20), num(sb, 0)
        self.per_group, self.inodes_per_group = num(sb, 32), num(sb, 40)
        self.block_size = 1024 << min(num(sb, 24), 6)
        self.inode_size = num(sb, 88, 2) if num(sb, 76) else 128
        self.descriptor_size = num(sb, 254, 2) if self.incompat & 0x80 else 32
        self.ratio = 1 << num(sb, 28) - num(sb, 24) if self.ro_compat & 0x200 else 1
        if num(sb, 56, 2) != 0xEF53 or self.inodes * self.inode_size > len(self.image):
            raise ValueError(f"no sound ext2, ext3 or ext4 at byte {base}")
        self.seed = num(sb, 624) if self.incompat & 0x2000 else crc32c(0xFFFFFFFF, sb[104:120])
        self.sequence, self.commits, self.has_fast_commits = 0, dict[int, int](), False
        if self.compat & 4 and num(sb, 224):
            self._read_journal(Inode(self, num(sb, 224), NOW))
        self.states = dict[int, list[Inode]]()
        self.owners = defaultdict[int, list[tuple[range, Inode]]](list)  # by block >> 10
        self.directories = defaultdict[int, set[int]](set)  # block -> whose it was
        self.inline_at = dict[tuple[int, int], int]()  # block and byte -> whose inode has entries
        self.names = defaultdict[int, set[tuple[bytes, int]]](set)  # -> name, directory
        self._gather()

    def _gather(self) -> None:
        for number in (2, *range(max(num(self.sb, 84), 11), self.inodes + 1)):
            self._add(number)
        for inode in (one for states in self.states.values() for one in states if one.is_whole):
            self._own(inode)
        for block, directories in self.directories.items():
            for order in (*self.orders.get(block, []), NOW):
                self._enter(self.as_of(block, order)[2], directories)

    def raw(self, block: int) -> bytes:
        """A block as it is on the disk; zeros where there is none."""
        at = max(self.base + block * self.block_size, 0)
        return self.image[at : at + self.block_size].ljust(self.block_size, b"\0")

    def as_of(self, block: int, order: int) -> tuple[int, int | None, bytes]:
        """Byte, transaction and bytes: of the newest copy up to then, else as a recovery has it."""
        row = bisect.bisect(self.orders.get(block, []), order) if order < NOW else 0
        disk = self.due.get(block, (NOW, block, False))
        when, at, escaped = self.copies[block][row - 1] if row else disk
        data = MAGIC * escaped + self.raw(at)[4 * escaped :]
        return self.base + at * self.block_size, None if when == NOW else when % (1 << 32), data

    def order(self, tid: int | None) -> int:
        """A transaction id as a number that is larger for a later one; None for the disk."""
        step = (tid or 0) - self.sequence & 0xFFFFFFFF
        return NOW if tid is None else self.sequence + step - (step >> 31 << 32)

    def _group(self, group: int) -> tuple[int, int, int]:
        index, slot = divmod(group, self.block_size // self.descriptor_size)
        block, first = 1024 // self.block_size + 1 + index, group - slot
        if self.incompat & 0x10 and index >= num(self.sb, 260):  # meta_bg
            block = self.first_block + first * self.per_group
            block += not first or num(self.raw(block), 56, 2) == 0xEF53  # behind a superblock
        data = self.as_of(block, NOW)[2][slot * self.descriptor_size :][: self.descriptor_size]
        bitmap, table = (num(data, at) | num(data, at + 32) << 32 for at in (0, 8))
        return bitmap, table, num(data, 18, 2)

    def locate(self, number: int) -> tuple[int, int]:
        """Block and byte in it of an inode."""
        group, index = divmod(number - 1, self.inodes_per_group)
        skip, byte = divmod(index * self.inode_size, self.block_size)
        return self._group(group)[1] + skip, byte

    def in_use(self, block: int) -> bool:
        """Whether the bitmap marks a block as in use."""
        group, bit = divmod(block - self.first_block, self.per_group)
        bitmap, _, flags = self._group(group)
        byte, bit = divmod(bit // self.ratio, 8)
        is_unset = self.ro_compat & 0x410 and flags & 2
        return not is_unset and bool(num(self.as_of(bitmap, NOW)[2], byte, 1) >> bit & 1)

    def map(self, inode: Inode) -> tuple[list[Entry], list[int]]:
        """(file block, block, count, unwritten) of its content, and the blocks of its tree."""
        runs, nodes, root = list[Entry](), list[int](), inode.raw[40:100]
        below = self._extents if inode.flags & EXTENTS else self._pointers
        todo = list(below(root, num(root, 6, 2) if inode.flags & EXTENTS else 3, 0))
        for logical, block, count, level in todo if inode.is_mapped else ():
            if not level:
                is_free = count > 32768
                runs.append((logical, block, count - 32768 * is_free, is_free))
            elif block not in nodes:
                nodes.append(block)
                todo += below(self._node(inode, block), level - 1, logical)
        if sum(run[2] for run in runs) > 2 * self.blocks:
            raise ValueError(f"inode {inode.number} maps more blocks than there are")
        return sorted(runs), nodes

    def _node(self, inode: Inode, block: int) -> bytes:
        """A block of a tree; one on the disk has to carry its owner's checksum."""
        _, tid, data = self.as_of(block, inode.last)
        end = min(12 + 12 * num(data, 4, 2), len(data) - 4)
        trusted = tid is not None or not inode.has_checksum or not inode.flags & EXTENTS
        trusted = trusted or num(data, end) == crc32c(inode.seed, data[:end])
        return data if trusted else bytes(len(data))

    def _extents(self, data: bytes, depth: int, _: int) -> Any:
        """(file block, block, length, depth) of the entries of a node."""
        is_node = num(data, 0, 2) == 0xF30A and num(data, 6, 2) == depth <= 5
        low, high = (4, 8) if depth else (8, 6)
        for at in range(12, min(12 + 12 * num(data, 2, 2), len(data) - 11) if is_node else 0, 12):
            block = num(data, at + low) | num(data, at + high, 2) << 32
            yield num(data, at), block, num(data, at + 4, 2), depth

    def _pointers(self, data: bytes, level: int, logical: int) -> Any:
        count = len(data) // 4
        levels = [0] * 12 + [1, 2, 3] if count == 15 else [level] * count
        for below, block in zip(levels, struct.unpack(f"<{count}I", data), strict=True):
            if block:
                yield logical, block, 1, below
            logical += (self.block_size // 4) ** below

    def _add(self, number: int) -> None:
        (block, skip), before, states = self.locate(number), b"", list[Inode]()
        for order in (*self.orders.get(block, []), NOW):
            raw = self.as_of(block, order)[2][skip : skip + self.inode_size]
            if num(raw, 0, 2) and (raw != before or order == NOW):
                inode = Inode(self, number, order)
                is_users = inode.type != "-" and not inode.flags & EA_INODE
                states += [inode] * (is_users and (order == NOW or inode.fits))
            before = raw
        for inode, after in pairwise(states):
            inode.gone = after.order
            is_known = after.order < NOW or (after.raw == inode.raw and not self.has_fast_commits)
            inode.last = after.order - 1 if is_known else inode.order
        self.states[number] = states

    def _own(self, inode: Inode) -> None:
        runs, nodes = self.map(inode)
        for _, start, count, _ in [*runs, *((0, block, 1, False) for block in nodes)]:
            blocks = range(start, start + count)
            for part in range(start >> 10, (start + count - 1 >> 10) + 1):
                self.owners[part].append((blocks, inode))
            for block in blocks if inode.type == "directory" else ():
                self.directories[block].add(inode.number)
        if inode.type == "directory" and inode.flags & INLINE:
            self.inline_at[self.locate(inode.number)] = inode.number
            self._enter(inode.inline()[4:60], {inode.number})
            self._enter(inode.inline()[60:], {inode.number})

    def _enter(self, data: bytes, directories: set[int]) -> None:
        at = 0
        while at + 8 <= len(data):
            name = data[at + 8 : at + 8 + data[at + 6]]
            self.names[num(data, at)] |= {(name, one) for one in directories if name}
            at += max(num(data, at + 4, 2), 8)

    def _read_journal(self, inode: Inode) -> None:
        self.log = list(blocks_of(self.map(inode)[0]).values())
        sb = self.raw(self.log[0])
        self.log_first, self.sequence, self.start = big(sb, 20), big(sb, 24), big(sb, 28)
        incompat = big(sb, 40) if big(sb, 4) == 4 else 0  # the second version has features
        self.v3, v2, self.wide = (bool(incompat & bit) for bit in (16, 8, 2))
        self.has_checksums = v2 or self.v3
        self.tag_size = 16 if self.v3 else 8 + 4 * self.wide + 2 * v2
        self.has_fast_commits = bool(self.compat & 0x400 or incompat & 32)
        area = (big(sb, 84) or 256) if self.has_fast_commits else 0
        self.log_end = min(big(sb, 16), len(self.log)) - area
        self.log_seed = crc32c(0xFFFFFFFF, sb[48:64])
        self.tags = list[tuple[int, int, int, bool]]()  # order, log block, home block, escaped
        self.revokes = list[tuple[int, int]]()  # order, block
        for at in range(self.log_first, self.log_end):
            self._read(at, self.raw(self.log[at]))
        newest = {tag[1]: tag for tag in sorted(self.tags)}  # a later lap has its log block
        for order, at, home, escaped in newest.values():
            if self.has_checksums or order in self.commits:
                self.copies[home].append((order, self.log[at], escaped))
        for home, copies in self.copies.items():
            copies.sort()
            self.orders[home] = [copy[0] for copy in copies]
        self._recover()

    def _read(self, at: int, data: bytes) -> None:
        kind, order = big(data, 4) * (data[:4] == MAGIC), self.order(big(data, 8))
        end = 16 if kind == 2 else len(data) - 4  # where the block's own checksum stands
        right = crc32c(self.log_seed, data[:end] + bytes(4) + data[end + 4 :]) if kind else 0
        fits = not self.has_checksums or big(data, end) == right
        if fits and kind == 1:
            self._tags(at, order, data)
        elif fits and kind == 2:
            self.commits[order] = big(data, 48, 8) * 10**9 + big(data, 56)
        elif fits and kind == 5:
            size = 8 if self.wide else 4
            places = range(16, min(big(data, 12), len(data)), size)
            self.revokes += [(order, big(data, place, size)) for place in places]

    def _tags(self, place: int, order: int, data: bytes) -> None:
        at, flags, seed = 12, 0, crc32c(self.log_seed, data[8:12])
        while at + self.tag_size <= len(data) - 4 * self.has_checksums and not flags & 8:
            flags = big(data, at + 4) if self.v3 else big(data, at + 6, 2)
            checksum = big(data, at + 12) if self.v3 else big(data, at + 4, 2)
            home = big(data, at) | (big(data, at + 8) << 32 if self.wide else 0)
            place = place + 1 if place + 1 < self.log_end else self.log_first
            copy = self.raw(self.log[place])
            right = crc32c(seed, copy) & (0xFFFFFFFF if self.v3 else 0xFFFF)
            if copy[:4] != MAGIC and (checksum == right or not self.has_checksums):
                self.tags.append((order, place, home, bool(flags & 1)))
            at += self.tag_size + (0 if flags & 2 else 16)

    def _recover(self) -> None:
        """The last copies of committed transactions, less those that were revoked since."""
        first = end = self.sequence
        while self.start and self.incompat & 4 and end in self.commits:
            end += 1
        revoked = {block: order for order, block in sorted(self.revokes) if first <= order < end}
        for home, copies in self.copies.items():
            known = [one for one in copies if first <= one[0] < end]
            if known and revoked.get(home, -NOW) < known[-1][0]:
                self.due[home] = known[-1]


class Check:
    """One record: `failed` says what does not hold, `unknown` what cannot be decided."""

    def __init__(self, fs: FileSystem, record: dict[str, Any], out: Path | None) -> None:
        self.fs, self.record, self.out = fs, record, out
        self.failed, self.unknown = list[str](), list[str]()
        try:
            self.evidence, self.sources = record["evidence"] or {}, record["sources"]
            self._run()
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self.failed.append(f"makes no sense: {error!r}")
        except (OSError, ArithmeticError, struct.error) as error:
            self.unknown.append(f"the image cannot be read: {error!r}")

    def _claim(self, holds: bool, what: str) -> None:
        self.failed += [what] * (not holds)

    def _same(self, **found: Any) -> None:
        for what, value in found.items():  # of the record, or of its evidence
            told = self.record.get(what, self.evidence.get(what))
            self._claim(told == value, f"{what} is {value!r}, not {told!r}")

    def _run(self) -> None:
        if not self.evidence.get("inode_at"):
            self.unknown.append("no place of an inode is named")
            return
        if self.fs.has_fast_commits and self.fs.due:
            self.unknown.append("fast commits are not read")
        tid, source = self.evidence["inode_at"]["transaction"], self.sources["inode"]
        order = self.fs.order(tid if source == f"journal transaction {tid}" else None)
        self.states = self.fs.states[self.record["inode"]]
        self.inode = [one for one in self.states if one.order <= order][-1]
        self.until = self.inode.last if self.record["superseded"] else self.inode.gone
        self._claim(self.inode.order == order, f"the source of the inode is not {source!r}")
        self._inode()
        self._deletion()
        if self.sources.get("map") == source:
            self._map()
        elif "map" in self.sources:
            self.unknown.append("its map is put together from freed metadata")
        if self.evidence["name_at"]:
            self._name()
        elif self.record["name"] is not None:
            self.unknown.append("no place of its name is named")

    def _inode(self) -> None:
        inode, orders = self.inode, self.fs.orders.get(self.inode.block, [])
        self._same(file_system_at=self.fs.base, inode_at=inode.place)
        self._claim(inode.fits, "the checksum of the inode does not fit")
        for key in ("mode", "generation", "atime", "mtime", "ctime", "crtime", "type"):
            self._same(**{key: getattr(inode, key)})
        older = bisect.bisect_left(orders, inode.order)
        copies = {"older": older, "newer": len(orders) - bisect.bisect(orders, inode.order)}
        last = self.fs.as_of(inode.block, inode.last)[1] if inode.order < NOW else None
        owner = {"inode": inode.number, "generation": inode.generation, "last": last}
        owner["first"] = inode.tid if inode.order < NOW else None
        self._same(copies=copies, last_owner=owner)

    def _deletion(self) -> None:
        inode, record, times = self.inode, self.record, self.fs.commits
        life = [one for one in self.states if one.life == inode.life]
        linked = [one for one in life if one.links and one.order <= inode.order]
        before = [inode, *linked][-1]  # a deletion clears the high halves
        self._same(uid=inode.uid | before.uid & 0xFFFF0000, gid=inode.gid | before.gid & 0xFFFF0000)
        ends = [one.order for one in ([inode] if record["superseded"] else linked[-1:])]
        ends += [one.order for one in self.states if ends and one.order > ends[0]][:1]
        told = [(at % (1 << 32), times.get(at)) for at in ends if at < NOW]
        said = [one and (one["transaction"], one["time"]) for one in record["deleted_between"]]
        self._claim(said == [*told, None, None][:2], f"it was deleted between {told}")
        last, freed = life[-1], [one for one in life if one.order >= inode.order and one.is_freed]
        self._same(dtime=None if last.links or last.is_whole else last.dtime * 10**9 or None)
        self._same(freed_at=freed[0].place if freed else None)
        self._claim(not freed or freed[0].fits, "the checksum of the freed inode does not fit")
        if record["grade"] == "intact" and record["type"] == "file":
            self._claim(bool(freed) and freed[0].version <= inode.version, "it went on")
            self._claim(not record["lost"] and not record["blocks_reused"], "it has lost blocks")

    def _map(self) -> None:
        record, size, fs = self.record, self.fs.block_size, self.fs
        runs, nodes = fs.map(self.inode)
        found = {block: fs.as_of(block, self.inode.last)[:2] for block in nodes}
        told = {at["block"]: (at["offset"], at["transaction"]) for at in self.evidence["map_at"]}
        self._claim(told == found, f"map_at is {found}")
        end = -(-self.inode.size // size)
        runs = [(run[0], run[1], min(run[2], end - run[0]), run[3]) for run in runs if run[0] < end]
        self._same(size=self.inode.size, blocks=sum(run[2] for run in runs))
        if record["type"] != "file":
            return
        lost = [(one["offset"], one["offset"] + one["length"]) for one in record["lost"]]
        parts = [range(begin // size, -(-stop // size)) for begin, stop in lost]
        mapped = blocks_of(run for run in runs if not run[3]).items()
        held = {at: block for at, block in mapped if not any(at in part for part in parts)}
        counts = [run[2] for run in record["extents"]]
        is_held = min(counts, default=1) > 0 and sum(counts) == len(held)
        self._claim(is_held and blocks_of(record["extents"]) == held, "extents are not the map's")
        copied = dict[int, bytes]()
        for one in self.evidence["content_at"]:
            byte, tid, copied[one["block"]] = fs.as_of(one["block"], min(self.until, NOW - 1))
            self._claim((byte, tid) == (one["offset"], one["transaction"]), "content_at is wrong")
        for block in set(held.values()) - copied.keys():
            self._unused(block)
        if "without a descriptor" in self.sources.get("content", ""):
            self.unknown.append("its content is read from copies that no descriptor names")
        elif record["sha256"] and record["size"] == self.inode.size:
            self._hash(held, copied)

    def _unused(self, block: int) -> None:
        inode, newest = self.inode, max(self.fs.orders.get(block, []), default=-NOW)
        is_held = inode.order == NOW and inode.is_whole
        self._claim(is_held or not self.fs.in_use(block), f"block {block} is in use")
        is_unchanged = inode.order == NOW or newest <= self.until
        self._claim(is_unchanged, f"block {block} was written through the journal later")
        for blocks, other in self.fs.owners[block >> 10]:
            is_later = other.order > inode.order and block in blocks and other.life != inode.life
            self._claim(not is_later, f"inode {other.number} has block {block} later")

    def _hash(self, held: dict[int, int], copied: dict[Any, bytes]) -> None:
        end, size = self.inode.size, self.fs.block_size
        is_inline = bool(self.inode.flags & INLINE)
        digest = hashlib.sha256(self.inode.inline()[:end].ljust(end, b"\0") if is_inline else b"")
        for logical in range(0 if is_inline else -(-end // size)):
            block = held.get(logical)
            data = bytes(size) if block is None else self.fs.as_of(block, NOW)[2]
            digest.update(copied.get(block, data)[: end - logical * size])
        self._same(sha256=digest.hexdigest())
        if self.out and self.record["output"]:
            data = (self.out / self.record["output"]).read_bytes()
            self._claim(hashlib.sha256(data).digest() == digest.digest(), "the file in OUT differs")

    def _name(self) -> None:
        record, at = self.record, self.evidence["name_at"]
        told = [base64.b64decode(record.get(f"{key}_bytes", "")) for key in ("name", "path")]
        name, path = told[0] or record["name"].encode(), told[1] or str(record["path"]).encode()
        start, tid, data = self.fs.as_of(at["block"], self.fs.order(at["transaction"]))
        byte = at["offset"] - start
        entry = data[byte : byte + 8 + len(name)] if byte >= 0 else b""
        right = record["inode"].to_bytes(4, "little") + bytes([len(name)]) + name
        is_entry = entry[:4] + entry[6:7] + entry[8:] == right and tid == at["transaction"]
        self._claim(is_entry, "no entry of this name and inode is there")
        source = self.sources["name"]
        is_told = not source.startswith("journal") or source == f"journal transaction {tid}"
        self._claim(is_told, "its name's source is wrong")
        place = at["block"], byte - byte % self.fs.inode_size  # of an inode that has entries
        above = self.fs.directories.get(at["block"]) or {self.fs.inline_at.get(place, 0)}
        *parts, last = path.strip(b"/").split(b"/")
        for part in reversed(parts):
            pairs = [pair for directory in above for pair in self.fs.names[directory]]
            above = {parent for known, parent in pairs if known == part}
        leads = last == name and 2 in above
        self._claim(record["path"] is None or leads, "no directory entries make up its path")


def main() -> int:
    """Check all records of a manifest: print what does not hold, and how many records are what."""
    parser = argparse.ArgumentParser(description="Check a manifest against a raw image.")
    parser.add_argument("image", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--out", type=Path, help="folder with the recovered files")
    given, counts = parser.parse_args(), Counter[str]()
    try:
        records = [json.loads(line) for line in given.manifest.read_bytes().split(b"\n") if line]
        places = [one["evidence"]["file_system_at"] for one in records if one["evidence"]]
        fs = FileSystem(given.image, next(iter(places), 0))
    except Exception as error:  # noqa: BLE001 a hostile image or manifest must not end it otherwise
        print(f"all undecided, as they cannot be read: {error!r}")
        return 2
    for number, record in enumerate(records, 1):
        check = Check(fs, record, given.out)
        counts["refuted" if check.failed else "undecided" if check.unknown else "confirmed"] += 1
        for line in check.failed:
            print(f"record {number}: {line}")
    print(", ".join(f"{counts[word]} {word}" for word in ("confirmed", "refuted", "undecided")))
    return 1 if counts["refuted"] else 0


if __name__ == "__main__":
    sys.exit(main())
