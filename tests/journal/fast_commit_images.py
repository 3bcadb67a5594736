"""Images that end in fast commits, made by the running kernel, and who judges their replay."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log, ReplayedBlocks, replay
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.parsers.inode import Inode
from sample_images.recipes import machine
from tests.filesystem.matrix_oracle import Node, Tree, kernel_tree
from tests.filesystem.test_reading_matrix import digest_of
from tests.journal.kernel_log import opened

EXT4_IOC_SHUTDOWN = 0x8004587D  # fs/ext4/ext4.h
LEAVE_LOG = 2  # flag of the shutdown: what is not in the log by then is lost
FORMATS = {
    "default": "-b 4096",
    "1k": "-b 1024",
    "no checksums": "-b 4096 -O ^metadata_csum",
    "no checksums 1k": "-b 1024 -O ^metadata_csum,^64bit,^uninit_bg",
    "inline": "-b 4096 -O inline_data",
    "inline 1k": "-b 1024 -O inline_data -I 512",
    "bigalloc": "-b 4096 -O bigalloc -C 16384",
    "bigalloc 1k": "-b 1024 -O bigalloc -C 8192",
    "small groups": "-b 1024 -g 1024 -N 4096 -O ^flex_bg,^resize_inode",
    "inode 128": "-b 2048 -I 128",
}
JOURNAL = "size=8,fast_commit_size=1024"  # KiB: room for many of them
MIB = 1 << 20


@dataclass(slots=True)
class Made:
    """An image whose newest changes are in fast commits alone.

    Attributes:
        image: what the disk holds at the cut.
        live: what the kernel showed right before it, after the last fsync.
        synced: paths of the files whose content was synced.
    """

    image: Path
    live: Tree = field(default_factory=Tree)
    synced: set[bytes] = field(default_factory=set)


def make(folder: Path, options: str, act: Callable[[Path], set[bytes]], size: int = 48) -> Made:
    """An image on which `act` was done in fast commits; it gives the paths it synced.

    `act` finds a folder `before` that is committed in full, and files in it.
    """
    backing, image = folder / "backing.img", folder / "fast.img"
    image.unlink(missing_ok=True)
    machine_options = ("-t", "ext4", "-O", "fast_commit", "-J", JOURNAL, *options.split())
    machine.make_file_system(backing, size * MIB, machine_options)
    made = Made(image)
    try:
        with machine.mounted(backing, "rw,commit=600") as root:
            _prepare(root)
            machine.sync(root)
            made.synced = act(root)
            made.live = kernel_tree(root)
            _shut_down(root)
            machine.copy_sparse(backing, image)  # an unmount would still write into it
    finally:
        backing.unlink()
    return made


def _prepare(root: Path) -> None:
    """What is there before: small files, a larger one, folders, links."""
    before = root / "before"
    before.mkdir()
    for number in range(30):
        path = before / f"file {number}"
        path.write_bytes(random.Random(f"before {number}").randbytes(number**3))
    (before / "folder").mkdir()
    (before / "folder" / "inside").write_bytes(b"inside")
    os.link(before / "file 3", before / "second name")
    (before / "link").symlink_to("file 4")


def _shut_down(root: Path) -> None:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("<I", LEAVE_LOG))
    finally:
        os.close(descriptor)


class Doings:
    """Random operations below a mount point, the last ones synced.

    Args:
        root: the mount point.
        seed: decides about everything.
        folders: make and remove folders, too.
    """

    def __init__(self, root: Path, seed: int, *, folders: bool = True) -> None:
        self.root = root
        self.with_folders = folders
        self.chance = random.Random(seed)
        self.folders = [root / "before", root / "before" / "folder"]
        self.files = [root / "before" / f"file {number}" for number in range(30)]
        self.count = 0
        self.written: set[Path] = set()

    def run(self, steps: int) -> set[bytes]:
        """Do it; the paths of the files whose content is on disk in the end."""
        doings: tuple[tuple[int, Callable[[], None]], ...] = (
            (6, self.create), (3, self.append), (2, self.overwrite), (2, self.shorten),
            (2, self.punch), (1, self.preallocate), (3, self.rename), (2, self.link),
            (4, self.unlink), (2, self.symlink), (2, self.mkdir), (1, self.rmdir),
            (1, self.crowd), (1, self.scatter),
        )  # fmt: skip
        apart = (self.mkdir, self.rmdir)
        doings = tuple(one for one in doings if self.with_folders or one[1] not in apart)
        weights, calls = zip(*doings, strict=True)
        for _ in range(steps):
            self.chance.choices(calls, weights)[0]()
            if self.chance.random() < 0.5:
                fsync(self.chance.choice(self.files))
        synced = sorted(path for path in self.written if path.exists())
        for path in synced:
            fsync(path)
        self.create()
        fsync(self.files[-1])
        return {b"/" + os.fsencode(path.relative_to(self.root)) for path in synced}

    def _new(self) -> Path:
        self.count += 1
        name = f"new {self.count} " + "x" * self.chance.choice((0, 5, 40, 150))
        return self.chance.choice(self.folders) / name

    def _bytes(self) -> bytes:
        return self.chance.randbytes(self.chance.choice((0, 50, 130, 700, 5000, 60_000)))

    def _write(self, path: Path, offset: int, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.pwrite(descriptor, data, offset)
        os.close(descriptor)
        self.written.add(path)

    def _some(self) -> Path:
        return self.chance.choice(self.files)

    def create(self) -> None:
        path = self._new()
        self._write(path, 0, self._bytes())
        self.files.append(path)

    def append(self) -> None:
        path = self._some()
        self._write(path, path.stat().st_size, self._bytes())

    def overwrite(self) -> None:
        path = self._some()
        self._write(path, self.chance.randrange(path.stat().st_size + 9000), self._bytes())

    def shorten(self) -> None:
        path = self._some()
        machine.truncate(path, self.chance.randrange(path.stat().st_size + 5000))
        self.written.add(path)

    def punch(self) -> None:
        path = self._some()
        if path.stat().st_size > 9000:
            start = self.chance.randrange(path.stat().st_size - 8000)
            machine.run("fallocate", "-p", "-o", str(start), "-l", "8000", path)
            self.written.add(path)

    def preallocate(self) -> None:
        path = self._some()
        machine.run("fallocate", "-o", "20000", "-l", "50000", path)
        self.written.add(path)

    def scatter(self) -> None:
        """A file in many extents: a tree with nodes of its own."""
        path = self._new()
        for number in range(40):
            self._write(path, number * 20_000, b"piece %d" % number)
            if number % 10 == 9:
                fsync(path)
        self.files.append(path)

    def rename(self) -> None:
        old = self._some()
        new = self._some() if self.chance.random() < 0.3 else self._new()
        if new == old or (new.exists() and new.samefile(old)):
            return
        old.rename(new)
        self.files = [path for path in self.files if path not in (old, new)] + [new]
        if old in self.written:
            self.written.remove(old)
            self.written.add(new)

    def link(self) -> None:
        path = self._new()
        os.link(self._some(), path)
        self.files.append(path)

    def unlink(self) -> None:
        if len(self.files) > 5:
            path = self.files.pop(self.chance.randrange(len(self.files)))
            path.unlink()
            self.written.discard(path)

    def symlink(self) -> None:
        self._new().symlink_to("t" * self.chance.choice((1, 30, 59)))

    def mkdir(self) -> None:
        path = self._new()
        path.mkdir()
        self.folders.append(path)

    def rmdir(self) -> None:
        empty = [path for path in self.folders if not any(path.iterdir())]
        if empty:
            path = self.chance.choice(empty)
            path.rmdir()
            self.folders.remove(path)

    def crowd(self) -> None:
        """So many names in one folder that its blocks do not hold them."""
        folder = self.chance.choice(self.folders)
        for number in range(60):
            self.count += 1
            path = folder / f"crowd {self.count} {'y' * (number % 3 * 60)}"
            path.touch()
            self.files.append(path)


def fsync(path: Path) -> None:
    """Sync one file or directory: this is what makes a fast commit."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replayed_by_kernel(image: Path) -> Tree:
    """What the kernel shows of a copy after its own replay.

    Raises:
        MachineError: the kernel refuses to mount it.
    """
    copy = image.with_suffix(".kernel")
    machine.copy_sparse(image, copy)
    try:
        with machine.mounted(copy, "rw"):
            pass
        with machine.mounted(copy, "ro,noload") as root:
            return kernel_tree(root)
    finally:
        copy.unlink()


