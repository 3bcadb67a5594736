"""The structures of C that libfuse 3 takes: attributes, and buffers that it frees."""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import Any

import numpy as np

from ext4kit.mount.attributes import Stats

_IS_FD = 2 | 4  # FUSE_BUF_IS_FD, FUSE_BUF_FD_SEEK (libfuse include/fuse_common.h)
_BUFFERS = 192  # bytes of a `fuse_bufvec` with one buffer, in any version
_PLAIN = ("ino", "mode", "uid", "gid", "size", "blocks")
_C_NAMES = {"links": "st_nlink", "device": "st_rdev", "block_size": "st_blksize"}


def c_stats(stats: Stats, layout: np.dtype[np.void]) -> Any:
    """Rows of attributes as an array of `struct stat`."""
    found = np.zeros(len(stats), layout)
    for name in _PLAIN:
        found[f"st_{name}"] = stats[name]
    for name, c_name in _C_NAMES.items():
        found[c_name] = stats[name]
    for name in ("atime", "mtime", "ctime"):
        found[f"st_{name}spec"]["tv_sec"] = stats[f"{name}_seconds"]
        found[f"st_{name}spec"]["tv_nsec"] = stats[f"{name}_ns"]
    return found


class Buffers:
    """Buffers that libfuse frees (`fuse_bufvec` in its include/fuse_common.h)."""

    def __init__(self) -> None:
        self._allocate = ctypes.CDLL(None).malloc
        self._allocate.restype, self._allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

    def of_place(self, descriptor: int, offset: int, size: int) -> int:
        """A range of an open file."""
        return self._packed(size, _IS_FD, 0, descriptor, offset)

    def of_bytes(self, data: bytes | bytearray) -> int:
        """Bytes in memory."""
        copy = self._new(max(len(data), 1))
        ctypes.memmove(copy, bytes(data), len(data))
        return self._packed(len(data), 0, copy, -1, 0)

    def _packed(self, size: int, flags: int, memory: int, descriptor: int, offset: int) -> int:
        fields = struct.pack("@NNNNiPiq", 1, 0, 0, size, flags, memory, descriptor, offset)
        place = self._new(_BUFFERS)
        ctypes.memmove(place, fields.ljust(_BUFFERS, b"\0"), _BUFFERS)
        return place

    def _new(self, size: int) -> int:
        found = self._allocate(size)
        if not found:
            raise OSError(errno.ENOMEM, "out of memory")
        return int(found)
