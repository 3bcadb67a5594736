"""Fast commits written by hand behind a log that mke2fs made: no mount, and e2fsck judges.

On-disk facts as in the kernel's documentation of ext4's journal and of its fast commits.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import crc32c

from ext4kit.filesystem import FileSystem
from tests.journal.fast_commit_images import View, faults
from tests.journal.fast_commit_images import replayed as view_of
from tests.journal.kernel_log import run

ADD_RANGE, DEL_RANGE, CREAT, LINK, UNLINK, INODE, PAD, TAIL, HEAD = range(1, 10)
TID = 7
EXTENTS, INLINE, INDEX = 0x80000, 0x10000000, 0x1000  # i_flags
FILE, DIRECTORY = 0o100644, 0o040755
NEEDS_RECOVERY, FAST_COMMIT = 0x4, 0x20  # s_feature_incompat of the file system, of its journal
NOW = 1_700_000_000
EMPTY_ROOT = struct.pack("<5H", 0xF30A, 0, 4, 0, 0).ljust(60, b"\0")  # an extent tree's


def register(seed: int, data: bytes) -> int:
    """The crc32c register as the kernel hands it on."""
    return int(crc32c.crc32c(data, seed ^ 0xFFFFFFFF)) ^ 0xFFFFFFFF


def tag(kind: int, value: bytes) -> bytes:
    """One tag."""
    return struct.pack("<HH", kind, len(value)) + value


def head(tid: int = TID, features: int = 0) -> bytes:
    """A HEAD tag."""
    return tag(HEAD, struct.pack("<II", features, tid))


def add_range(inode: int, logical: int, length: int, block: int, unwritten: bool = False) -> bytes:
    """An ADD_RANGE tag."""
    stored = length + 32768 * unwritten
    return tag(ADD_RANGE, struct.pack("<IIHHI", inode, logical, stored, block >> 32, block & ~0))


def del_range(inode: int, logical: int, length: int) -> bytes:
    """A DEL_RANGE tag."""
    return tag(DEL_RANGE, struct.pack("<III", inode, logical, length))


def entry(kind: int, parent: int, inode: int, name: str | bytes) -> bytes:
    """A CREAT, LINK or UNLINK tag."""
    text = name.encode() if isinstance(name, str) else name
    return tag(kind, struct.pack("<II", parent, inode) + text)


def inode(number: int, raw: bytes) -> bytes:
    """An INODE tag."""
    return tag(INODE, struct.pack("<I", number) + raw)


def raw_inode(
    mode: int = FILE,
    size: int = 0,
    *,
    links: int = 1,
    flags: int = EXTENTS,
    generation: int = 1,
    root: bytes = EMPTY_ROOT,
    extra: int = 32,
) -> bytes:
    """The bytes of an inode that a fast commit carries."""
    fields = struct.pack("<HHIIIIIHHIII", mode, 0, size, NOW, NOW, NOW, 0, 0, links, 0, flags, 0)
    body = fields + root.ljust(60, b"\0") + struct.pack("<IIII", generation, 0, size >> 32, 0)
    body = body.ljust(128, b"\0")
    return body + struct.pack("<HH", extra, 0).ljust(extra, b"\0") if extra else body


def sealed(tags: bytes, block_size: int, tid: int = TID, before: bytes = b"") -> bytes:
    """Tags with their TAIL, up to the end of the block that they end in.

    Args:
        tags: of the last block.
        block_size: bytes a block.
        tid: of the transaction.
        before: whole blocks of the same fast commit.
    """
    rest = block_size - len(tags) - 4
    body = tags + struct.pack("<HHI", TAIL, rest, tid)
    body += struct.pack("<I", register(0, before + body))
    return before + body.ljust(block_size, b"\0")


def committed(tags: Sequence[bytes], block_size: int, tid: int = TID) -> bytes:
    """The blocks of one fast commit: a tag that does not fit begins the next block."""
    whole, current = b"", b""
    for one in tags:
        if len(current) + len(one) + 16 > block_size:
            pad = block_size - len(current) - 4
            whole += current + tag(PAD, bytes(pad))
            current = b""
        current += one
    return sealed(current, block_size, tid, whole)


@dataclass
class Written:
    """A file system of mke2fs whose newest changes are in fast commits written by hand.

    Attributes:
        image: the image.
        committed: seconds at which the log's one transaction was committed; it has none for 0.
    """

    image: Path
    commits: list[bytes] = field(default_factory=list)
    committed: int = 0

    @cached_property
    def superblock(self) -> bytes:
        """Its 1,024 bytes."""
        return self.read(1024, 1024)

    @cached_property
    def block_size(self) -> int:
        """Bytes a block."""
        return 1024 << int(struct.unpack_from("<I", self.superblock, 24)[0])

    @cached_property
    def log_blocks(self) -> list[int]:
        """The block of each log block, as debugfs lists them."""
        runs = re.findall(r"\((\d+)(?:-(\d+))?\):(\d+)", self.debugfs("stat <8>"))
        return [
            int(block) + step
            for first, last, block in runs
            for step in range(int(last or first) - int(first) + 1)
        ]

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the image."""
        with self.image.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def write(self, offset: int, data: bytes) -> None:
        """Change bytes of the image."""
        with self.image.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def debugfs(self, request: str, *options: str) -> str:
        """What debugfs answers."""
        return run("debugfs", *options, "-R", request, self.image)

    def change(self, *requests: str) -> None:
        """Change the image with debugfs."""
        script = "\n".join([f"set_current_time @{NOW}", *requests, ""])
        command = ["debugfs", "-w", "-f", "-", str(self.image)]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def number(self, path: str) -> int:
        """Inode number of a path."""
        return int(re.findall(r"Inode: (\d+)", self.debugfs(f"stat {path}"))[0])

    def place(self, number: int) -> int:
        """Byte of the image at which an inode begins."""
        where = self.debugfs(f"imap <{number}>")
        block, offset = re.findall(r"block (\d+), offset (0x[0-9a-f]+)", where)[0]
        return int(block) * self.block_size + int(offset, 16)

    def raw(self, number: int) -> bytes:
        """The bytes of an inode on disk, without its body of attributes."""
        return self.read(self.place(number), 160)

    def commit(self, *tags: bytes, opens: bool | None = None) -> None:
        """One more fast commit; the first one opens with a HEAD."""
        first = not self.commits if opens is None else opens
        self.commits.append(committed([*([head()] if first else []), *tags], self.block_size))

    def finish(self) -> None:
        """Write the fast commits, and ask for a recovery."""
        at = self.log_blocks[0] * self.block_size
        area = struct.unpack_from(">I", self.read(at, 1024), 0x54)[0]
        sequence = TID - bool(self.committed)
        self.write(at + 0x18, struct.pack(">II", sequence, 1))  # s_sequence, s_start
        if self.committed:
            block = struct.pack(">III", 0xC03B3998, 2, sequence).ljust(48, b"\0")
            block += struct.pack(">QI", self.committed, 0)
            self.write(self.log_blocks[1] * self.block_size, block)
        self.write(at + 0x28, struct.pack(">I", FAST_COMMIT))
        data = b"".join(self.commits)
        position = len(self.log_blocks) - area + 1
        for start in range(0, len(data), self.block_size):
            place = self.log_blocks[position] * self.block_size
            self.write(place, data[start : start + self.block_size])
            position += 1
        incompat = struct.unpack_from("<I", self.superblock, 0x60)[0] | NEEDS_RECOVERY
        body = bytearray(self.superblock)
        struct.pack_into("<I", body, 0x60, incompat)
        if struct.unpack_from("<I", body, 0x64)[0] & 0x400:  # metadata_csum
            struct.pack_into("<I", body, 1020, register(0xFFFFFFFF, bytes(body[:1020])))
        self.write(1024, bytes(body))

    def replayed(self) -> View:
        """The view of ext4kit, once e2fsck has nothing against a copy with all it changes."""
        self.finish()
        view = view_of(self.image)
        assert view.applied == len(self.commits)
        problems = [str(one) for one in view.fs.problems if one.severity != "note"]
        assert not problems, problems
        verdict = self.verdict(view)
        assert not verdict, verdict
        return view

    def verdict(self, view: View) -> str:
        """What e2fsck has against a copy with all that ext4kit changes."""
        copy, blocks = self.image.with_suffix(".written"), view.blocks
        shutil.copyfile(self.image, copy)
        with copy.open("r+b") as file:
            for block in {*blocks.plan.blocks.tolist(), *blocks.changed.blocks.tolist()}:
                file.seek(block * blocks.block_size)
                file.write(blocks.read(block))
        other = Written(copy)
        at = self.log_blocks[0] * self.block_size
        other.write(at + 0x18, struct.pack(">II", TID + 1, 0))
        body = bytearray(other.read(1024, 1024))
        body[0x60] &= ~NEEDS_RECOVERY
        if struct.unpack_from("<I", body, 0x64)[0] & 0x400:
            struct.pack_into("<I", body, 1020, register(0xFFFFFFFF, bytes(body[:1020])))
        other.write(1024, bytes(body))
        return faults(copy)


def make(folder: Path, options: str, tree: Path | None = None, size: str = "16M") -> Written:
    """A file system with room for fast commits."""
    image = folder / "image"
    content = [] if tree is None else ["-d", str(tree)]
    journal = "size=5,fast_commit_size=64" if "-b 4096" in options else "size=2,fast_commit_size=64"
    words = f"-q -F -t ext4 -O fast_commit -J {journal} {options}".split()
    run("mke2fs", *words, *content, image, size)
    return Written(image)


def names(fs: FileSystem, path: bytes = b"/") -> set[str]:
    """The names in a directory, its own and its parent's left out."""
    return {one.path.rpartition(b"/")[2].decode() for one in fs.walk(path) if one.path != path}
