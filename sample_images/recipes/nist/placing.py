"""The site: a stage on which files are placed at the blocks that a case wants them at.

The disk is filled up, and then as many blocks of the filling are freed as the next part of a file
needs, so that the allocator has no choice. The kernel's FIEMAP has to confirm the result.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from sample_images.recipes import machine, syscalls
from sample_images.recipes.nist.objects import KINDS, CaseTruth, ItemTruth, times_of
from sample_images.recipes.nist.tagged import PART, content, identifying_size, tag_of
from sample_images.recipes.ondisk import Disk, Extent, merged
from sample_images.recipes.stage import Name, Stage, fiemap

BLOCK = 4096
PARTS = BLOCK // PART  # in a block
FILLING = b"filling"
CHUNK = 1 << 20
FIRST_BLOCKS = 16
ALIGNED = 64  # the allocator counts free blocks in pieces that are so aligned
SLACK = 700  # bytes of the last block that a file does not use
PUNCH = syscalls.Fallocate.PUNCH_HOLE | syscalls.Fallocate.KEEP_SIZE
SYSFS = Path("/sys/fs/ext4")
EXACT = {"reserved_clusters": "0", "mb_group_prealloc": "1"}

Run = tuple[int, int]  # first block counted from the start of the plot, blocks


class PlacementError(machine.MachineError):
    """The kernel put blocks elsewhere than the case wants them."""


class Site:
    """A mounted file system, its filling, and the truth of what is deleted.

    Attributes:
        truth: what was deleted so far.
        plot: first block of the longest run of the filling, where files are placed.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.truth = CaseTruth()
        self.plot = 0
        self._filling_at = 0  # the part of the filling, in blocks, that lies at the plot
        self._tags: dict[int, str] = {}

    # -- mounts ---------------------------------------------------------------------------

    def remount(self) -> None:
        """Unmount and mount again: everything has come to the disk."""
        self.stage.remount()
        if self.plot:
            self._tune()

    def _tune(self) -> None:
        """Reserve no blocks, and preallocate none."""
        for name, value in EXACT.items():
            (SYSFS / self.stage.device.name / name).write_text(value)

    # -- writing --------------------------------------------------------------------------

    def write(self, name: Name, size: int) -> bytes:
        """A file of so many bytes or some more, where the kernel puts it; parents are made."""
        path = os.fsencode(name)
        self.stage.write(path, content(tag_of(path), identifying_size(size)))
        self._mark(path, tag_of(path))
        return path

    def append(self, name: Name, size: int) -> None:
        """So many bytes more at the end of a file."""
        path = self.stage.path(name)
        found = path.stat()
        whole = content(self._tags[found.st_ino], identifying_size(found.st_size + size))
        self.stage.add(name, [(found.st_size, whole[found.st_size :])])

    def save_over(self, name: Name, size: int, draft: Name) -> None:
        """What an editor does: another file, written in full, takes the place of a file."""
        self.write(draft, size)
        self.stage.sync()
        self._record([os.fsencode(name)])
        self.stage.rename(draft, name)

    def _mark(self, path: bytes, tag: str) -> None:
        self._tags[self.stage.path(path).lstat().st_ino] = tag

    # -- placing --------------------------------------------------------------------------

    def fill(self) -> None:
        """Fill the disk to the last block; directories of files to be placed are there by now."""
        self._tune()
        path, tag = self.stage.path(FILLING), tag_of(FILLING)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            for at in range(0, FIRST_BLOCKS, 2):  # its map gets a leaf, with room for all holes
                os.pwrite(handle, content(tag, BLOCK, at * PARTS), at * BLOCK)
            os.fsync(handle)
            size = FIRST_BLOCKS * BLOCK
            for step in (CHUNK, BLOCK):
                size = _write_until_full(handle, tag, size, step)
            os.ftruncate(handle, size)
            os.fsync(handle)
            extents, _ = fiemap(handle, BLOCK)
        finally:
            os.close(handle)
        self._mark(FILLING, tag)
        logical, block, _, _ = max(extents, key=lambda extent: extent[2])
        self.plot = block + 1 + -(block + 1) % ALIGNED
        self._filling_at = logical + self.plot - block

    def free(self, runs: Iterable[Run]) -> None:
        """Free so many blocks of the filling, counted from the start of the plot."""
        handle = os.open(self.stage.path(FILLING), os.O_WRONLY)
        try:
            for start, count in runs:
                at = (self._filling_at + start) * BLOCK
                syscalls.fallocate(handle, PUNCH, at, count * BLOCK)
        finally:
            os.close(handle)
        self.stage.sync()

    def place(self, name: Name, runs: Sequence[Run], slack: int = SLACK) -> bytes:
        """A file whose blocks are these runs of the plot, in this order.

        Raises:
            PlacementError: the kernel put it elsewhere.
        """
        path = os.fsencode(name)
        done = 0
        for start, count in runs:
            for at in range(start, start + count):
                self.free([(at, 1)])
                self._extend(path, done, 1)
                done += 1
        self._finish(path, done * BLOCK - slack)
        wanted, at = [], 0
        for start, count in runs:
            wanted.append((at, self.plot + start, count, False))
            at += count
        if self.map(path) != merged(wanted):
            raise PlacementError(f"{name!r}: placed at {self.map(path)}, not at {wanted}")
        return path

    def scatter(self, name: Name, runs: Sequence[Run], slack: int = SLACK) -> bytes:
        """A file over all these runs, in the order that the kernel takes them."""
        path = os.fsencode(name)
        self.free(runs)
        count = sum(count for _, count in runs[1:])  # one run is left for blocks of the map
        self._extend(path, 0, count)
        self._finish(path, count * BLOCK - slack)
        return path

    def reuse(self, name: Name, count: int, wanted: dict[bytes, list[int]]) -> None:
        """A file of so many blocks, which has to reuse these blocks of deleted files.

        Args:
            name: of the file.
            count: of its blocks.
            wanted: numbers of blocks in a deleted file, by its path.

        Raises:
            PlacementError: the kernel took others.
        """
        path = os.fsencode(name)
        self._extend(path, 0, count)
        self._finish(path, count * BLOCK - SLACK)
        theirs = {block + at for _, block, length, _ in self.map(path) for at in range(length)}
        victims = {one.paths[0]: one.blocks for one in self.truth.deleted}
        taken = {victim: _blocks_in(victims[victim], theirs) for victim in wanted}
        if taken != wanted:
            raise PlacementError(f"{name!r} took {taken}, not {wanted}")

    def _extend(self, path: bytes, done: int, count: int) -> None:
        """Write further blocks.

        Raises:
            PlacementError: there is no room, as the kernel put others elsewhere.
        """
        data = content(tag_of(path), count * BLOCK, done * PARTS)
        handle = os.open(self.stage.path(path), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for at in range(0, len(data), BLOCK):
                os.pwrite(handle, data[at : at + BLOCK], done * BLOCK + at)
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise PlacementError(f"{path!r} has no room for {count} blocks") from error
        finally:
            os.close(handle)

    def _finish(self, path: bytes, size: int) -> None:
        """Cut a file to its size, its last block filled with zeros, and dress it."""
        machine.truncate(self.stage.path(path), size)
        self.stage.dress(path)
        self._mark(path, tag_of(path))
        self.stage.sync()

    def map(self, name: Name) -> list[Extent]:
        """A file's map as the kernel reports it."""
        handle = os.open(self.stage.path(name), os.O_RDONLY | os.O_NOATIME)
        try:
            return fiemap(handle, BLOCK)[0]
        finally:
            os.close(handle)

    # -- deleting -------------------------------------------------------------------------

    def remove(self, names: Iterable[Name]) -> None:
        """Write down and delete, in this order; directories are empty by then."""
        doomed = [os.fsencode(name) for name in names]
        self.stage.sync()
        self._record(doomed)
        for name in doomed:
            path = self.stage.path(name)
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        self.stage.sync()

    def remove_tree(self, name: Name) -> None:
        """Write down all that is below a directory, then what `rm -rf` does."""
        self.stage.sync()
        self._record([os.fsencode(name), *self._below(name)])
        machine.run("rm", "-rf", "--", self.stage.path(name))
        self.stage.sync()

    def _below(self, name: Name) -> list[bytes]:
        found = self.stage.path(name).rglob("*")
        return sorted(os.fsencode(path.relative_to(self.stage.root)) for path in found)

    def _record(self, names: Sequence[bytes]) -> None:
        items = self._looked_at(names)
        self.truth.deleted += items
        files = [one for one in items if one.kind == "file"]
        self.stage.record(one.paths[0] for one in files)
        for one, recorded in zip(files, self.stage.book[-len(files) :] if files else (),
                                 strict=True):  # fmt: skip
            one.blocks = recorded.truth.blocks

    def _looked_at(self, names: Sequence[bytes]) -> list[ItemTruth]:
        by_inode: dict[int, ItemTruth] = {}
        with Disk(self.stage.device) as disk:
            for name in names:
                item = self._item(name, disk)
                by_inode.setdefault(item.inode, item).paths.append(name)
        return list(by_inode.values())

    def _item(self, name: bytes, disk: Disk) -> ItemTruth:
        path = self.stage.path(name)
        found = path.lstat()
        slot = disk.slot(found.st_ino)
        kind = KINDS[stat.S_IFMT(found.st_mode)]
        is_device = kind.endswith("dev")
        number = found.st_ino
        return ItemTruth(
            [], kind, number, slot.generation, found.st_mode, found.st_uid, found.st_gid,
            found.st_size, times_of(slot),
            tag=self._tags.get(number, "") if kind == "file" else "",
            target=os.fsencode(path.readlink()) if kind == "symlink" else None,
            device=(os.major(found.st_rdev), os.minor(found.st_rdev)) if is_device else None,
        )  # fmt: skip

    def finished(self) -> CaseTruth:
        """The truth at the end: what was deleted, and what is there."""
        self.stage.sync()
        self.truth.live = self._looked_at(self._below("."))
        return self.truth


def _blocks_in(extents: Sequence[Extent], taken: set[int]) -> list[int]:
    """Which blocks of a map, by their number in the file, are among those taken."""
    return [
        logical + at
        for logical, block, count, _ in extents
        for at in range(count)
        if block + at in taken
    ]


def _write_until_full(handle: int, tag: str, size: int, step: int) -> int:
    """Write in steps until nothing more goes; the size in whole blocks."""
    while True:
        try:
            done = os.pwrite(handle, content(tag, step, size // PART), size)
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return size
        size += done - done % BLOCK
        if done < step:
            return size
