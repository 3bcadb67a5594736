"""Mounts that may write to the evidence while it is read (only known on Linux).

Sources: kernel Documentation/filesystems/proc.rst (`mountinfo`) and Documentation/ABI, sysfs-block.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_SYSFS, _MOUNTS = Path("/sys/dev/block"), Path("/proc/self/mountinfo")
_OCTAL = re.compile(rb"\\([0-7]{3})")  # blanks are written in this form


def writable_mounts(path: Path) -> list[bytes]:
    """The places at which a device, or an image through a loop device, is mounted read-write.

    Partitions of the device and devices over it (device mapper, md) count as well.

    Args:
        path: an opened image or device.
    """
    try:
        devices = set(_devices_over(path))
        lines = _MOUNTS.read_bytes().splitlines() if devices else []
    except OSError:
        return []
    found = []
    for line in lines:
        fields, _, file_system = line.partition(b" - ")
        device, place = fields.split()[2], fields.split()[4]
        if device in devices and b"rw" in file_system.split()[2].split(b","):
            found.append(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), place))
    return sorted(set(found))


def _devices_over(path: Path) -> Iterator[bytes]:
    """`major:minor` of the device or of loop devices on the file, and of all devices on top."""
    status = path.stat()
    if stat.S_ISBLK(status.st_mode):
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        waiting = [(_SYSFS / number).resolve()]
    else:
        backing = os.fsencode(path.resolve())
        loops = Path("/sys/block").glob("loop*/loop/backing_file")
        waiting = [loop.parents[1] for loop in loops if loop.read_bytes().rstrip(b"\n") == backing]
    while waiting:
        node = waiting.pop().resolve()
        yield (node / "dev").read_bytes().strip()
        waiting += [part.parent for part in node.glob("*/partition")]
        waiting += list(node.glob("holders/*"))
