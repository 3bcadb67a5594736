"""Images as a cut leaves them, their log on board or on a device of its own, and what they hold.

The kernel writes them. `recovered` and `kernel_tree` ask e2fsck and the kernel what is right.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import Inode
from sample_images.recipes import machine

SHUTDOWN, LOGFLUSH, NOLOGFLUSH = 0x8004587D, 1, 2  # EXT4_IOC_SHUTDOWN and its flags
MAGIC_BYTES = bytes.fromhex("c03b3998")
PIECE = 1 << 16
# Bytes of the primary superblock that tell when and how much was written, and its checksum.
TIMES = ((1024 + 0x30, 4), (1024 + 0x274, 1), (1024 + 0x178, 8), (1024 + 0x3FC, 4))


@dataclass(frozen=True, slots=True)
class Setup:
    """How a file system is made and mounted before it is cut off.

    Attributes:
        journal: options of `mke2fs -O journal_dev` when the log has a device of its own.
        orphans: leave files open that have no name any more.
        fast_commits: end with files that the kernel syncs by fast commits.
        rounds: folders filled; 12 fill a quarter of a log of 1,024 blocks.
    """

    name: str
    mkfs: str
    mount: str = "data=ordered"
    journal: str = ""
    orphans: bool = False
    fast_commits: bool = False
    rounds: int = 12
    mebibytes: int = 24


@dataclass(frozen=True, slots=True)
class Crash:
    """An image whose log has not been replayed, and its external journal or None."""

    setup: Setup
    image: Path
    journal: Path | None

    @property
    def journal_options(self) -> tuple[str | Path, ...]:
        """What the command line is told of the journal."""
        return ("--journal", self.journal) if self.journal else ()


def crash(setup: Setup, folder: Path) -> Crash:
    """Make a file system, use it, cut it off and keep what is on the disk then."""
    image = folder / "live.img"
    journal = folder / "live.jnl" if setup.journal else None
    kept = Crash(setup, folder / "crash.img", folder / "crash.jnl" if journal else None)
    with ExitStack() as stack:
        options = setup.mkfs.split()
        if journal:
            _empty(journal, 8)
            node = stack.enter_context(machine.loop_device(journal))
            machine.run("mke2fs", "-q", "-F", "-O", "journal_dev", *setup.journal.split(), node)
            options += ["-J", f"device={node}"]
        _empty(image, setup.mebibytes)
        machine.run("mke2fs", "-q", "-F", "-E", "nodiscard", *options, image)
        with mounted(image, f"{setup.mount},noatime") as place:
            open_files = _use(place, setup)
            if setup.fast_commits:
                _sync_one_by_one(place / f"folder-{setup.rounds - 1:02}")
            _cut(place, NOLOGFLUSH if setup.fast_commits else LOGFLUSH)
            machine.copy_sparse(image, kept.image)
            if journal and kept.journal:
                machine.copy_sparse(journal, kept.journal)
            for file in open_files:
                os.close(file)
    for path in (image, journal):
        if path:
            path.unlink()
    return kept


def _empty(path: Path, mebibytes: int) -> None:
    with path.open("xb") as file:
        file.truncate(mebibytes << 20)


@contextmanager
def mounted(image: Path, options: str, journal: Path | None = None) -> Iterator[Path]:
    """An image mounted by the kernel's ext4 driver, its external journal beside it."""
    place = machine.mount_point()
    try:
        with ExitStack() as stack:
            device = stack.enter_context(machine.loop_device(image))
            if journal:
                log = stack.enter_context(machine.loop_device(journal))
                options = f"{options},journal_path={log}"
            machine.mount(device, place, options)
            stack.callback(machine.unmount, place)
            yield place
    finally:
        place.rmdir()


def _use(place: Path, setup: Setup) -> list[int]:
    """Some life: files come, grow, change, move and go; the last of it is in the log alone."""
    for number in range(setup.rounds):
        folder = place / f"folder-{number:02}"
        folder.mkdir()
        for count in range(14):
            (folder / f"file-{count:02}").write_bytes(_content(number, count))
        (folder / "link").symlink_to("x" * (20 + 9 * (number % 60)))
        (folder / "hard").hardlink_to(folder / "file-03")
        if number:
            _age(place / f"folder-{number - 1:02}")
        if number > 5:
            _remove(place / f"folder-{number - 6:02}")
        _commit(folder)
    held = [_nameless(place / f"nameless-{number}") for number in range(6 * setup.orphans)]
    _commit(place)
    return held


