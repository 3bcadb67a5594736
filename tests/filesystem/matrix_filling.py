"""Files of every kind that a file system's format tells apart, made through the kernel.

Each function fills one folder that it makes below `root`. Contents follow from names, so two
runs make the same bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import stat
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from ext4kit.units import NANOSECONDS
from sample_images.recipes.machine import sync, truncate

FS_IOC_ADD_ENCRYPTION_KEY = 0xC0506617  # include/uapi/linux/fscrypt.h
FS_IOC_SET_ENCRYPTION_POLICY = 0x800C6613
EXT4_IOC_SHUTDOWN = 0x8004587D  # fs/ext4/ext4.h
STRANGE_NAMES = (
    b"n" * 255,
    b"latin-\xe9\xff\xfe",
    b"line\nbreak",
    b"tab\tand\rreturn",
    b"[bold red]markup[blink]",
    b"\x1b[31mred\x1b[0m\x07",
    b"quote\"'`$(id)\\",
    b" leading and trailing ",
    b"...",
    b"-rf",
    "\u202etxt.exe".encode(),
    "na\u00efve \U0001f600".encode(),
    b"%41%2f",
)


def data(name: str, size: int) -> bytes:
    """`size` bytes that follow from `name`, none of them zero at the ends."""
    return random.Random(name).randbytes(size)


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder


def _write_at(path: Path, pieces: Iterable[tuple[int, bytes]]) -> None:
    with path.open("wb") as file:
        for offset, piece in pieces:
            os.pwrite(file.fileno(), piece, offset)


def sizes(root: Path) -> None:
    """Plain files around the sizes where inline data and blocks begin and end."""
    folder = _folder(root, "sizes")
    around = (0, 1, 10, 59, 60, 61, 80, 100, 120, 135, 136, 150, 160, 200, 700)
    for size in (*around, 1023, 1024, 1025, 4095, 4096, 4097, 65_536, 300_001, 3_145_745):
        (folder / f"{size}").write_bytes(data(f"sizes {size}", size))


def sparse(root: Path) -> None:
    """Holes at the start, in the middle, at the end; nothing but a hole; one byte of data."""
    folder = _folder(root, "sparse")
    piece = data("sparse", 9000)
    _write_at(folder / "start", [(1 << 20, piece)])
    _write_at(folder / "middle", [(0, piece), (2 << 20, piece)])
    _write_at(folder / "end", [(0, piece)])
    truncate(folder / "end", 1_234_567)
    (folder / "only").touch()
    truncate(folder / "only", 777_777)
    _write_at(folder / "last byte", [(5_000_000, b"x")])
    _write_at(folder / "alternating", [(n * 50_000, piece) for n in range(0, 40, 2)])


def preallocated(root: Path) -> None:
    """Unwritten extents: all of a file, its middle, behind its end, and half overwritten."""
    folder = _folder(root, "preallocated")
    for name, options in (("all", ["-l", "200000"]), ("behind", ["-n", "-l", "300000"])):
        (folder / name).write_bytes(b"")
        subprocess.run(["fallocate", *options, str(folder / name)], check=True)
    for name in ("punched", "zeroed", "overwritten"):
        (folder / name).write_bytes(data(name, 400_000))
    place = ["-o", "102400", "-l", "100000"]
    subprocess.run(["fallocate", "-p", *place, str(folder / "punched")], check=True)
    subprocess.run(["fallocate", "-z", *place, str(folder / "zeroed")], check=True)
    with (folder / "all").open("r+b") as file:
        os.pwrite(file.fileno(), data("written part", 30_000), 80_000)


def fragmented(root: Path, block_size: int, pieces: int) -> None:
    """One file with `pieces` blocks of data, each with a block of hole behind it."""
    folder = _folder(root, "fragmented")
    blocks = data("fragmented", block_size * pieces)
    parts = (blocks[n * block_size : (n + 1) * block_size] for n in range(pieces))
    _write_at(folder / "file", ((2 * n * block_size, part) for n, part in enumerate(parts)))


def mapped_levels(root: Path, block_size: int) -> None:
    """Data behind direct, single, double and triple indirect blocks, one file for each."""
    folder = _folder(root, "levels")
    pointers = block_size // 4
    ends = (12, 12 + pointers, 12 + pointers + pointers**2)
    for level, end in enumerate(ends, 1):
        around = ((end - 1) * block_size, end * block_size, (end + 3) * block_size)
        piece = data(f"level {level}", block_size)
        _write_at(folder / f"level {level}", [(offset, piece) for offset in around])
    contiguous = data("contiguous", (12 + 3 * pointers // 2) * block_size)
    (folder / "contiguous").write_bytes(contiguous)


def far(root: Path, offset: int) -> None:
    """A file with a little data at its start and a little at a huge offset."""
    folder = _folder(root, "far")
    piece = data("far", 5000)
    _write_at(folder / "file", [(0, piece), (offset, piece), (offset + (1 << 16), piece)])


def links(root: Path, longest: int) -> None:
    """Fast and slow symbolic links up to `longest` bytes of target, and hard links."""
    folder = _folder(root, "links")
    for size in (1, 4, 58, 59, 60, 61, 100, 150, 155, 1000, longest):
        if size <= longest:
            (folder / f"symlink {size}").symlink_to("t" * size)
    (folder / "strange").symlink_to(os.fsdecode(b"../names/\xff\xfe\nx"))
    (folder / "root").symlink_to("/")
    first = folder / "first"
    first.write_bytes(data("hard", 5000))
    for number in range(5):
        (folder / f"hard {number}").hardlink_to(first)


def special(root: Path) -> None:
    """Devices with old and with wide numbers, a fifo and a socket."""
    folder = _folder(root, "special")
    for name, major, minor in (("old", 8, 17), ("wide", 300, 70_000), ("zero", 0, 0)):
        device = os.makedev(major, minor)
        os.mknod(folder / f"char {name}", stat.S_IFCHR | 0o620, device)
        if name != "zero":
            os.mknod(folder / f"block {name}", stat.S_IFBLK | 0o660, device)
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as endpoint:
        here = os.open(folder, os.O_RDONLY)
        try:
            endpoint.bind(f"/proc/self/fd/{here}/socket")
        finally:
            os.close(here)


def owners(root: Path) -> None:
    """Owners above 16 bits and every kind of mode."""
    folder = _folder(root, "owners")
    modes = (0o4755, 0o2755, 0o1777, 0o7777, 0o000, 0o640)
    for number, mode in enumerate(modes):
        path = folder / f"{mode:04o}"
        path.write_bytes(b"#!/bin/sh\n")
        os.chown(path, (0, 1000, 65_534, 65_536, 100_000, 0xFFFFFFF0)[number], 70_000 * number)
        path.chmod(mode)
    (folder / "sticky").mkdir()
    (folder / "sticky").chmod(0o1777)


def names(root: Path) -> None:
    """Names that are long, hostile or not UTF-8, as files and as folders."""
    folder = _folder(root, "names")
    for name in STRANGE_NAMES:
        (folder / os.fsdecode(name)).write_bytes(name)
    inner = folder / os.fsdecode(b"folder \xff\n")
    inner.mkdir()
    (inner / "inside").write_bytes(b"inside")
    deep = folder
    for level in range(20):
        deep = deep / f"level {level}"
        deep.mkdir()
    (deep / "bottom").write_bytes(b"bottom")


def times(root: Path) -> None:
    """Times before 1970, after 2038, at each epoch's border, with nanoseconds."""
    folder = _folder(root, "times")
    moments = (0, 1, 2**31 - 1, 2**31, 2**32, 3 * 2**32 + 2**31 - 1, -1, -(2**31))
    for number, seconds in enumerate((*moments, 1_700_000_000, 15_032_385_534)):
        path = folder / f"{number}"
        path.touch()
        nanoseconds = (0, 1, 999_999_999, 123_456_789)[number % 4]
        os.utime(path, ns=(seconds * NANOSECONDS + nanoseconds, seconds * NANOSECONDS))


