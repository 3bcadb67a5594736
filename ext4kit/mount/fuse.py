"""A read-only mount with libfuse 3, through `mfusepy`; nothing else knows either of them.

The calls of `mfusepy` are replaced by ones that take paths as bytes, give a directory with the
attributes of its entries (`FUSE_READDIRPLUS`), and give the place of a range in the image instead
of its bytes, so that they are copied by libfuse.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from ext4kit.errors import AccessError, UnsupportedError
from ext4kit.evidence.containers.extras import extra
from ext4kit.evidence.temporary import temporary_file
from ext4kit.mount.listing import FolderListing
from ext4kit.mount.operations import Operations
from ext4kit.mount.structs import Buffers, c_stats
from ext4kit.signals import take_signals

_DEVICE = Path("/dev/fuse")
_TOOL = "fusermount3"
_INSTALL = "on Debian and Ubuntu: apt install fuse3"
_FOREVER = 1e6  # seconds for which the kernel keeps names and attributes: nothing changes
_PLUS = 2  # FUSE_FILL_DIR_PLUS (libfuse include/fuse.h)
_SPLICE = 1 << 7  # FUSE_CAP_SPLICE_WRITE; a move would take pages out of the image's cache
_READ_AHEAD = 512 << 10  # bytes; answers of a mebibyte no longer fit the pipe of a splice
_DETACH = 2  # MNT_DETACH
_THREADS = 8
_NOISE = "Ignoring invalid max threads"  # of libfuse 3.12 to 3.14
_PATIENCE = 3.0  # seconds for calls that still run when the mount ends

_DOTS = (b".", b"..")
_ROWS_AT_ONCE = 1 << 6
_FILL = ctypes.CFUNCTYPE(  # `fuse_fill_dir_t`, with addresses instead of pointers
    ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
)


@dataclass(frozen=True, slots=True)
class MountOptions:
    """How a tree is mounted.

    Attributes:
        source: name of the image, for the table of mounts.
        allow_other: whether other users may read it, with the permissions of the evidence.
        is_ready: called once when it is mounted.
    """

    source: str
    allow_other: bool = False
    is_ready: Callable[[], None] = lambda: None


def load_fuse() -> Any:
    """The module `mfusepy`.

    Raises:
        UnsupportedError: it is not installed, or this system has no FUSE.
    """
    os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    what = "a mount"
    if sys.platform == "linux":
        if not _DEVICE.exists():
            raise UnsupportedError(f"{what} needs {_DEVICE}: modprobe fuse, or another container")
        if os.geteuid() and shutil.which(_TOOL) is None:
            raise UnsupportedError(f"{what} needs the program {_TOOL}; {_INSTALL}")
    with extra(what, "mfusepy", "mount"):
        try:
            import mfusepy
        except (OSError, AttributeError) as error:
            raise UnsupportedError(f"{what} needs libfuse 3 ({error}); {_INSTALL}") from error
    if getattr(mfusepy, "fuse_version_major", 0) != 3:
        raise UnsupportedError(f"{what} needs libfuse 3, not an older one; {_INSTALL}")
    return mfusepy


def mount(operations: Operations, folder: Path, options: MountOptions) -> None:
    """Mount a tree, and return when it is no longer mounted.

    Raises:
        AccessError: it could not be mounted.
        KeyboardInterrupt: an interrupt came; it is unmounted then.
    """
    library, failures = load_fuse(), list[BaseException]()
    where, words, started = folder.absolute(), _Words(), Event()

    def ready() -> None:
        words.stop()
        options.is_ready()
        started.set()

    def serve() -> None:
        try:
            _serve(library, operations, where, options, ready)
        except BaseException as error:  # noqa: BLE001 -- of another thread
            failures.append(error)
        words.stop()
        started.set()

    thread = Thread(target=serve, name="fuse", daemon=True)
    try:
        take_signals()  # libfuse takes those that nobody handles, in a thread that is not woken
        thread.start()
        started.wait()
        if not failures:
            _read_far_ahead(where)
        thread.join()
    except KeyboardInterrupt:
        unmount(where)
        thread.join(_PATIENCE)
        raise
    if failures:
        raise AccessError(f"{folder}: could not be mounted: {words.text or failures[0]}")


class _Words:
    """What libfuse writes to stderr until it has mounted, kept for the message of an error."""

    def __init__(self) -> None:
        self.text = ""
        self._file = temporary_file()  # noqa: SIM115 -- until `stop`
        sys.stderr.flush()
        self._former: int | None = os.dup(2)
        os.dup2(self._file.fileno(), 2)

    def stop(self) -> None:
        """Write to stderr again."""
        former, self._former = self._former, None
        if former is None:
            return
        os.dup2(former, 2)
        os.close(former)
        with self._file:
            self._file.seek(0)
            lines = self._file.read(1 << 12).decode("utf-8", "replace").splitlines()
        self.text = "; ".join(line for line in lines if not line.startswith(_NOISE))


def unmount(folder: Path) -> None:
    """Unmount a folder; opened files stay readable until they are closed or the program ends."""
    tool = shutil.which(_TOOL)
    if tool is not None:
        command = [tool, "-u", "-z", "-q", str(folder)]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).umount2(os.fsencode(folder), _DETACH)


def _read_far_ahead(folder: Path) -> None:
    """Let the kernel read more of a file at once: half the time for a large one; root alone may.

    FUSE itself cannot ask for more than the kernel's usual 128 KiB (fs/fuse/inode.c).
    """
    with suppress(OSError):
        device = folder.stat().st_dev  # answered after the kernel has the settings of the mount
        name = f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"
        Path(name).write_text(f"{_READ_AHEAD >> 10}\n", encoding="ascii")


def _serve(
    library: Any,
    operations: Operations,
    folder: Path,
    options: MountOptions,
    is_ready: Callable[[], None],
) -> None:
    """Answer calls until the folder is unmounted."""
    chosen: dict[str, object] = {
        "fsname": options.source.replace("\\", "\\\\").replace(",", "\\,"),
        "subtype": "ext4kit",
        **dict.fromkeys(("ro", "nosuid", "nodev", "noexec"), True),
    }
    if library.fuse_version_minor >= 12:
        chosen["max_threads"] = _THREADS
    if options.allow_other:
        chosen |= {"allow_other": True, "default_permissions": True}
    members = {
        "served": operations,
        "buffers": Buffers(),
        "layout": np.dtype(library.c_stat),
        "is_ready": staticmethod(is_ready),
    }
    kind = type("Calls", (_Calls, library.FUSE), members)
    kind(_Names(), str(folder), foreground=True, **chosen)


class _Names:
    """Which calls there are: `mfusepy` registers those of which it finds a name here."""

    use_ns = True
    getattr = readlink = open = read_buf = statfs = opendir = readdir = True
    releasedir = listxattr = getxattr = lseek = init_with_config = True


class _Calls:
    """The calls of `mfusepy.FUSE`, which is the next class in line, answered by the operations.

    Attributes:
        served: the operations.
        buffers: makes buffers.
        layout: of `struct stat`.
        is_ready: called when it is mounted.
    """

    served: Operations
    buffers: Buffers
    layout: np.dtype[np.void]
    is_ready: Callable[[], None]

    def getattr_fuse_3(self, path: bytes, buffer: Any, _info: Any) -> int:
        row = c_stats(self.served.stats(path), self.layout)
        ctypes.memmove(buffer, row.ctypes.data, self.layout.itemsize)
        return 0

    def readlink(self, path: bytes, buffer: Any, size: int) -> int:
        target = self.served.link_target(path)[: size - 1] + b"\0"
        ctypes.memmove(buffer, target, len(target))
        return 0

    def open(self, _path: bytes, _info: Any) -> int:
        return -errno.ENOSYS  # from now on the kernel opens and closes files without a call

    def releasedir(self, _path: bytes | None, info: Any) -> int:
        self.served.close(info.contents.fh)
        return 0

    def read_buf(self, path: bytes, target: Any, size: int, offset: int, _info: Any) -> int:
        place = self.served.file(path).place(offset, size)
        if place is not None:
            found = self.buffers.of_place(*place)
        else:
            found = self.buffers.of_bytes(self.served.read(path, offset, size))
        ctypes.c_void_p.from_address(ctypes.addressof(target.contents)).value = found
        return 0

    def lseek(self, path: bytes, offset: int, whence: int, _info: Any) -> int:
        found = self.served.file(path).seek(offset, whence == os.SEEK_HOLE)
        return -errno.ENXIO if found is None else found

    def statfs(self, _path: bytes, buffer: Any) -> int:
        for name, value in self.served.space().items():
            setattr(buffer.contents, name, value)
        return 0

    def opendir(self, path: bytes, info: Any) -> int:
        info.contents.fh = self.served.open_directory(path)
        if hasattr(info.contents, "cache_readdir"):
            info.contents.cache_readdir = info.contents.keep_cache = 1
        return 0

    def readdir_fuse_3(
        self, _path: bytes | None, buffer: Any, filler: Any, offset: int, info: Any, flags: int
    ) -> int:
        fill = _FILL(ctypes.cast(filler, ctypes.c_void_p).value or 0)
        listing, own, above = self.served.listing(info.contents.fh)
        if offset < len(_DOTS):
            dots = c_stats(np.concatenate([own, own if above is None else above]), self.layout)
            for row in range(offset, len(_DOTS)):
                place = dots.ctypes.data + row * dots.itemsize
                if fill(buffer, _DOTS[row], place, row + 1, 0):
                    return 0
        first = max(offset - len(_DOTS), 0)
        while first < len(listing):
            rows = c_stats(listing.stats[first : first + _ROWS_AT_ONCE], self.layout)
            if _fill_rows(fill, buffer, listing, first, rows, bool(flags & 1)):
                break
            first += len(rows)
        return 0

    def listxattr(self, path: bytes, buffer: Any, size: int) -> int:
        names = self.served.xattrs(path)
        return _filled(buffer, size, b"".join(name + b"\0" for name in names))

    def getxattr(self, path: bytes, name: bytes, buffer: Any, size: int, *_: object) -> int:
        return _filled(buffer, size, self.served.xattr(path, name))

    def init_fuse_3(self, connection: Any, config: Any) -> None:
        settings = config.contents
        settings.use_ino = settings.kernel_cache = 1
        settings.entry_timeout = settings.attr_timeout = _FOREVER
        settings.negative_timeout = _FOREVER
        connection.contents.want |= connection.contents.capable & _SPLICE
        self.is_ready()


def _fill_rows(
    fill: Any, buffer: int, listing: FolderListing, first: int, rows: Any, is_plus: bool
) -> bool:
    """Give entries of a directory; True if the buffer is full."""
    names, shown, place = listing.names, listing.is_shown, rows.ctypes.data
    for entry in range(first, first + len(rows)):
        if shown[entry]:
            is_full = fill(buffer, names[entry], place, entry + 3, _PLUS if is_plus else 0)
        else:
            is_full = fill(buffer, names[entry], None, entry + 3, 0)
        if is_full:
            return True
        place += rows.itemsize
    return False


def _filled(buffer: Any, size: int, value: bytes) -> int:
    """Copy the value of an attribute, or tell its size."""
    if not size:
        return len(value)
    if len(value) > size:
        return -errno.ERANGE
    ctypes.memmove(buffer, value, len(value))
    return len(value)
