"""A disk that writes down everything that is written to it, and every flush.

`python -m tests.powercut.recording_disk IMAGE FOLDER LOG` mounts a FUSE file system with one file
on FOLDER: the name and the bytes of IMAGE, to be put under a loop device. It keeps no cache: each
write that the block layer sends arrives once, as it was sent, and a flush arrives as FSYNC. A loop
device offers no FUA, so the block layer makes a write and a flush behind it of each. IMAGE itself
is not written. When it is unmounted all of it goes to LOG.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sample_images.recipes import machine
from tests.environment import ROOT as PROJECT
from tests.evidence.failing_disk import ATTRIBUTES, INIT, OPEN, ROOT, Server, mount

WRITE, FSYNC, FALLOCATE = 16, 20, 43
DIRECT_IO = 1  # of an open file: nothing of it is cached
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22
LONGEST = 1 << 20  # bytes of one write
FALLOCATE_MODES = 0x02, 0x10, 0x03, 0x11  # punch a hole, zero a range; both may keep the size
RECORD = struct.Struct("<QqQ")  # time in ns, offset or FLUSH, bytes that follow
FLUSH = -1


class Recorder(Server):
    """Answers the kernel's requests from memory and writes down what changes."""

    def __init__(self, image: Path) -> None:
        super().__init__(image, [])
        self.data = bytearray(image.read_bytes())
        self.log: list[tuple[int, int, bytes]] = []

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """The answer to a request; OSError for the kernel to pass on."""
        if opcode == WRITE:
            _, offset, length = struct.unpack_from("<QQI", body)
            self.write(offset, body[40 : 40 + length])
            return struct.pack("<II", length, 0)
        if opcode == FSYNC:
            self.log.append((time.time_ns(), FLUSH, b""))
            return b""
        if opcode == FALLOCATE:
            _, offset, length, mode = struct.unpack_from("<QQQI", body)
            if mode not in FALLOCATE_MODES:
                raise OSError(errno.EOPNOTSUPP, "")
            self.write(offset, bytes(length))
            return b""
        if opcode == INIT:
            flags = BIG_WRITES | MAX_PAGES
            pages = LONGEST >> 12
            words = 7, 31, 1 << 17, flags, 8, 6, LONGEST, 1, pages, 0
            return struct.pack("<IIIIHHIIHH32x", *words)
        if opcode == OPEN:
            return struct.pack("<QII", 0, DIRECT_IO, 0)
        return super().answer(opcode, node, body)

    def write(self, offset: int, data: bytes) -> None:
        """Bytes that the disk has from now on."""
        self.log.append((time.time_ns(), offset, data))
        self.data[offset : offset + len(data)] = data

    def read(self, offset: int, length: int) -> bytes:
        """Bytes as they were written last."""
        return bytes(self.data[offset : offset + length])

    def attributes(self, node: int) -> bytes:
        """What stat says of the folder or the file."""
        if node == ROOT:
            return super().attributes(node)
        words = [node, self.size, -(-self.size // 512), *[0] * 6, stat.S_IFREG | 0o644, 1]
        return ATTRIBUTES.pack(*words, 0, 0, 0, 4096, 0)

    def save(self, path: Path) -> None:
        """Write the log, oldest first."""
        with path.open("xb") as file:
            for moment, offset, data in self.log:
                file.write(RECORD.pack(moment, offset, len(data)) + data)


@contextmanager
def recording_disk(image: Path, folder: Path, log: Path) -> Iterator[Path]:
    """A loop device with the bytes of an image; afterwards the log of its writes is in a file."""
    folder.mkdir()
    command = [sys.executable, "-m", __name__, str(image), str(folder), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"mounted\n"
        try:
            with machine.loop_device(folder / image.name) as device:
                yield device
        finally:
            machine.run("umount", folder)
            server.wait(60)
    folder.rmdir()


def main() -> None:
    """Mount, say so, serve, save."""
    image, folder, log = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for it ends it by unmounting
    server, device = Recorder(Path(image)), os.open("/dev/fuse", os.O_RDWR)
    mount(device, folder, 0)
    sys.stdout.write("mounted\n")
    sys.stdout.flush()
    server.run(device)
    server.save(Path(log))


if __name__ == "__main__":
    main()