def directories(root: Path, entries: int, pattern: str = "{:06d}") -> None:
    """A big directory of hard links to one file, one with removed names, and an empty one."""
    folder = _folder(root, "directories")
    for name in ("big", "gaps", "empty"):
        (folder / name).mkdir()
    (folder / "one").write_bytes(b"one")
    first = os.fsencode(folder / "one")
    base = os.fsencode(folder / "big")
    for number in range(entries):
        name = pattern.format(number) + "y" * (number * 7 % 90)
        os.link(first, base + b"/" + name.encode())
    for number in range(60):
        (folder / "gaps" / f"name {number} {'g' * number}").touch()
    for number in range(0, 60, 3):
        (folder / "gaps" / f"name {number} {'g' * number}").unlink()


def xattrs(root: Path, block_size: int) -> None:
    """Attributes in the inode, in a block, shared between files, in every namespace."""
    folder = _folder(root, "xattrs")
    for name in ("small", "many", "block", "empty value", "shared 1", "shared 2", "folder"):
        path = folder / name
        path.mkdir() if name == "folder" else path.write_bytes(data(name, 100))
    for name in ("small", "folder"):
        os.setxattr(folder / name, "user.small", b"a small value\0with a zero")
    for number in range(20):
        os.setxattr(folder / "many", f"user.n{number:02d}", data(f"many {number}", number))
    os.setxattr(folder / "block", "user.large", data("large", block_size * 5 // 8))
    os.setxattr(folder / "block", "trusted.overlay.opaque", b"y")
    os.setxattr(folder / "block", "security.selinux", b"system_u:object_r:etc_t:s0\0")
    os.setxattr(
        folder / "block", "security.capability", bytes.fromhex("0100000200000004" + "0" * 24)
    )
    os.setxattr(folder / "empty value", "user.empty", b"")
    os.setxattr(folder / "empty value", b"user.\xff\xfe name", b"strange")
    for name in ("shared 1", "shared 2"):
        os.setxattr(folder / name, "user.shared", data("shared", block_size // 2))
    (folder / "symlink").symlink_to("nowhere")
    os.setxattr(folder / "symlink", "trusted.link", b"on a link", follow_symlinks=False)


def large_values(root: Path) -> None:
    """Attribute values with inodes of their own (ea_inode), two of them equal."""
    folder = _folder(root, "large values")
    for number in range(2):
        path = folder / f"{number}"
        path.write_bytes(b"x")
        os.setxattr(path, "user.same", data("same", 20_000))
        os.setxattr(path, "user.own", data(f"own {number}", 60_000))
        os.setxattr(path, "user.small", b"small")


def acls(root: Path) -> None:
    """POSIX ACLs of every tag, as access and as default ACL."""
    folder = _folder(root, "acls")
    (folder / "file").write_bytes(b"acl")
    (folder / "folder").mkdir()
    entries = "u:1000:rwx,u:100000:r--,g:2000:-wx,m::rw-"
    subprocess.run(["setfacl", "-m", entries, "file", "folder"], cwd=folder, check=True)
    subprocess.run(["setfacl", "-d", "-m", "u:7:r-x,g::r--", "folder"], cwd=folder, check=True)
    (folder / "folder" / "inherits").write_bytes(b"inherits")


def flags(root: Path) -> None:
    """Inode flags that chattr sets and that do not keep the tree from being read."""
    folder = _folder(root, "flags")
    for letter in "adsuAS":
        path = folder / letter
        path.touch()
        subprocess.run(["chattr", f"+{letter}", str(path)], check=True)
    subprocess.run(["chattr", "+DT", str(folder)], check=True)


def encrypted(root: Path) -> None:
    """A folder under a v2 encryption policy; reading it later works without the key."""
    folder = _folder(root, "encrypted")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        key = bytes(range(64))
        request = bytearray(struct.pack("<II32sII32s", 2, 0, b"", len(key), 0, b"") + key)
        try:
            fcntl.ioctl(descriptor, FS_IOC_ADD_ENCRYPTION_KEY, request)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            pytest.skip("the kernel encrypts no files")
        policy = struct.pack("<BBBB4s16s", 2, 1, 4, 3, b"", bytes(request[8:24]))
        fcntl.ioctl(descriptor, FS_IOC_SET_ENCRYPTION_POLICY, policy)
    finally:
        os.close(descriptor)
    for size in (0, 10, 5000, 100_000):
        (folder / f"file {size}").write_bytes(data("encrypted", size))
    (folder / "folder").mkdir()
    (folder / "folder" / "inside").write_bytes(b"inside")
    (folder / "symlink").symlink_to("a target")


def _shut_down(root: Path, flags: int) -> None:
    """Stop every further write; flag 1 commits the log before, 2 leaves it as it is."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("<I", flags))
    finally:
        os.close(descriptor)


def cut_power(root: Path) -> None:
    """Commit the log and stop every further write: the unmount leaves a log to replay."""
    sync(root)
    for number in range(60):
        (root / f"late {number}").write_bytes(data(f"late {number}", 3000 * number))
    (root / "sizes" / "10").unlink()
    (root / "sizes" / "300001").write_bytes(data("late", 123_456))
    (root / "late 7").rename(root / "renamed")
    _shut_down(root, 1)


def cut_fast_commits(root: Path) -> None:
    """Leave a log that ends in fast commits: new, changed, renamed and removed files."""
    sync(root)
    for number in range(10):
        path = root / f"fast {number}"
        path.write_bytes(data(f"fast {number}", 5000 * number))
        if number % 3 == 1:
            path = path.rename(root / f"renamed {number}")
        if number % 3 == 2:
            (root / "sizes" / f"{(59, 60, 61)[number // 3]}").unlink()
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    _shut_down(root, 2)
