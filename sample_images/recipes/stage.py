"""The stage: a mounted file system that a recipe acts on, and the book of what goes.

Whatever deletes a file through the stage writes its last state down first: metadata, digest,
block map (from the kernel's FIEMAP, compared with the map on the device) and the names that
lead to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.contents import Content
from sample_images.recipes.ondisk import Disk, Extent, Slot, TreeBlock, merged
from sample_images.recipes.truth import FileTruth, LiveFile

Name = str | bytes
FS_IOC_FIEMAP = 0xC020660B
FIEMAP_PAGE = 512
FIEMAP_LAST, FIEMAP_UNKNOWN, FIEMAP_INLINE, FIEMAP_UNWRITTEN = 0x1, 0x2, 0x200, 0x800
MARKER = b".last-commit"
STEADY = "noatime,noinit_itable"  # nothing is written but what the recipe asks for
STEADY_LOG = "commit=600"  # no timer closes a transaction


@dataclass(frozen=True, slots=True)
class Recorded:
    """One state of a file in the book, with what the judgement needs and the truth does not.

    Attributes:
        slot: the inode as the device had it.
        tree: the blocks of the map's tree.
        names: (inode, name, path) of each step of the path, from the root down.
    """

    truth: FileTruth
    slot: Slot
    tree: list[TreeBlock]
    names: list[tuple[int, bytes, bytes]]


class Stage:
    """A mounted file system; paths are relative to its root.

    Attributes:
        root: where it is mounted.
        device: the loop device under it.
        small: whether the recipe is asked for its small variant.
        book: all states written down so far.
    """

    def __init__(self, root: Path, device: Path, options: str, small: bool) -> None:
        self.root = root
        self.device = device
        self.small = small
        self.book: list[Recorded] = []
        self._options = options
        self._held: list[int] = []

    def path(self, name: Name) -> Path:
        """The path of a file outside."""
        return self.root / os.fsdecode(name)

    @property
    def has_log(self) -> bool:
        """Whether the file system keeps a journal."""
        with Disk(self.device) as disk:
            return disk.has_journal

    def count(self, full: int, small: int) -> int:
        """A number that is lower in the small variant."""
        return small if self.small else full

    # -- making ---------------------------------------------------------------------------

    def mkdir(self, name: Name) -> None:
        """A directory with its parents."""
        self.path(name).mkdir(parents=True, exist_ok=True)

    def write(self, name: Name, content: Content | bytes) -> None:
        """A file with owner, mode and time that follow from its name; parents are made."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, content, os.O_CREAT | os.O_EXCL, fsync=False)
        self.dress(name)

    def dress(self, name: Name) -> None:
        """Give a file the owner, mode and time that follow from its name."""
        path = self.path(name)
        chance = random.Random(os.fsencode(name))
        os.chown(path, chance.choice((0, 1000, 70_000)), chance.choice((0, 100, 1000)))
        path.chmod(chance.choice((0o644, 0o600, 0o755, 0o4755, 0o000)))
        moment = chance.randrange(946_684_800, 1_767_225_600) * 10**9 + chance.randrange(10**9)
        os.utime(path, ns=(moment, moment))

    def add(self, name: Name, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Write (byte offset, bytes) into a file that is there, and fsync it."""
        handle = os.open(self.path(name), os.O_WRONLY)
        try:
            for offset, piece in pieces:
                os.pwrite(handle, piece, offset)
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Name, new: Name) -> None:
        """Rename or move; the new parents are made."""
        target = self.path(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.path(old).rename(target)

    def sync(self) -> None:
        """Write out everything, data and metadata."""
        machine.sync(self.root)

    def commit(self) -> None:
        """Close the running transaction; its blocks are in the log, not yet at home."""
        path = self.path(MARKER)
        handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, b"commit\n")
            os.fsync(handle)
        finally:
            os.close(handle)

    def mount(self) -> None:
        """Mount the device."""
        steady = STEADY_LOG if self.has_log else ""
        options = ",".join(filter(None, (STEADY, steady, self._options)))
        machine.mount(self.device, self.root, options)

    def unmount(self) -> None:
        """Close what is held open and unmount."""
        while self._held:
            os.close(self._held.pop())
        machine.unmount(self.root)

    def remount(self) -> None:
        """Unmount in order and mount again: the log is empty for the kernel from here on."""
        self.unmount()
        self.mount()

    # -- writing down ---------------------------------------------------------------------

    def record(self, names: Iterable[Name]) -> None:
        """Write down the state of regular files; the caller has synced them."""
        with Disk(self.device) as disk:
            self.book += [self._state(disk, os.fsencode(name)) for name in names]

    def record_tree(self, name: Name = ".") -> None:
        """Write down every regular file below a directory."""
        self.record(self.files(name))

    def files(self, name: Name = ".") -> list[bytes]:
        """The paths of all regular files below a directory, in order."""
        return sorted(path for path, kind in self._walk(name) if stat.S_ISREG(kind))

    def _walk(self, name: Name) -> Iterator[tuple[bytes, int]]:
        for folder, folders, files in os.walk(self.path(name)):
            for entry in folders + files:
                path = Path(folder, entry)
                yield os.fsencode(path.relative_to(self.root)), path.lstat().st_mode

    def _state(self, disk: Disk, name: bytes) -> Recorded:
        path = self.path(name)
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME)
        try:
            found = os.fstat(handle)
            data = _read_all(handle)
            extents, inline = fiemap(handle, disk.block_size)
        finally:
            os.close(handle)
        slot = disk.slot(found.st_ino)
        on_device = disk.map(slot)
        if merged(on_device.extents) != extents or slot.size != len(data):
            raise machine.MachineError(f"{path}: FIEMAP and the inode on the device disagree")
        truth = FileTruth(
            name,
            found.st_ino,
            slot.generation,
            len(data),
            found.st_mode,
            found.st_uid,
            found.st_gid,
            found.st_mtime_ns,
            hashlib.sha256(data).hexdigest(),
            extents,
            inline=inline,
            ends_in_zero=data.endswith(b"\0"),
        )
        return Recorded(truth, slot, on_device.tree, self._names(name))

    def _names(self, name: bytes) -> list[tuple[int, bytes, bytes]]:
        parts = name.split(b"/")
        paths = [b"/".join(parts[: end + 1]) for end in range(len(parts))]
        inodes = [self.path(path).lstat().st_ino for path in paths]
        return list(zip(inodes, parts, paths, strict=True))

    # -- deleting -------------------------------------------------------------------------

    def remove(self, names: Iterable[Name]) -> None:
        """Write down and unlink."""
        self.sync()
        self.remove_committed(names)

    def remove_committed(self, names: Iterable[Name]) -> None:
        """Write down and unlink files that the caller has synced or committed."""
        doomed = list(names)
        self.record(doomed)
        for name in doomed:
            self.path(name).unlink()

    def remove_tree(self, name: Name) -> None:
        """Write down all files of a tree, then what `rm -rf` does."""
        self.sync()
        self.record_tree(name)
        machine.run("rm", "-rf", "--", self.path(name))

    def save_over(self, name: Name, content: Content | bytes) -> None:
        """What an editor does: a new file, fsync, renamed over the old one."""
        self.sync()
        self.record([name])
        path = self.path(name)
        fresh = path.with_name(path.name + ".swp")
        _put(fresh, content, os.O_CREAT | os.O_EXCL)
        fresh.rename(path)

    def rewrite(self, name: Name, content: Content | bytes) -> None:
        """Truncate to nothing and write anew: the same inode, other content."""
        self.sync()
        self.record([name])
        _put(self.path(name), content, os.O_TRUNC)

    def hold(self, names: Iterable[Name]) -> None:
        """Write down, open, unlink, and keep open until the end."""
        doomed = list(names)
        self.sync()
        self.record(doomed)
        for name, recorded in zip(doomed, self.book[-len(doomed) :], strict=True):
            self._held.append(os.open(self.path(name), os.O_RDONLY))
            self.path(name).unlink()
            recorded.truth.held = True

    def living(self) -> tuple[list[LiveFile], dict[bytes, int]]:
        """The regular files that are there now, and the inode of each directory by path."""
        with Disk(self.device) as disk:
            files = [self._living_file(disk, name) for name in self.files()]
        folders = {
            path: self.path(path).lstat().st_ino
            for path, kind in self._walk(".")
            if stat.S_ISDIR(kind)
        }
        return files, folders

    def _living_file(self, disk: Disk, name: bytes) -> LiveFile:
        path = self.path(name)
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        inode = path.lstat().st_ino
        return LiveFile(name, inode, disk.slot(inode).generation, digest)


@contextmanager
def staged(image: Path, options: str, small: bool) -> Iterator[Stage]:
    """Mount an image for a recipe; whatever happens, it is unmounted and detached."""
    root = machine.mount_point()
    try:
        with machine.loop_device(image) as device:
            stage = Stage(root, device, options, small)
            stage.mount()
            try:
                yield stage
            finally:
                stage.unmount()
    finally:
        root.rmdir()


def _put(path: Path, content: Content | bytes, flags: int, fsync: bool = True) -> None:
    made = Content.of(content) if isinstance(content, bytes) else content
    handle = os.open(path, os.O_WRONLY | flags, 0o644)
    try:
        for offset, piece in made.pieces:
            os.pwrite(handle, piece, offset)
        os.ftruncate(handle, made.size)
        if fsync:
            os.fsync(handle)
    finally:
        os.close(handle)


def _read_all(handle: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(handle, min(os.fstat(handle).st_size, 1 << 24) + 1):
        parts.append(part)
    return b"".join(parts)


def fiemap(handle: int, block_size: int) -> tuple[list[Extent], bool]:
    """What the kernel says of an open file's map, and whether its content is in the inode."""
    extents: list[Extent] = []
    start = 0
    while True:
        request = bytearray(32 + 56 * FIEMAP_PAGE)
        struct.pack_into("<QQIIII", request, 0, start, (1 << 64) - 1 - start, 0, 0, FIEMAP_PAGE, 0)
        fcntl.ioctl(handle, FS_IOC_FIEMAP, request, True)
        mapped = struct.unpack_from("<I", request, 20)[0]
        for place in range(32, 32 + 56 * mapped, 56):
            logical, physical, length = struct.unpack_from("<QQQ", request, place)
            flags = struct.unpack_from("<I", request, place + 40)[0]
            if flags & FIEMAP_INLINE:
                return [], True
            if flags & FIEMAP_UNKNOWN:
                raise machine.MachineError("FIEMAP: blocks not allocated yet")
            one = (logical // block_size, physical // block_size, length // block_size)
            extents.append((*one, bool(flags & FIEMAP_UNWRITTEN)))
            start = logical + length
        if not mapped or flags & FIEMAP_LAST:
            return merged(extents), False