def _content(number: int, count: int) -> bytes:
    head = MAGIC_BYTES if count % 2 else b"plain"  # a copy of it in the log is escaped
    return (head + b" %02d %02d " % (number, count) * 40) * (count * count // 8)


def _age(folder: Path) -> None:
    (folder / "file-05").rename(folder / "moved-a-little")
    (folder / "file-07").replace(folder / "file-08")
    (folder / "file-09").chmod(0o4711)
    with (folder / "file-10").open("r+b") as file:
        file.truncate(700)
        file.seek(9000)
        file.write(b"behind a hole")
    os.setxattr(folder / "file-11", "user.note", b"n" * 300)


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _commit(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def _nameless(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(handle, b"orphan" * 2000)
    os.fsync(handle)
    path.unlink()
    return handle


def _sync_one_by_one(folder: Path) -> None:
    for count in range(8):
        path = folder / f"late-{count}"
        path.write_bytes(_content(3, count))
        _commit(path)
        if count % 3 == 2:
            path.rename(folder / f"renamed-{count}")
            (folder / f"file-0{count}").unlink()
            _commit(folder / f"late-{count - 1}")


def _cut(place: Path, flag: int) -> None:
    """Let the file system change nothing from now on; with LOGFLUSH the log is written out."""
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", flag))
    finally:
        os.close(handle)


# -- what is right ------------------------------------------------------------------------------


def recovered(
    image: Path, journal: Path | None, folder: Path, tool: str = "e2fsck", said: str = ""
) -> tuple[Path, Path | None]:
    """Copies of both after e2fsck (which releases orphans too) or debugfs recovered them.

    Args:
        image: the image.
        journal: its external journal.
        folder: where the copies go.
        tool: which of the two.
        said: what it has to say about it; without that it has to succeed.
    """
    theirs = folder / "theirs.img"
    machine.copy_sparse(image, theirs)
    log = folder / "theirs.jnl" if journal else None
    if journal and log:
        machine.copy_sparse(journal, log)
    if tool == "e2fsck":
        beside = ["-j", str(log)] if log else []
        command = ["e2fsck", "-y", "-E", "journal_only", *beside, str(theirs)]
    else:
        command = ["debugfs", "-w", "-R", "journal_run", str(theirs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert said or done.returncode in (0, 1), done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    return theirs, log


def pieces(path: Path) -> dict[int, bytes]:
    """Every piece of a file that is not all zeros, by its offset."""
    found = {}
    with path.open("rb") as file:
        position, size = 0, file.seek(0, os.SEEK_END)
        while position < size:
            try:
                position = os.lseek(file.fileno(), position, os.SEEK_DATA) // PIECE * PIECE
            except OSError:  # only a hole is left
                break
            data = os.pread(file.fileno(), PIECE, position)
            if any(data):
                found[position] = data
            position += PIECE
    return found


def differences(
    ours: Path, theirs: Path, ignored: tuple[tuple[int, int], ...] = ()
) -> list[tuple[int, int]]:
    """(offset, length) of runs of bytes that differ, without the ignored (offset, length)."""
    assert ours.stat().st_size == theirs.stat().st_size
    mine, other = pieces(ours), pieces(theirs)
    found: list[tuple[int, int]] = []
    blank = bytes(PIECE)
    for start in sorted(mine.keys() | other.keys()):
        one, two = (bytearray(side.get(start, blank)) for side in (mine, other))
        for offset, length in ignored:
            for place in range(max(offset - start, 0), min(offset + length - start, PIECE)):
                one[place] = two[place] = 0
        if one != two:
            found += _runs(one, two, start)
    return found


def _runs(one: bytearray, two: bytearray, start: int) -> Iterator[tuple[int, int]]:
    first = None
    for place in range(len(one) + 1):
        same = place == len(one) or one[place] == two[place]
        if same and first is not None:
            yield start + first, place - first
        first = None if same else place if first is None else first


def changed_blocks(before: Path, after: Path, size: int) -> set[int]:
    """Numbers of the blocks that differ in more than the superblock's times."""
    found: set[int] = set()
    for place, length in differences(before, after, TIMES):
        found.update(range(place // size, (place + length - 1) // size + 1))
    return found


Node = tuple[object, ...]


def kernel_tree(image: Path, options: str, journal: Path | None = None) -> dict[bytes, Node]:
    """The tree that the kernel shows once it has mounted the image."""
    found = {}
    with mounted(image, options, journal) as place:
        root = os.fsencode(place)
        for folder, folders, files in os.walk(root):
            for name in [b".", *folders, *files]:
                path = os.path.join(folder, name)  # noqa: PTH118 -- bytes
                found[os.path.normpath(path)[len(root) :] or b"/"] = _seen(path)
    return found


def _seen(path: bytes) -> Node:
    seen = os.lstat(path)  # noqa: PTH116 -- bytes
    content: object = None
    if stat.S_ISREG(seen.st_mode):
        with open(path, "rb") as file:  # noqa: PTH123 -- bytes
            content = hashlib.file_digest(file, "sha256").hexdigest()
    elif stat.S_ISLNK(seen.st_mode):
        content = os.readlink(path)  # noqa: PTH115 -- bytes
    names = os.listxattr(path, follow_symlinks=False)
    xattrs = {os.fsencode(name): os.getxattr(path, name, follow_symlinks=False) for name in names}
    return (
        seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid, seen.st_size, seen.st_nlink,
        seen.st_mtime_ns, seen.st_ctime_ns, content, sorted(xattrs.items()),
    )  # fmt: skip


def our_tree(fs: FileSystem) -> dict[bytes, Node]:
    """The same tree as ext4kit reads it."""
    found = {}
    for entry in fs.walk("/"):
        assert entry.inode is not None
        found[entry.path] = _read(fs, entry.inode)
    return found


def _read(fs: FileSystem, inode: Inode) -> Node:
    content: object = None
    if inode.kind == "file":
        content = hashlib.sha256(fs.content(inode).read(0, inode.size)).hexdigest()
    elif inode.kind == "symlink":
        content = fs.link_target(inode)
    return (
        inode.number, inode.mode, inode.uid, inode.gid, inode.size, inode.links_count,
        inode.mtime, inode.ctime, content, sorted(fs.xattrs(inode).items()),
    )  # fmt: skip
