"""A file of which some bytes cannot be read: the kernel itself says EIO for them.

`python failing_disk.py IMAGE FOLDER RANGES` mounts a FUSE file system with one file on FOLDER: the
name and the bytes of IMAGE, but for the RANGES (JSON: [[first byte, end], ...]). A request with a
byte of one of them fails as a whole, as on a disk with bad sectors. It ends when it is unmounted.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The protocol: include/uapi/linux/fuse.h
LOOKUP, FORGET, GETATTR, OPEN, READ = 1, 2, 3, 14, 15
RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 18, 25, 26, 36, 42
OPENDIR, READDIR, RELEASEDIR = 27, 28, 29
HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
ANSWER = struct.Struct("<IiQ")  # length, error, unique
ATTRIBUTES = struct.Struct("<6Q10I")
ROOT, FILE = 1, 2
BUFFER = 1 << 21
READ_ONLY = 1  # MS_RDONLY


def missing() -> str:
    """Why this cannot be done here; "" when it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"needs /dev/fuse: {error.strerror}"
    return ""


@contextmanager
def failing_disk(image: Path, folder: Path, bad: list[tuple[int, int]]) -> Iterator[Path]:
    """The bytes of an image as a file below `folder` that fails for these (first byte, end)."""
    folder.mkdir()
    command = [sys.executable, __file__, str(image), str(folder), json.dumps(bad)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"mounted\n"
            yield folder / image.name
        finally:
            subprocess.run(["umount", folder], check=True)
            server.wait(10)


class Server:
    """Answers the kernel's requests."""

    def __init__(self, image: Path, bad: list[list[int]]) -> None:
        self.image, self.name, self.bad = os.open(image, os.O_RDONLY), os.fsencode(image.name), bad
        self.size = os.fstat(self.image).st_size

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """The answer to a request; OSError for the kernel to pass on."""
        if opcode == INIT:
            return struct.pack("<IIIIHHIIHH32x", 7, 31, 1 << 17, 0, 8, 6, 4096, 1, 0, 0)
        if opcode == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + self.attributes(node)
        if opcode == LOOKUP and body.rstrip(b"\0") == self.name:
            return struct.pack("<QQQQII", FILE, 0, 60, 60, 0, 0) + self.attributes(FILE)
        if opcode == READDIR:
            return self.entries(*struct.unpack_from("<Q", body, 8))
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if opcode == READ:
            return self.read(*struct.unpack_from("<QI", body, 8))
        if opcode in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        raise OSError(errno.ENOENT if opcode == LOOKUP else errno.ENOSYS, "")

    def attributes(self, node: int) -> bytes:
        """What stat says of the folder or the file."""
        mode, size = (
            (stat.S_IFDIR | 0o755, 0) if node == ROOT else (stat.S_IFREG | 0o444, self.size)
        )
        return ATTRIBUTES.pack(
            node, size, -(-size // 512), 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )

    def entries(self, offset: int) -> bytes:
        """The one entry of the folder, and none behind it."""
        if offset:
            return b""
        entry = struct.pack("<QQII", FILE, 1, len(self.name), stat.S_IFREG >> 12) + self.name
        return entry + bytes(-len(entry) % 8)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file, all that are wanted or none."""
        if any(start < offset + length and offset < end for start, end in self.bad):
            raise OSError(errno.EIO, "")
        return os.pread(self.image, length, offset)

    def run(self, device: int) -> None:
        """Answer until the file system is unmounted."""
        while True:
            try:
                request = os.read(device, BUFFER)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                raise
            _, opcode, unique, node, *_ = HEADER.unpack_from(request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            failure, body = 0, b""
            try:
                body = self.answer(opcode, node, request[HEADER.size :])
            except OSError as error:
                failure = -(error.errno or errno.EIO)
            os.write(device, ANSWER.pack(ANSWER.size + len(body), failure, unique) + body)


def mount(device: int, folder: str, flags: int) -> None:
    """Mount what the handle of /dev/fuse serves."""
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    call = ctypes.CDLL(None, use_errno=True).mount
    call.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
    if call(b"failing", folder.encode(), b"fuse.failing", flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def main() -> None:
    """Mount, say so, serve."""
    image, folder, bad = sys.argv[1:]
    server, device = Server(Path(image), json.loads(bad)), os.open("/dev/fuse", os.O_RDWR)
    mount(device, folder, READ_ONLY)
    sys.stdout.write("mounted\n")
    sys.stdout.flush()
    server.run(device)


if __name__ == "__main__":
    main()
