"""A small tree by chance, with something of all that a file system's format tells apart.

What a file system or the kernel refuses is left out: no space, no attributes, no such operation.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ext4kit.units import NANOSECONDS
from sample_images.recipes.machine import truncate
from tests.filesystem.matrix_filling import STRANGE_NAMES

FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602  # include/uapi/linux/fs.h
FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820
KEEP_SIZE, PUNCH, COLLAPSE, ZERO, INSERT = 1, 3, 8, 16, 32  # include/uapi/linux/falloc.h
HARMLESS_FLAGS = (
    0x01,
    0x02,
    0x04,
    0x08,
    0x40,
    0x80,
    0x4000,
    0x10000,
)  # those of `chattr +sucSdADT`
_libc = ctypes.CDLL(None, use_errno=True)


class Filler:
    """Fills a folder.

    Attributes:
        root: the folder.
        is_copied: by `mke2fs -d`, which gives up where an attribute does not fit.
        files: regular files that were made, hard links not among them.
    """

    def __init__(
        self, root: Path, chance: random.Random, block_size: int, is_copied: bool = False
    ) -> None:
        self.root, self.block_size, self._is_copied = root, block_size, is_copied
        self.files: list[Path] = []
        self._chance = chance
        self._count = 0

    def fill(self, most: int = 400_000) -> None:
        """Take every step once, in an order by chance.

        Args:
            most: bytes of one file's data.
        """
        steps: list[Callable[[], None]] = [
            self._plain, self._plain, self._holes, self._short_holes, self._links, self._names,
            self._special, self._many, self._deep, self._attributes, self._large_attributes,
            self._owners, self._reserved, self._fragmented, self._flags, self._projects,
            self._grown,
        ]  # fmt: skip
        self._most = most
        self._chance.shuffle(steps)
        for step in steps:
            with suppress(OSError):
                step()

    def _bytes(self, size: int) -> bytes:
        """No zeros at the end, so that a size tells itself."""
        return self._chance.randbytes(max(size - 1, 0)) + b"." if size else b""

    def _new(self, name: str = "") -> Path:
        self._count += 1
        return self._folder() / f"{self._count:02d}{name}"

    def _folder(self) -> Path:
        folder = self.root / self._chance.choice(("a", "b", "c"))
        folder.mkdir(exist_ok=True)
        return folder

    def _file(self, data: bytes, name: str = "") -> Path:
        path = self._new(name)
        path.write_bytes(data)
        self.files.append(path)
        return path

    def _plain(self) -> None:
        block = self.block_size
        sizes = (0, 1, 59, 60, 61, 120, 150, 160, 161, 700, block - 1, block, block + 1, 5 * block)
        for size in self._chance.sample(sizes, 5):
            self._file(self._bytes(size))
        self._file(self._bytes(min(self._chance.randrange(60) * block, self._most)))

    def _holes(self) -> None:
        for _ in range(2):
            path = self._file(b"", " holes")
            with path.open("r+b") as file:
                for _ in range(4):
                    place = self._chance.randrange(1 << self._chance.randrange(8, 23))
                    os.pwrite(file.fileno(), self._bytes(self._chance.randrange(1, 5000)), place)
            if self._chance.random() < 0.5:
                truncate(path, self._chance.randrange(1 << 22))

    def _short_holes(self) -> None:
        """Small files, inline where there is such a thing, that are cut or made longer."""
        for _ in range(6):
            path = self._file(self._bytes(self._chance.choice((0, 5, 60, 61, 90, 190))), " short")
            truncate(path, self._chance.choice((1, 30, 60, 61, 100, 130, 150, 200, 400)))
            if self._chance.random() < 0.5:
                with path.open("r+b") as file:
                    os.pwrite(file.fileno(), b"late", self._chance.randrange(150))

    def _links(self) -> None:
        for size in (1, 59, 60, 61, 150, self._chance.randrange(1, min(self.block_size - 1, 4096))):
            self._new(" link").symlink_to("t" * size)
        first = self._file(self._bytes(3000), " hard")
        for _ in range(3):
            self._new(" hard").hardlink_to(first)

    def _names(self) -> None:
        folder = self._new(" names")
        folder.mkdir()
        for name in self._chance.sample(STRANGE_NAMES, 4):
            with suppress(OSError):
                path = folder / os.fsdecode(name)
                path.write_bytes(name)
                self.files.append(path)

    def _special(self) -> None:
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            for major, minor in ((8, 17), (300, 70_000)):
                os.mknod(self._new(" device"), kind | 0o620, os.makedev(major, minor))
        os.mkfifo(self._new(" fifo"))
        os.mknod(self._new(" socket"), stat.S_IFSOCK | 0o600)

    def _many(self) -> None:
        """A directory of many names, some removed, so that it has an index and gaps."""
        folder = self._new(" many")
        folder.mkdir()
        (folder / "first").touch()
        first, base = os.fsencode(folder / "first"), os.fsencode(folder)
        length, count = self._chance.randrange(1, 200), self._chance.choice((3, 20, 90))
        names = [base + b"/%03d" % number + b"n" * length for number in range(count)]
        for name in names:
            os.link(first, name)
        for name in self._chance.sample(names, count // 3):
            Path(os.fsdecode(name)).unlink()

    def _deep(self) -> None:
        folder = self._new(" deep")
        folder.mkdir()
        for level in range(self._chance.randrange(1, 5)):
            folder = folder / f"level {level}"
            folder.mkdir()
        path = folder / "bottom"
        path.write_bytes(self._bytes(2000))
        self.files.append(path)

    def _attributes(self) -> None:
        block = 300 if self._is_copied else min(self.block_size, 4096)
        sizes = (0, 1, 10, 60, 100, block // 2, block - 100)
        shared = self._bytes(block // 3)
        for number in range(4):
            path = self._file(self._bytes(self._chance.randrange(200)), " attributes")
            for size in self._chance.sample(sizes, 2):
                with suppress(OSError):
                    os.setxattr(path, f"user.n{size}", self._bytes(size))
            with suppress(OSError):
                os.setxattr(path, "trusted.t" if number == 1 else "user.shared", shared)
        folder = self._new(" attributes")
        folder.mkdir()
        os.setxattr(folder, "user.folder", self._bytes(40))

    def _large_attributes(self) -> None:
        if self._is_copied:
            return
        same = self._bytes(self._chance.randrange(3000, 9000))
        for _ in range(2):
            path = self._file(b"x", " large attributes")
            os.setxattr(path, "user.same", same)
            os.setxattr(path, "user.own", self._bytes(self._chance.randrange(1, 20_000)))

    def _owners(self) -> None:
        for _ in range(3):
            path = self._file(self._bytes(100), " owned")
            os.chown(path, self._chance.randrange(1 << 32), self._chance.randrange(1 << 32))
            path.chmod(self._chance.randrange(0o10000))
            moment = self._chance.randrange(-(1 << 31), (1 << 34) - (1 << 31)) * NANOSECONDS
            os.utime(path, ns=(moment + 5, moment + self._chance.randrange(NANOSECONDS)))

    def _reserved(self) -> None:
        """Unwritten extents, and ranges that are punched, zeroed, taken out, put in."""
        block = self.block_size
        for mode in self._chance.sample((0, KEEP_SIZE, PUNCH, COLLAPSE, ZERO, INSERT), 3):
            path = self._file(self._bytes(self._chance.randrange(1, 20) * block), " reserved")
            start, length = (self._chance.randrange(1, 20) * block for _ in range(2))
            with path.open("r+b") as file:
                _libc.fallocate(file.fileno(), mode, ctypes.c_long(start), ctypes.c_long(length))

    def _fragmented(self) -> None:
        block = self.block_size
        path = self._file(b"", " fragmented")
        with path.open("r+b") as file:
            for piece in range(self._chance.choice((3, 6, 40, 100))):
                if piece * 2 * block > 4 * self._most:
                    break
                os.pwrite(file.fileno(), self._bytes(block // 2), 2 * piece * block)

    def _flags(self) -> None:
        for flag in self._chance.sample(HARMLESS_FLAGS, 3):
            path = self._new(" flags")
            path.mkdir() if flag >= 0x4000 else path.touch()
            _change_flags(path, flag)

    def _projects(self) -> None:
        path = self._file(self._bytes(500), " project")
        descriptor = os.open(path, os.O_RDONLY)
        try:
            words = bytearray(fcntl.ioctl(descriptor, FS_IOC_FSGETXATTR, bytes(28)))
            struct.pack_into("<I", words, 12, self._chance.randrange(1, 1 << 31))
            fcntl.ioctl(descriptor, FS_IOC_FSSETXATTR, bytes(words))
        finally:
            os.close(descriptor)

    def _grown(self) -> None:
        """Files that become longer and shorter after they were made."""
        for path in self._chance.sample(self.files, min(4, len(self.files))):
            with path.open("ab") as file:
                file.write(self._bytes(self._chance.choice((1, 50, 100, self.block_size))))
            if self._chance.random() < 0.3:
                truncate(path, self._chance.randrange(1000))


def _change_flags(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        (now,) = struct.unpack("<q", fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, bytes(8)))
        fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("<q", now | flags))
    finally:
        os.close(descriptor)
