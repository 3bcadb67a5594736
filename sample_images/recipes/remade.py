"""Recipes for a file system that `mke2fs` was run over, or whose superblocks are gone.

The old file system is filled and unmounted; then a new one is made over it, lazily and without
discarding, so that most of the old stays. The truth is about the files of the old one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.contents import noise, text
from sample_images.recipes.judge import directory_entries
from sample_images.recipes.ondisk import Disk, Extent, Slot
from sample_images.recipes.recipe import MIB, plant, shuffled
from sample_images.recipes.stage import Recorded, Stage, staged
from sample_images.recipes.truth import Built, LiveFile, Truth

NEW_UUID = "5ec0ad00-0000-4000-8000-00000000e4f5"
LAZY = "lazy_itable_init=1,nodiscard"
SUPERBLOCK_AT, SUPERBLOCK_SIZE = 1024, 1024


@dataclass(frozen=True, slots=True)
class Remade:
    """One image to make.

    Attributes:
        about: one line on what happens.
        old: for the first mke2fs; again: for the second, None when only the superblocks and
            descriptors are wiped.
        fill: makes the old files.
        after: what is done in the new file system; None when it is never mounted.
        cut: power is cut before the second mke2fs, the old log not replayed.
        size: of the image, bytes.
        slow: not among the quick ones.
    """

    name: str
    about: str
    old: tuple[str, ...]
    again: tuple[str, ...] | None
    fill: Callable[[Stage], None]
    after: Callable[[Stage], None] | None = None
    cut: bool = False
    size: int = 512 * MIB
    slow: bool = False


def few(stage: Stage) -> None:
    """Some files below three folders of the root, of which one has nothing but a folder."""
    for folder in ("home", "etc", "usr/share"):
        plant(stage, folder, 60)


def many(stage: Stage) -> None:
    """Some 2,000 files, several levels deep."""
    for folder in ("home", "etc", "srv", "var"):
        plant(stage, folder, 500)


def real(stage: Stage) -> None:
    """A tree of real files: what this machine shares between its programs."""
    stage.mkdir("usr/share")
    for name in ("perl", "doc", "zoneinfo", "bash-completion", "locale", "man", "misc"):
        found = Path("/usr/share") / name
        if found.is_dir():
            machine.run("cp", "-a", found, stage.path("usr/share"))
    plant(stage, "home", 200)


def overtaken(stage: Stage) -> None:
    """Files removed and their space taken by others, all of which only the log has."""
    few(stage)
    stage.remount()
    stage.remove(shuffled(stage.files("home"), "overtaken"))
    stage.commit()
    for at in range(150):
        content = noise(f"overtaking {at}", 1350 * at + 500)
        stage.write(f"new/{at:03d}.bin", content)
        stage.add(f"new/{at:03d}.bin", [(0, content[:1])])  # that syncs the file, and it alone


def removed_before(stage: Stage) -> None:
    """Files removed, and others made, before the file system was lost."""
    few(stage)
    stage.remount()
    stage.remove(shuffled(stage.files("home"), "gone"))
    stage.sync()
    plant(stage, "later", 20)


def write_few(stage: Stage) -> None:
    """The new file system in use: some files, of which a part goes again."""
    for at in range(24):
        stage.write(f"new/{at:02d}.txt", text(f"new {at}", 3000 + 4000 * at))
    stage.write("big.bin", noise("big", 3 * MIB))
    stage.sync()
    for at in range(0, 24, 3):
        stage.path(f"new/{at:02d}.txt").unlink()


EXT4 = ("-t", "ext4", "-J", "size=8")
CUT = ("-t", "ext4", "-J", "size=24")
REMADE: dict[str, Remade] = {
    one.name: one
    for one in (
        Remade("remade_same", "made anew with the same options", EXT4, EXT4, few),
        Remade("remade_mounted", "made anew, mounted and used", EXT4, EXT4, few, write_few),
        Remade("remade_inodes", "made anew with more inodes", EXT4, (*EXT4, "-N", "90000"), few,
               slow=True),
        Remade("remade_inode_128", "made anew with inodes of 128 bytes", EXT4,
               (*EXT4, "-I", "128"), few, slow=True),
        Remade("remade_journal", "made anew with a smaller log",
               ("-t", "ext4", "-J", "size=32"), ("-t", "ext4", "-J", "size=4"), few, slow=True),
        Remade("remade_1k", "blocks of 4 KiB, then of 1 KiB", EXT4, (*EXT4, "-b", "1024"), few),
        Remade("remade_as_ext3", "ext4, then ext3", EXT4, ("-t", "ext3", "-J", "size=8"), few,
               slow=True),
        Remade("remade_from_ext3", "ext3, then ext4", ("-t", "ext3", "-J", "size=8"), EXT4, few),
        Remade("remade_from_1k", "blocks of 1 KiB, then of 4 KiB", (*EXT4, "-b", "1024"), EXT4,
               few, slow=True),
        Remade("remade_no_checksums", "without metadata_csum, then with the same options",
               (*EXT4, "-O", "^metadata_csum,uninit_bg"),
               (*EXT4, "-O", "^metadata_csum,uninit_bg"), few, slow=True),
        Remade("remade_from_128", "inodes of 128 bytes, then of 256", (*EXT4, "-I", "128"), EXT4,
               few, slow=True),
        Remade("superblocks_gone", "all superblocks and descriptors wiped", EXT4, None, few),
        Remade("ext3_superblocks_gone", "ext3, all superblocks and descriptors wiped",
               ("-t", "ext3", "-J", "size=8"), None, few),
        Remade("remade_cut", "power cut, then made anew", CUT, CUT, overtaken, cut=True,
               size=64 * MIB),
        Remade("remade_without_log", "files removed, then made anew without a log", EXT4,
               ("-t", "ext4", "-O", "^has_journal"), removed_before, size=128 * MIB),
        Remade("cut_superblocks_gone", "power cut, superblocks and descriptors wiped", CUT, None,
               overtaken, cut=True, size=64 * MIB, slow=True),
        Remade("remade_many", "2,000 files, made anew with the same options", EXT4, EXT4, many,
               size=1024 * MIB, slow=True),
        Remade("remade_real", "real files, made anew with the same options", EXT4, EXT4, real,
               size=2048 * MIB, slow=True),
        Remade("remade_real_inodes", "real files, made anew with fewer inodes", EXT4,
               (*EXT4, "-N", "20000"), real, size=2048 * MIB, slow=True),
        Remade("real_superblocks_gone", "real files, superblocks and descriptors wiped", EXT4,
               None, real, size=2048 * MIB, slow=True),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Old:
    """The old file system as it was: states, and where each inode's slot was (byte).

    Attributes:
        removed: how many states, the first ones, are of files that it had removed itself.
    """

    book: list[Recorded]
    block_size: int
    place: dict[int, int]
    removed: int


def build_remade(name: str, directory: Path) -> Built:
    """Make the image of one recipe and its truth.

    Args:
        name: of the recipe.
        directory: where the two files go; made when it is not there.

    Raises:
        KeyError: no such recipe.
        MachineError: a tool failed; needs root and loop devices.
    """
    recipe = REMADE[name]
    directory.mkdir(parents=True, exist_ok=True)
    built = Built.of(name, directory)
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{name}-") as scratch:
        backing = Path(scratch) / "backing.img"
        machine.make_file_system(backing, recipe.size, recipe.old)
        old = _fill(recipe, backing)
        live = _make_anew(recipe, backing)
        shutil.move(backing, built.image)
    _judge(built.image, old)
    if recipe.again is None:  # the log is there, and tells what was removed
        for recorded in old.book[: old.removed]:
            recorded.truth.inode_known = ""
    Truth(name, [recorded.truth for recorded in old.book], live).save(built.truth)
    return built


def _fill(recipe: Remade, backing: Path) -> _Old:
    cut = backing.with_name("cut.img")
    with staged(backing, "", small=False) as stage:
        recipe.fill(stage)
        if recipe.cut:
            machine.copy_sparse(backing, cut)
        stage.sync()
        stage.remount()
        stage.sync()
        removed = len(stage.book)
        stage.record_tree()
        with Disk(stage.device) as disk:
            size, slots = disk.block_size, {}
            for recorded in stage.book:
                block, offset = disk.slot_place(recorded.truth.inode)
                slots[recorded.truth.inode] = block * size + offset
    if recipe.cut:
        cut.replace(backing)
    return _Old(stage.book, size, slots, removed)


def _make_anew(recipe: Remade, backing: Path) -> list[LiveFile]:
    """What came over the old file system; the files of the new one."""
    if recipe.again is None:
        _wipe(backing)
        return []
    block_size = () if "-b" in recipe.again else ("-b", "4096")
    extended = f"hash_seed={machine.HASH_SEED},{LAZY}"
    machine.run("mke2fs", "-q", "-F", "-U", NEW_UUID, "-E", extended, *block_size,
                *recipe.again, backing)  # fmt: skip
    if recipe.after is None:
        return []
    with staged(backing, "", small=False) as stage:
        recipe.after(stage)
        stage.sync()
        return stage.living()[0]


def _wipe(backing: Path) -> None:
    """Zeros over every superblock copy and every group descriptor, as dumpe2fs tells them."""
    said = machine.dumpe2fs(backing)
    size = int(re.findall(r"Block size: +(\d+)", said)[0])
    places = re.findall(r"superblock at (\d+)(?:, Group descriptors at (\d+)-(\d+))?", said)
    handle = os.open(backing, os.O_WRONLY)
    try:
        for copy, first, last in places:
            place = int(copy) * size or SUPERBLOCK_AT
            os.pwrite(handle, bytes(SUPERBLOCK_SIZE), place)
            if first:
                count = int(last) - int(first) + 1
                os.pwrite(handle, bytes(count * size), int(first) * size)
    finally:
        os.close(handle)


def _judge(image: Path, old: _Old) -> None:
    """Settle for each old file whether its blocks, its inode and all names still stand."""
    names = _names_anywhere(image, old.block_size)
    handle = os.open(image, os.O_RDONLY)
    try:
        for recorded in old.book:
            truth, size = recorded.truth, old.block_size
            slot = Slot(os.pread(handle, len(recorded.slot.raw), old.place[truth.inode]))
            stands = slot.signature == recorded.slot.signature and all(
                _digest(os.pread(handle, one.length, one.block * size)) == one.sha256
                for one in recorded.tree
            )
            truth.inode_known = "disk" if stands else ""
            content = b"".join(_content(handle, truth.blocks, truth.size, size))
            truth.blocks_hold = _digest(content) == truth.sha256
            truth.path_in_log = all((number, name) in names for number, name, _ in recorded.names)
    finally:
        os.close(handle)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _content(handle: int, blocks: list[Extent], size: int, block_size: int) -> Iterator[bytes]:
    at = 0
    for logical, first, count, unwritten in blocks:
        if logical * block_size >= size:
            return
        yield bytes(logical * block_size - at)
        length = min(count * block_size, size - logical * block_size)
        yield bytes(length) if unwritten else os.pread(handle, length, first * block_size)
        at = logical * block_size + length
    yield bytes(size - at)


def _names_anywhere(image: Path, block_size: int) -> set[tuple[int, bytes]]:
    """(inode, name) of every entry in any block that reads as one of a directory."""
    found: set[tuple[int, bytes]] = set()
    with image.open("rb") as opened:
        end = image.stat().st_size
        at = 0
        while at < end:
            try:
                at = os.lseek(opened.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at -= at % block_size
            stop = os.lseek(opened.fileno(), at, os.SEEK_HOLE)
            for place in range(at, stop, block_size):
                block = os.pread(opened.fileno(), block_size, place)
                if block[5:6] <= b"\x10" and block[6:7] != b"\0":
                    found |= directory_entries(block)
            at = max(stop, at + block_size)
    return found
