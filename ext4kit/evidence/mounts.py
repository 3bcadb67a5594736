"""Mounts of the evidence: those that write to it, and what lies on it (only known on Linux).

Sources: kernel Documentation/filesystems/proc.rst (`mountinfo`) and Documentation/ABI, sysfs-block.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SYSFS, _MOUNTS = Path("/sys/dev/block"), Path("/proc/self/mountinfo")
_LOOP_STATUS, _LOOP_BYTES = 0x4C05, 232  # LOOP_GET_STATUS64
_OCTAL = re.compile(rb"\\([0-7]{3})")  # blanks are written in this form


def writable_mounts(path: Path) -> list[bytes]:
    """The places at which a device, or an image through a loop device, is mounted read-write.

    Partitions of the device and devices over it (device mapper, md) count as well.

    Args:
        path: an opened image or device.
    """
    try:
        devices = set(_devices_over(path))
        mounts = list(_mounts()) if devices else []
    except OSError:
        return []
    found = {one.place for one in mounts if one.device in devices and b"rw" in one.options}
    return sorted(found)


def storage_of(path: Path) -> str:
    """The server or device that has a file, such as "nas1" or "sda1"; "" if it is not known."""
    best = _Mount(b"", b"", b"")
    with suppress(OSError):
        above = {os.fsencode(each) for each in (path.resolve(), *path.resolve().parents)}
        for one in _mounts():
            if one.place in above and len(one.place) >= len(best.place):
                best = one
    server, colon, _ = best.source.partition(b":")
    name = server if colon else best.source.strip(b"/").rpartition(b"/")[2]
    return os.fsdecode(name)


class _Mount(NamedTuple):
    """A mount.

    Attributes:
        device: `major:minor` of its file system.
        place: path of the folder.
        source: a device, or a server and its folder.
        options: those of the file system.
    """

    device: bytes
    place: bytes
    source: bytes
    options: Sequence[bytes] = ()


def _mounts() -> Iterator[_Mount]:
    """The table of mounts; a later one may hide an earlier one.

    Raises:
        OSError: it cannot be read.
    """
    for line in _MOUNTS.read_bytes().splitlines():
        fields, _, file_system = line.partition(b" - ")
        device, place = fields.split()[2], fields.split()[4]
        _, source, options = file_system.split(b" ")[:3]  # the source can be empty
        yield _Mount(device, _unescaped(place), _unescaped(source), options.split(b","))


def _unescaped(name: bytes) -> bytes:
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), name)


def _devices_over(path: Path) -> Iterator[bytes]:
    """`major:minor` of the device or of loop devices on the file, and of all devices on top."""
    status = path.stat()
    if stat.S_ISBLK(status.st_mode):
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        waiting = [(_SYSFS / number).resolve()]
    else:
        loops = (loop.parent for loop in Path("/sys/block").glob("loop*/loop"))
        waiting = [loop for loop in loops if _is_loop_over(loop, {identity_of(status)})]
    while waiting:
        node = waiting.pop().resolve()
        yield (node / "dev").read_bytes().strip()
        waiting += [part.parent for part in node.glob("*/partition")]
        waiting += list(node.glob("holders/*"))


def existing(path: Path) -> Path:
    """A folder, or the nearest of its parents that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def lies_on(out: Path, files: tuple[Path, ...]) -> bool:
    """Whether the folder's file system is on the evidence: a device, or a loop over an image.

    An image is known by its device and inode, whatever its name is.

    Raises:
        OSError: one of them cannot be examined.
    """
    if not hasattr(os, "major"):
        return False
    device = existing(out).stat().st_dev
    facts = [path.stat() for path in files]
    identities = {identity_of(each) for each in facts}
    numbers = {each.st_rdev for each in facts if stat.S_ISBLK(each.st_mode)}
    start = _SYSFS / f"{os.major(device)}:{os.minor(device)}"
    return any(
        _is_loop_over(node, identities) or _number(node) in numbers for node in _stack(start)
    )


def identity_of(facts: os.stat_result) -> tuple[int, int]:
    """What a file keeps under any name: its device and inode."""
    return facts.st_dev, facts.st_ino


def _is_loop_over(node: Path, identities: set[tuple[int, int]]) -> bool:
    """Whether a node of sysfs is a loop device over one of these files."""
    backing = node / "loop" / "backing_file"
    if not backing.exists():
        return False
    with suppress(OSError, ImportError):  # not root, or no such device in this container
        if _loop_file(Path("/dev") / node.name) in identities:
            return True
    with suppress(OSError):
        path = Path(os.fsdecode(backing.read_bytes().rstrip(b"\n")))
        return identity_of(path.stat()) in identities
    return False


def _loop_file(device: Path) -> tuple[int, int]:
    """Device and inode of the file below a loop device (struct loop_info64, linux/loop.h)."""
    import fcntl

    handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        raw = fcntl.ioctl(handle, _LOOP_STATUS, bytes(_LOOP_BYTES))
    finally:
        os.close(handle)
    number, inode = struct.unpack_from("=QQ", raw)
    return number, inode


def _stack(start: Path) -> Iterator[Path]:
    """A block device's node in sysfs, the disk of a partition, and the devices below both."""
    waiting, seen = [start.resolve()] if start.exists() else [], set()
    while waiting:
        node = waiting.pop()
        if node in seen or not (node / "dev").exists():
            continue
        seen.add(node)
        yield node
        waiting.append(node.parent)
        below = node / "slaves"
        waiting += [link.resolve() for link in below.iterdir()] if below.exists() else []


def _number(node: Path) -> int:
    major, minor = (node / "dev").read_bytes().split(b":")
    return os.makedev(int(major), int(minor))
