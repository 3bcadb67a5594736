"""A scripted random session on a mounted file system, with the whole tree written down.

After each operation the change is committed, the tree is recorded as the kernel shows it, and
the id of the newest committed transaction is read from the log by a walk of its own. So for
each recorded point it is known what the file system held right after which transaction.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import random
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sample_images.recipes import machine
from sample_images.recipes.ondisk import Disk

JOURNAL_INODE = 8
MAGIC, COMMIT = 0xC03B3998, 2
MIB = 1 << 20
SHUTDOWN, SHUTDOWN_NO_FLUSH = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN


@dataclass(frozen=True, slots=True)
class Setup:
    """How the file system is made, mounted and used.

    Attributes:
        mkfs: options of mke2fs, behind `-b 4096`.
        mount: mount options besides `noatime,commit=600`.
        size: bytes of the image.
        operations: how many random operations.
        commit: "sync" writes everything out after each operation; "fsync" commits alone, so
            that much metadata is in the log only.
        crowd: files that one directory gets before the session starts (an htree).
        largest: bytes of the largest single write.
        crash: the image is a copy taken while mounted: its log is not replayed.
        remount: operations between two remounts, 0 for none.
        cut: remounts come after the file system was shut down, so that the log is recovered.
    """

    name: str
    mkfs: tuple[str, ...] = ("-t", "ext4", "-J", "size=8")
    mount: str = ""
    size: int = 64 * MIB
    operations: int = 450
    commit: str = "sync"
    crowd: int = 0
    largest: int = 40_000
    crash: bool = False
    remount: int = 0
    cut: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """What the kernel shows of one path; times in nanoseconds.

    Attributes:
        digest: SHA-256 of a regular file's content, else "".
        target: of a symlink, else None.
    """

    inode: int
    mode: int
    uid: int
    gid: int
    size: int
    links: int
    atime: int
    mtime: int
    ctime: int
    xattrs: tuple[tuple[bytes, bytes], ...]
    digest: str = ""
    target: bytes | None = None


Tree = dict[bytes, Node]  # absolute path in the file system -> node; the root is b"/"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the session.

    Attributes:
        kind: create, write, append, truncate, rename, link, unlink, chmod, chown, setxattr,
            removexattr, utimes, mkdir, rmdir, symlink; or "start" for the first state.
        path: what it was done to, absolute in the file system.
        other: the second path of rename and link (the new name), the target of a symlink.
        inode: of what it was done to (for create, mkdir, symlink: of what came to be).
        replaced: inode of the file that a rename took the name of, 0 for none.
        arguments: mode, owner, offset, length ... by name.
        started, ended: real time in ns around it, commit not included.
    """

    kind: str
    path: bytes = b""
    other: bytes = b""
    inode: int = 0
    replaced: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    started: int = 0
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """An operation, the newest transaction once it was committed, and the tree then."""

    operation: Operation
    transaction: int
    tree: Tree


@dataclass(frozen=True, slots=True)
class Session:
    """A finished session.

    Attributes:
        image: the image at its end (unmounted, or as a crash leaves it).
        steps: oldest first; the first one is the state before the first operation.
        newest: the last transaction in the log. The kernel may have committed one more behind
            the last step, on its own or to unmount.
    """

    setup: Setup
    image: Path
    steps: list[Step]
    newest: int

    def states(self) -> dict[int, Step]:
        """The step that each transaction id is the newest of; the last one where several are."""
        return {step.transaction: step for step in self.steps}


class CommitWatch:
    """Reads the newest committed transaction from the log under a mounted file system."""

    def __init__(self, image: Path) -> None:
        with Disk(image) as disk:
            size = disk.block_size
            extents = sorted(disk.map(disk.slot(JOURNAL_INODE)).extents)
        self._places = [
            (block + step) * size for _, block, count, _ in extents for step in range(count)
        ]
        with image.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        superblock = self._places[0]
        length, first = struct.unpack_from(">2I", self._bytes, superblock + 16)
        self._places = self._places[first:length]

    def newest(self) -> int:
        """Sequence of the newest commit block, 0 without one."""
        newest = 0
        for place in self._places:
            magic, kind, sequence = struct.unpack_from(">3I", self._bytes, place)
            if magic == MAGIC and kind == COMMIT:
                newest = max(newest, sequence)
        return newest

    def close(self) -> None:
        """Let go of the image."""
        self._bytes.close()


