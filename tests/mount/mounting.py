"""Mounts an image through the program, for the time of a context, and reads trees of any mount."""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ext4kit.errors import UnsupportedError
from ext4kit.mount.fuse import load_fuse
from tests.environment import ROOT
from tests.filesystem.matrix_oracle import file_digest

READY = 120.0  # seconds
Facts = dict[str, object]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}


def missing() -> str:
    """Why nothing can be mounted with FUSE here, or an empty string."""
    if not Path("/dev/fuse").exists() or shutil.which("fusermount3") is None:
        return "needs FUSE (/dev/fuse, fusermount3)"
    try:
        load_fuse()
    except UnsupportedError as error:
        return f"needs FUSE ({error})"
    return ""


@dataclass
class Mount:
    """A mount of the program.

    Attributes:
        root: where it is mounted.
        process: the program.
        errors: file with what it wrote to standard error.
    """

    root: Path
    process: subprocess.Popen[bytes]
    errors: Path

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def mounted(
    image: Path,
    *options: str | Path,
    program: Sequence[str] = (sys.executable,),
    folder: Path | None = None,
) -> Iterator[Mount]:
    """The views of an image at a mount point of their own, for the time of the context.

    Args:
        image: the image.
        options: of the command.
        program: Python, after words that run it as another user.
        folder: mount point; by default, a new one.
    """
    place = folder or Path(tempfile.mkdtemp(prefix="ext4kit-views-"))
    place.chmod(0o777)
    errors = Path(tempfile.mkstemp(prefix="ext4kit-errors-")[1])
    ours, theirs = os.pipe()
    words = [*program, "-m", "ext4kit", "mount", str(image), str(place)]
    words += ["--ready-fd", str(theirs), *map(str, options)]
    with errors.open("wb") as told:
        process = subprocess.Popen(words, stderr=told, pass_fds=[theirs], env=ENVIRONMENT, cwd=ROOT)
    os.close(theirs)
    try:
        readable = select.select([ours], [], [], READY)[0]
        if not readable or not os.read(ours, 1):
            process.kill()
            raise AssertionError(errors.read_text(errors="replace"))
        yield Mount(place, process, errors)
    finally:
        os.close(ours)
        _end(process, place)
        errors.unlink()
        if folder is None:
            place.rmdir()


def _end(process: subprocess.Popen[bytes], place: Path) -> None:
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
    if process.poll() is None:
        process.kill()
        process.wait()
    if str(place) in Path("/proc/self/mounts").read_text():
        subprocess.run(["fusermount3", "-u", "-z", place], check=False)


def facts_below(root: Path) -> dict[bytes, Facts]:
    """What system calls show of everything below a directory, by path."""
    found: dict[bytes, Facts] = {b"": facts_of(os.fsencode(root))}
    waiting = [b""]
    while waiting:
        above = waiting.pop()
        for entry in os.scandir(os.path.join(os.fsencode(root), above)):  # noqa: PTH118
            path = above + b"/" + entry.name if above else entry.name
            found[path] = facts_of(entry.path)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
    return found


def facts_of(path: bytes) -> Facts:
    """Attributes, target, extended attributes and digest of a path."""
    seen = os.lstat(path)
    names = ("mode", "uid", "gid", "nlink", "size", "blocks", "ino", "atime_ns", "mtime_ns",
             "ctime_ns", "blksize")  # fmt: skip
    found: Facts = {name: getattr(seen, f"st_{name}") for name in names}
    if stat.S_ISCHR(seen.st_mode) or stat.S_ISBLK(seen.st_mode):
        found["device"] = seen.st_rdev
    attributes = os.listxattr(path, follow_symlinks=False)
    found["xattrs"] = {
        name: os.getxattr(path, name, follow_symlinks=False) for name in sorted(attributes)
    }
    if stat.S_ISLNK(seen.st_mode):
        found["target"] = os.readlink(path)  # noqa: PTH115
    if stat.S_ISREG(seen.st_mode):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            found["digest"] = file_digest(descriptor, seen.st_size)
        finally:
            os.close(descriptor)
    return found