@dataclass(frozen=True, slots=True)
class View:
    """An image as ext4kit replays it in memory.

    Attributes:
        applied: how many fast commits it has applied.
    """

    fs: FileSystem
    blocks: ReplayedBlocks
    applied: int


def replayed(image: Path) -> View:
    """The file system with its log and its fast commits replayed."""
    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    blocks = replay(log, fs)
    return View(fs.with_blocks(blocks), blocks, len(scan_fast_commits(log).to_replay))


def write_copy(image: Path, view: View) -> Path:
    """A copy of the image with every block that the replay changes."""
    copy = image.with_suffix(".written")
    machine.copy_sparse(image, copy)
    blocks = view.blocks
    with copy.open("r+b") as file:
        for block in {*blocks.plan.blocks.tolist(), *blocks.changed.blocks.tolist()}:
            file.seek(block * blocks.block_size)
            file.write(blocks.read(block))
    return copy


def faults(image: Path) -> str:
    """What `e2fsck -fn` finds wrong, "" for nothing."""
    command = ["e2fsck", "-fn", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.returncode != 0 or "wrong" in done.stdout
    return f"{done.returncode}: {done.stdout}" if told else ""


def differences(tree: Tree, view: View, files: set[bytes] | None = None) -> list[str]:
    """Where a view is not what somebody else saw; times of directories are left out.

    Args:
        tree: what was seen.
        view: ext4kit's.
        files: paths whose size, times and content count; all by default.
    """
    found = {entry.path: entry for entry in view.fs.walk(b"/")}
    every = sorted(tree.paths.keys() | found.keys())
    numbers = {path: entry.number for path, entry in found.items()}
    wrong = [
        f"{path!r}: {tree.paths.get(path)}, got {numbers.get(path)}"
        for path in every
        if tree.paths.get(path) != numbers.get(path)
    ]
    for path in tree.paths.keys() & found.keys():
        node, inode = tree.nodes[tree.paths[path]], found[path].inode
        assert inode is not None
        whole = files is None or path in files
        wrong += [f"{path!r}: {line}" for line in _unlike(node, inode, view.fs, whole)]
    return wrong


def _unlike(node: Node, inode: Inode, fs: FileSystem, whole: bool) -> Iterator[str]:
    left_out = {"flags", "project_id", "atime"}
    if inode.is_directory or not whole:
        left_out |= {"mtime", "ctime", "size"}
    for name, expected in node.numbers.items():
        got = getattr(inode, name)
        if name not in left_out and got != expected:
            yield f"{name} {expected}, got {got}"
    if node.target is not None and fs.link_target(inode) != node.target:
        yield f"target {node.target!r}"
    if whole and node.digest is not None and digest_of(fs.content(inode)) != node.digest:
        yield "content"
