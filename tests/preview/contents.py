"""Nodes for previews: contents that count what is read of them, and images made from folders."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import category

import numpy as np

import ext4kit as library
from ext4kit.arrays.types import Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node, NodeId
from ext4kit.preview.model import Preview
from ext4kit.preview.previews import preview
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import make_file_system, mounted, run, sync

BLOCK = 1024
BIG = b"".join(b"row %06d\n" % at for at in range(12_000))  # of the file `big`
Row = tuple[int, int, int, bool]  # file block, blocks, block, is unwritten


class CountingBlocks:
    """Blocks in memory, or of a repeated byte, that count what is read.

    Args:
        data: the first blocks; all others are full of `filling`.
        blocks_count: number of blocks.
        bad: blocks that cannot be read.
        filling: a byte.
    """

    def __init__(
        self, data: bytes, blocks_count: int, bad: Collection[int] = (), filling: bytes = b"x"
    ) -> None:
        self.block_size, self.blocks_count = BLOCK, blocks_count
        self._data, self._bad, self._filling = data, bad, filling
        self.bytes_read = 0

    def read(self, block: int, count: int = 1) -> memoryview:
        if any(block <= one < block + count for one in self._bad):
            raise AccessError(f"block {block} is bad")
        assert block >= 0 and block + count <= self.blocks_count
        self.bytes_read += count * BLOCK
        found = self._data[block * BLOCK : (block + count) * BLOCK]
        return memoryview(found.ljust(count * BLOCK, self._filling))

    def read_many(self, blocks: Int64s) -> Bytes2D:
        rows = [np.frombuffer(self.read(int(one)), np.uint8) for one in blocks]
        return np.array(rows).reshape(len(rows), BLOCK)


@dataclass(frozen=True)
class MadeNode(Node):
    """A file of a given content."""

    made: Content = field(kw_only=True)

    @property
    def size(self) -> int:
        return self.made.size

    def content(self) -> Content:
        return self.made


def node_of(data: bytes, bad: Collection[int] = (), name: str = "made") -> MadeNode:
    """A file in consecutive blocks from block 0 on."""
    count = -(-len(data) // BLOCK)
    return mapped(data, len(data), [(0, count, 0, False)] if count else [], bad, name)


def mapped(
    data: bytes,
    size: int,
    rows: Sequence[Row],
    bad: Collection[int] = (),
    name: str = "made",
    blocks_count: int | None = None,
) -> MadeNode:
    """A file whose runs are given; `data` are the blocks of the disk from block 0 on."""
    logical, length, physical, unwritten = (
        np.array([row[at] for row in rows], np.int64) for at in range(4)
    )
    runs = Runs(np.zeros_like(logical), logical, length, physical, unwritten.astype(bool))
    count = -(-len(data) // BLOCK) if blocks_count is None else blocks_count
    content = Content(CountingBlocks(data, count, bad), size, runs)
    return MadeNode(NodeId("made", detail=name), b"/" + name.encode(), made=content)


def bytes_read(node: MadeNode) -> int:
    blocks = node.made.blocks
    assert isinstance(blocks, CountingBlocks)
    return blocks.bytes_read


def pages(node: Node, kind: str, most_lines: int, width: int = 80) -> Iterator[Preview]:
    """All previews of a node, each from where the one before ended."""
    offset: int | None = 0
    line = None
    while offset is not None:
        found = preview(node, kind, offset, most_lines, width, line)
        assert found.kind == kind, found.text
        assert len(found.lines) <= most_lines
        assert found.next_offset is None or found.next_offset > offset
        assert found.is_cut == (found.next_offset is not None)
        yield found
        offset, line = found.next_offset, found.next_line


def are_safe(texts: Iterable[str]) -> bool:
    """Whether no text has a control character, a line end or a sign that turns its direction."""
    unsafe = re.compile("[\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
    every = "".join(texts)
    return not unsafe.search(every) and not {"Cc", "Cs"} & set(map(category, every))


def texts_of(found: Preview) -> list[str]:
    return [span.text for line in found.lines for span in line.spans]


@contextmanager
def opened(image: Path) -> Iterator[Workspace]:
    """The only file system of an image."""
    with library.open(image) as found:
        yield Workspace(found.filesystem())


def made_image(source: Path, image: Path, *options: str, size: int = 32) -> Path:
    """A file system of so many MiB with the files of a folder."""
    with image.open("wb") as file:
        file.truncate(size << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", *options, "-d", source, image)
    return image


@dataclass(frozen=True)
class LivedIn:
    """An image that a kernel wrote, and what it said while it did.

    Attributes:
        image: the image.
        blocks: name -> blocks by debugfs, of files that were deleted too.
        inodes: name -> inode number.
    """

    image: Path
    blocks: dict[str, list[int]]
    inodes: dict[str, int]

    @property
    def reused(self) -> tuple[int, int]:
        """The first and the last byte of `big` in blocks that `new` has."""
        new = set(self.blocks["new"])
        shared = [place for place, block in enumerate(self.blocks["big"]) if block in new]
        assert shared == list(range(shared[0], shared[-1] + 1))
        return shared[0] * BLOCK, shared[-1] * BLOCK + BLOCK - 1


def lived_in(image: Path) -> LivedIn:
    """A full file system in which a file was deleted and a part of its blocks was reused."""
    make_file_system(image, 8 << 20, ("-t", "ext4", "-b", "1024", "-O", "inline_data"))
    inodes = {}
    with mounted(image, "noatime") as root:
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text(
            "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/home/anna:\n"
        )
        (root / "etc/group").write_text("root:x:0:\nstaff:x:50:anna\n")
        (root / "notes.txt").write_text("a note\n" * 200)
        (root / "big").write_bytes(BIG)
        program = root / "program"
        program.write_bytes(b"\x7fELF" + bytes(60))
        os.chown(program, 1000, 50)
        run("setcap", "cap_net_raw,cap_net_admin=ep", program)
        run("setfacl", "-m", "u:1000:rw,g:50:r", root / "notes.txt")
        os.setxattr(root / "notes.txt", "user.origin", b"a\x1bletter")
        os.mknod(root / "disk", 0o60600, os.makedev(8, 17))
        (root / "link").symlink_to("etc/passwd")
        (root / "spare").write_bytes(os.urandom(16 << 10))
        with (root / "filler").open("wb") as file, suppress(OSError):
            while True:
                file.write(os.urandom(1 << 16))
        run("truncate", "-s", "-200K", root / "filler")
        for path in root.iterdir():
            inodes[path.name] = path.lstat().st_ino
    blocks = {name: _blocks(image, name) for name in ("big", "notes.txt", "filler")}
    with mounted(image, "noatime") as root:
        with (root / "rest").open("wb") as file, suppress(OSError):
            while True:
                file.write(os.urandom(1 << 12))
        (root / "spare").unlink()
        sync(root)
        (root / "big").unlink()
        sync(root)
        (root / "new").write_bytes(os.urandom(60 << 10))
        inodes["new"] = (root / "new").stat().st_ino
        sync(root)
    blocks["new"] = _blocks(image, "new")
    return LivedIn(image, blocks, inodes)


@dataclass(frozen=True)
class Rewritten:
    """An image whose `notes.txt` was rewritten, with room enough that no older content is lost.

    Attributes:
        image: the image.
        texts: versions of `notes.txt`, the oldest first.
    """

    image: Path
    texts: list[str]


def rewritten(image: Path) -> Rewritten:
    """A file system in which the kernel wrote a text three times."""
    same, tail = "same line\n" * 20, "tail\n" * 200
    texts = [f"title\n{same}version {number}\n{tail}" for number in range(3)]
    make_file_system(image, 32 << 20, ("-t", "ext4", "-b", "1024"))
    with mounted(image, "noatime") as root:
        (root / "etc").mkdir()
        for text in texts:
            (root / "notes.txt").write_text(text)
            sync(root)
    return Rewritten(image, texts)


def _blocks(image: Path, name: str) -> list[int]:
    """The content blocks of a file by debugfs, in order."""
    dump = run("debugfs", "-R", f"dump_extents -l {name}", image).decode().splitlines()
    found = list[int]()
    for line in dump[1:]:
        first, last = re.findall(r"(\d+) - +(\d+)", line)[1]
        found += range(int(first), int(last) + 1)
    return found
