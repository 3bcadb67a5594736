"""Loop devices, mounts and copies: the little of the machine that the recipes need."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

SYSTEM_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
UUID = "5ca1ab1e-0000-4000-8000-00000000e4f5"
HASH_SEED = "0b5e55ed-0000-4000-8000-00000000e4f5"


# What mke2fs made before version 1.47, whatever the one at hand and its settings make.
USUAL_FEATURES = (
    "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,"
    "sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum"
)


class MachineError(RuntimeError):
    """A tool that the recipes lean on failed; the text is what it said."""


def run(*command: str | Path, stdin: bytes | None = None) -> bytes:
    """Run one tool to its end and give its stdout; MachineError when it fails."""
    done = _done(command, stdin)
    return _failed(command, done) if done.returncode != 0 else done.stdout


def dumpe2fs(path: Path) -> str:
    """What dumpe2fs says of a file system and its groups.

    Of a copy of a mounted one it says that bitmaps do not fit their checksums yet, shows them all
    the same, and ends with an exit code that is no failure here.
    """
    done = _done(("dumpe2fs", path), None)
    return (done.stdout if b"\nGroup 0:" in done.stdout else _failed(("dumpe2fs",), done)).decode(
        errors="replace"
    )


def _done(command: Sequence[str | Path], stdin: bytes | None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(part) for part in command],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "PATH": SYSTEM_PATH, "LC_ALL": "C"},
    )


def _failed(command: Sequence[str | Path], done: subprocess.CompletedProcess[bytes]) -> NoReturn:
    said = (done.stderr or done.stdout).decode(errors="replace").strip()
    raise MachineError(f"{command[0]}: {said}")


def missing_for_kernel() -> str:
    """Why no image can be made here through the kernel; empty when it can be done."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    tools = [tool for tool in ("losetup", "mke2fs") if not shutil.which(tool, path=SYSTEM_PATH)]
    return f"needs {' and '.join(tools)}" if tools else ""


def owns_clock() -> bool:
    """Whether this is a user-mode kernel, whose clock is nobody else's."""
    return "User Mode Linux" in Path("/proc/cpuinfo").read_text(errors="replace")


def move_clock(seconds: float) -> None:
    """Move the clock on, or back where `seconds` is negative, in a kernel that owns it."""
    time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + int(seconds * 10**9))


def make_file_system(image: Path, size: int, options: tuple[str, ...]) -> None:
    """A new file system in a new sparse file of `size` bytes, its UUID and hash seed fixed.

    Blocks are of 4 KiB where `options` does not say otherwise: mke2fs takes 1 KiB below 512 MiB.
    """
    with image.open("xb") as made:
        made.truncate(size)
    extended = f"hash_seed={HASH_SEED},nodiscard"
    run("mke2fs", "-q", "-F", "-U", UUID, "-E", extended, "-b", "4096", *options, image)


@contextmanager
def loop_device(image: Path, at: int = 0, size: int = 0) -> Iterator[Path]:
    """The image as a block device, for as long as the context lasts.

    Args:
        image: the image.
        at: its first byte on the device.
        size: bytes of the device; 0 for all up to the end.
    """
    part = ("--offset", str(at), "--sizelimit", str(size))
    device = Path(run("losetup", "--find", "--show", *part, image).decode().strip())
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


def mount(device: Path, where: Path, options: str) -> None:
    """Mount a device by the kernel's ext4 driver, ext2 and ext3 too."""
    run("mount", "-t", "ext4", "-o", options, device, where)


def unmount(where: Path) -> None:
    """Unmount."""
    run("umount", where)


def mount_point() -> Path:
    """A new folder to mount in, with a short path as users have; it goes with this process.

    The kernel logs the superblock at the first open of a file if the path of the mount has less
    than 64 bytes (kernel fs/ext4/file.c, `ext4_sample_last_mounted`).
    """
    where = Path(tempfile.mkdtemp(prefix="mnt-"))
    atexit.register(_remove_empty, where)
    return where


def _remove_empty(where: Path) -> None:
    with suppress(OSError):  # gone, or still mounted
        where.rmdir()


@contextmanager
def mounted(image: Path, options: str, at: int = 0, size: int = 0) -> Iterator[Path]:
    """An image's file system, for the time of the context; a part as for `loop_device`."""
    root = mount_point()
    try:
        with loop_device(image, at, size) as device:
            mount(device, root, options)
            try:
                yield root
            finally:
                unmount(root)
    finally:
        root.rmdir()


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a backing file, holes as holes, what the page cache has of it included."""
    run("cp", "--sparse=always", source, target)


def sync(where: Path) -> None:
    """Write out the file system that holds `where`, and no other of this machine."""
    handle = os.open(where, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(handle)


def truncate(path: Path, size: int) -> None:
    """Set a file's size through an open handle.

    truncate(2) by path of an inline_data file trips some kernels.
    """
    handle = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)


def check(image: Path) -> None:
    """What `e2fsck -fy` makes of it."""
    done = subprocess.run(
        ["e2fsck", "-fy", str(image)],
        capture_output=True,
        check=False,
        env={**os.environ, "PATH": SYSTEM_PATH},
    )
    if done.returncode > 2:  # 1 and 2: there was something to mend, and it is mended
        raise MachineError(f"e2fsck: {done.stdout.decode(errors='replace')[-300:]}")