def read_tree(root: Path, known: dict[Node, Node]) -> Tree:
    """The tree below a mount point; equal nodes are kept once."""
    found = {b"/": _node(os.fsencode(root))}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in folders + files:
            path = os.path.join(folder, name)  # noqa: PTH118 -- bytes
            node = _node(path)
            found[path[len(os.fsencode(root)) :]] = known.setdefault(node, node)
    return found


def _node(path: bytes) -> Node:
    seen = os.lstat(path)  # noqa: PTH116 -- bytes
    names = sorted(os.listxattr(path, follow_symlinks=False))
    values = tuple(
        (os.fsencode(name), os.getxattr(path, name, follow_symlinks=False)) for name in names
    )
    digest, target = "", None
    if stat.S_ISREG(seen.st_mode):
        with open(path, "rb") as file:  # noqa: PTH123 -- bytes
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    elif stat.S_ISLNK(seen.st_mode):
        target = os.readlink(path)  # noqa: PTH115 -- bytes
    return Node(
        seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid, seen.st_size, seen.st_nlink,
        seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns, values, digest, target,
    )  # fmt: skip


class Actor:
    """Does random operations below a mount point and knows what is there."""

    def __init__(self, root: Path, setup: Setup) -> None:
        self.root = root
        self.setup = setup
        self.random = random.Random(setup.seed)
        self.folders: list[str] = [""]
        self.files: list[str] = []
        self.links: list[str] = []
        self.touched: list[Path] = []
        self.count = 0
        self._kinds: list[tuple[int, Callable[[], Operation | None]]] = [
            (14, self._create), (10, self._write), (8, self._append), (8, self._truncate),
            (12, self._rename), (5, self._link), (14, self._unlink), (4, self._chmod),
            (3, self._chown), (6, self._setxattr), (2, self._removexattr), (4, self._utimes),
            (5, self._mkdir), (4, self._rmdir), (4, self._symlink),
        ]  # fmt: skip

    def prepare(self) -> None:
        """What is there before the first operation."""
        for name in ("/a", "/b", "/a/deep", "/crowd"):
            self.at(name).mkdir()
            self.folders.append(name)
        for number in range(12):
            path = f"{self.folders[number % 4]}/first-{number:02}"
            self.at(path).write_bytes(self._content(self._length()))
            self.files.append(path)
        for number in range(self.setup.crowd):
            path = f"/crowd/a-name-of-some-length-in-a-crowd-{number:05}"
            self.at(path).write_bytes(b"" if number % 3 else self._content(100))
            self.files.append(path)

    def act(self) -> Operation:
        """One random operation."""
        while True:
            weights, kinds = zip(*self._kinds, strict=True)
            self.touched = []
            started = time.time_ns()
            done = self.random.choices(kinds, weights)[0]()
            if done is not None:
                values = {name: getattr(done, name) for name in (
                    "kind", "path", "other", "inode", "replaced", "arguments")}  # fmt: skip
                return Operation(**values, started=started, ended=time.time_ns())

    def at(self, path: str) -> Path:
        """Where a path of the file system is."""
        return self.root / path.lstrip("/")

    # -- choices --------------------------------------------------------------------------

    def _content(self, length: int) -> bytes:
        return self.random.randbytes(length)

    def _length(self) -> int:
        return self.random.choice(
            (0, 30, 100, 150, 1000, 4096, 5000, self.random.randrange(self.setup.largest))
        )

    def _new(self, kind: str) -> str:
        self.count += 1
        pad = "x" * self.random.choice((0, 0, 5, 60))
        return f"{self.random.choice(self.folders)}/{kind}-{self.count}{pad}"

    def _a_file(self) -> str | None:
        return self.random.choice(self.files) if self.files else None

    def _inode(self, path: str) -> int:
        return self.at(path).lstat().st_ino

    def _done(self, kind: str, path: str, inode: int | None = None, **rest: Any) -> Operation:
        known = {name: rest.pop(name) for name in ("other", "replaced") if name in rest}
        number = self._inode(path) if inode is None else inode
        return Operation(kind, os.fsencode(path), inode=number, arguments=rest, **known)

    # -- operations -----------------------------------------------------------------------

    def _create(self) -> Operation:
        path, data = self._new("file"), self._content(self._length())
        self.at(path).write_bytes(data)
        self.files.append(path)
        self.touched.append(self.at(path))
        return self._done("create", path, length=len(data))

    def _put(self, path: str, offset: int, data: bytes) -> None:
        handle = os.open(self.at(path), os.O_WRONLY)
        try:
            os.pwrite(handle, data, offset)
        finally:
            os.close(handle)
        self.touched.append(self.at(path))

    def _write(self) -> Operation | None:
        path = self._a_file()
        if path is None or not (size := self.at(path).lstat().st_size):
            return None
        data = self._content(self.random.randrange(1, min(size, self.setup.largest) + 1))
        offset = self.random.randrange(size - len(data) + 1)
        self._put(path, offset, data)
        return self._done("write", path, offset=offset, length=len(data))

    def _append(self) -> Operation | None:
        path = self._a_file()
        if path is None:
            return None
        offset, data = self.at(path).lstat().st_size, self._content(self._length() or 1)
        self._put(path, offset, data)
        return self._done("append", path, offset=offset, length=len(data))

    def _truncate(self) -> Operation | None:
        path = self._a_file()
        if path is None:
            return None
        size = self.at(path).lstat().st_size
        length = self.random.choice((0, size // 2, size // 3, max(size - 1, 0), size + 9000))
        machine.truncate(self.at(path), length)
        self.touched.append(self.at(path))
        return self._done("truncate", path, length=length)

    def _rename(self) -> Operation | None:
        path = self._a_file()
        if path is None:
            return None
        over = self._a_file() if self.random.random() < 0.25 else None
        target = over if over and over != path else self._new("moved")
        if target in self.files and self._inode(target) == self._inode(path):
            return None  # hard links of each other: rename does nothing
        replaced = self._inode(target) if target in self.files else 0
        self.at(path).rename(self.at(target))
        self.files.remove(path)
        if target not in self.files:
            self.files.append(target)
        self.touched.append(self.at(target))
        return self._done(
            "rename", path, self._inode(target), other=os.fsencode(target), replaced=replaced
        )

    def _link(self) -> Operation | None:
        path = self._a_file()
        if path is None:
            return None
        target = self._new("link")
        self.at(target).hardlink_to(self.at(path))
        self.files.append(target)
        self.touched.append(self.at(path))
        return self._done("link", path, other=os.fsencode(target))

    def _unlink(self) -> Operation | None:
        names = self.links if self.links and self.random.random() < 0.2 else self.files
        if len(names) < 4:
            return None
        path = self.random.choice(names)
        inode = self._inode(path)
        self.at(path).unlink()
        names.remove(path)
        self.touched.append(self.at(path).parent)
        return self._done("unlink", path, inode)

    def _chmod(self) -> Operation | None:
        path, mode = self._a_file(), self.random.choice((0o600, 0o644, 0o755, 0o4711, 0o000))
        if path is None:
            return None
        self.at(path).chmod(mode)
        self.touched.append(self.at(path))
        return self._done("chmod", path, mode=mode)

    def _chown(self) -> Operation | None:
        path, uid, gid = self._a_file(), self.random.choice((0, 1000, 70_000)), 100
        if path is None:
            return None
        os.chown(self.at(path), uid, gid)
        self.touched.append(self.at(path))
        return self._done("chown", path, uid=uid, gid=gid)

    def _setxattr(self) -> Operation | None:
        path = self._a_file()
        if path is None:
            return None
        name = f"user.{self.random.choice('abc')}"
        value = self._content(self.random.choice((5, 20, 600)))
        try:
            os.setxattr(self.at(path), name, value)
        except OSError:
            return None  # no room for it in the inode and one block
        self.touched.append(self.at(path))
        return self._done("setxattr", path, name=name, length=len(value))

    def _removexattr(self) -> Operation | None:
        having = [path for path in self.files if os.listxattr(self.at(path))]
        if not having:
            return None
        path = self.random.choice(having)
        name = self.random.choice(os.listxattr(self.at(path)))
        os.removexattr(self.at(path), name)
        self.touched.append(self.at(path))
        return self._done("removexattr", path, name=name)

    def _utimes(self) -> Operation | None:
        path = self._a_file()
        if path is None:
            return None
        moment = self.random.randrange(10**18, 2 * 10**18)
        os.utime(self.at(path), ns=(moment, moment + 5))
        self.touched.append(self.at(path))
        return self._done("utimes", path, atime=moment, mtime=moment + 5)

    def _mkdir(self) -> Operation:
        path = self._new("folder")
        self.at(path).mkdir()
        self.folders.append(path)
        self.touched.append(self.at(path))
        return self._done("mkdir", path)

    def _rmdir(self) -> Operation | None:
        empty = [path for path in self.folders[5:] if not any(self.at(path).iterdir())]
        if not empty:
            return None
        path = self.random.choice(empty)
        inode = self._inode(path)
        self.at(path).rmdir()
        self.folders.remove(path)
        self.touched.append(self.at(path).parent)
        return self._done("rmdir", path, inode)

    def _symlink(self) -> Operation:
        path, target = self._new("symlink"), "/".join(["t"] * self.random.choice((2, 29, 31, 200)))
        self.at(path).symlink_to(target)
        self.links.append(path)
        self.touched.append(self.at(path).parent)
        return self._done("symlink", path, other=os.fsencode(target))


def record(setup: Setup, folder: Path) -> Session:
    """Run a session and write everything down.

    Args:
        setup: what to do.
        folder: where the image goes, as `NAME.img`.
    """
    image = folder / f"{setup.name}.img"
    machine.make_file_system(image, setup.size, setup.mkfs)
    with _mounted(image, setup) as (root, again):
        actor = Actor(root, setup)
        known: dict[Node, Node] = {}
        actor.prepare()
        machine.sync(root)
        watch = CommitWatch(image)
        commit = partial(machine.sync, root) if setup.commit == "sync" else partial(_fsync, actor)
        steps = [Step(Operation("start"), watch.newest(), read_tree(root, known))]
        for number in range(setup.operations):
            if setup.remount and number % setup.remount == setup.remount - 1:
                again()
            operation = actor.act()
            commit()
            steps.append(Step(operation, watch.newest(), read_tree(root, known)))
        watch.close()
        if setup.crash:
            machine.copy_sparse(image, image.with_suffix(".crash"))
    if setup.crash:
        image.with_suffix(".crash").replace(image)
    with closing(CommitWatch(image)) as watch:
        return Session(setup, image, steps, watch.newest())


def _fsync(actor: Actor) -> None:
    """Commit what the last operation changed, and write nothing else out."""
    for path in actor.touched:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


@contextmanager
def _mounted(image: Path, setup: Setup) -> Iterator[tuple[Path, Callable[[], None]]]:
    """(mount point, what mounts it again)."""
    root = machine.mount_point()
    options = ",".join(filter(None, ("noatime,commit=600", setup.mount)))
    try:
        with machine.loop_device(image) as device:

            def again() -> None:
                if setup.cut:
                    _shut_down(root)
                machine.unmount(root)
                machine.mount(device, root, options)

            machine.mount(device, root, options)
            try:
                yield root, again
            finally:
                machine.unmount(root)
    finally:
        root.rmdir()


def _shut_down(root: Path) -> None:
    """Let the file system write nothing any more; what was committed stays in the log."""
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", SHUTDOWN_NO_FLUSH))
    finally:
        os.close(handle)
