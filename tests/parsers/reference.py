"""Real images for the parser tests, and what e2fsprogs and the kernel say of them."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from ext4kit.parsers.checksums import ONES, crc32c
from tests import cases
from tests.environment import missing
from tests.environment.kernel import missing_for_kernel


def run(*command: str | Path, accept: Sequence[int] = (0,)) -> str:
    """The command's standard output; a test error when it exits otherwise than accepted."""
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    if done.returncode not in accept:
        raise AssertionError(f"{command}: exit {done.returncode}: {done.stderr!r}")
    return done.stdout.decode("utf-8", "surrogateescape")


def needs_tools(*names: str) -> None:
    """Skip the test when a program of e2fsprogs is not installed."""
    if reason := missing(*names):
        pytest.skip(reason)


@dataclass(frozen=True)
class Image:
    """An image file whose places are found by debugfs, not by the code under test."""

    path: Path

    def debugfs(self, *requests: str, write: bool = False) -> str:
        """The output of debugfs for the requests, in order, without their echo."""
        script = self.path.with_suffix(".requests")
        script.write_text("".join(f"{request}\n" for request in requests))
        options = ["-w"] if write else []
        text = run("debugfs", *options, "-f", script, self.path)
        return "".join(
            line for line in text.splitlines(keepends=True) if not line.startswith("debugfs: ")
        )

    @cached_property
    def header(self) -> dict[str, str]:
        """`dumpe2fs -h` as field -> value."""
        pairs = (line.split(":", 1) for line in run("dumpe2fs", "-h", self.path).splitlines())
        return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}

    @property
    def block_size(self) -> int:
        """Bytes."""
        return int(self.header["Block size"])

    @property
    def seed(self) -> int:
        """The checksum seed of the file system (of one without metadata_csum_seed)."""
        return crc32c(ONES, uuid.UUID(self.header["Filesystem UUID"]).bytes)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the image."""
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def write(self, offset: int, data: bytes) -> None:
        """Change bytes of the image."""
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def block(self, number: int) -> bytes:
        """One block of the file system."""
        return self.read(number * self.block_size, self.block_size)

    def inode_offset(self, target: str) -> int:
        """Byte offset of an inode in the image."""
        found = re.search(r"block (\d+), offset 0x([0-9a-f]+)", self.debugfs(f"imap {target}"))
        assert found is not None
        return int(found[1]) * self.block_size + int(found[2], 16)

    def inode_raw(self, target: str) -> bytes:
        """The bytes of an inode."""
        return self.read(self.inode_offset(target), int(self.header["Inode size"]))

    def stat(self, target: str, pattern: str) -> int:
        """A decimal number in what debugfs `stat` prints, by a pattern with one group."""
        found = re.search(pattern, self.debugfs(f"stat {target}"))
        assert found is not None, pattern
        return int(found[1])

    def inode_seed(self, target: str) -> int:
        """The checksum seed of an inode."""
        register = crc32c(self.seed, self.stat(target, r"Inode: (\d+)").to_bytes(4, "little"))
        return crc32c(register, self.stat(target, r"Generation: (\d+)").to_bytes(4, "little"))

    def data_blocks(self, target: str) -> list[int]:
        """The data blocks of a file in their order (indirect and extent blocks left out)."""
        return [int(word) for word in self._block_words(target)]

    def _block_words(self, target: str) -> Iterator[str]:
        size = self.stat(target, r"Size: (\d+)")
        count = -(-size // self.block_size)
        yield from self.debugfs(*(f"bmap {target} {at}" for at in range(count))).split()

    def extra_isize(self, target: str) -> int:
        """Bytes of extra inode fields; inodes of 128 bytes have none."""
        if self.header["Inode size"] == "128":
            return 0
        return self.stat(target, r"Size of extra inode fields: (\d+)")

    def acl_block(self, target: str) -> bytes | None:
        """The attribute block of an inode."""
        number = self.stat(target, r"File ACL: (\d+)")
        return self.block(number) if number else None

    def check(self) -> int:
        """The exit code of `e2fsck -fn`: 0 for a clean file system."""
        return subprocess.run(
            ["e2fsck", "-fn", self.path], capture_output=True, check=False
        ).returncode


def make_image(folder: Path, megabytes: int, *options: str) -> Image:
    """A new ext4 image, filled from `folder/tree` where that exists."""
    needs_tools("mke2fs", "debugfs", "dumpe2fs", "e2fsck")
    path = folder / "fs.img"
    tree = folder / "tree"
    filling = ["-d", str(tree)] if tree.is_dir() else []
    run("mke2fs", "-q", "-F", "-t", "ext4", *options, *filling, path, f"{megabytes}M")
    return Image(path)


@contextmanager
def mounted(image: Image, mountpoint: Path) -> Iterator[Path]:
    """The image mounted by the kernel; skips the test where that is not possible."""
    if reason := missing_for_kernel():
        pytest.skip(reason)
    mountpoint.mkdir(exist_ok=True)
    command = ["mount", "-o", "loop", str(image.path), str(mountpoint)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the kernel does not mount it: {done.stderr.decode().strip()}")
    try:
        yield mountpoint
    finally:
        subprocess.run(["umount", mountpoint], check=True)


def e2fsprogs_case(name: str, folder: Path) -> Image:
    """An image of e2fsprogs' own tests; skips the test where they are not at hand."""
    if not cases.records():
        pytest.skip(cases.MISSING)
    if name not in {record["name"] for record in cases.records()}:
        pytest.skip(f"{name} is not among e2fsprogs' cases of that version")
    cases.unpack(folder, [f"images/{name}.img"])
    return Image(folder / "images" / f"{name}.img")
