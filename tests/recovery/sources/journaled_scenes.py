"""Recipes where contents or attributes of what went are in the log, or in freed blocks."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

from sample_images.recipes.contents import noise, text
from sample_images.recipes.logwalk import copies_in_log
from sample_images.recipes.machine import run
from sample_images.recipes.ondisk import Disk, Slot
from sample_images.recipes.recipe import MIB, Recipe, make_ballast, shuffled, wrap_log
from sample_images.recipes.stage import Stage
from sample_images.recipes.syscalls import fallocate
from tests.recovery.sources.scenes import LONG_AGO

LOG_4, LOG_16 = ("-t", "ext4", "-J", "size=4"), ("-t", "ext4", "-J", "size=16")
INLINE = ("-O", "inline_data")
SPARE = 64 << 10  # bytes that the file system keeps for its own blocks
NOTE = "attribute of "  # with the path: the attribute that every file of these recipes has


def no_reserve(stage: Stage) -> None:
    """Let files have all free blocks."""
    Path(f"/sys/fs/ext4/{stage.device.name}/reserved_clusters").write_text("0")


def leave_free(stage: Stage, size: int) -> None:
    """Give all but `size` bytes of the free space to a file that was never written."""
    no_reserve(stage)
    found = os.statvfs(stage.root)
    with stage.path("filler").open("ab") as stream:
        more = found.f_bfree * found.f_frsize - size
        fallocate(stream.fileno(), 0, stream.tell(), more)
    stage.sync()


def plant_files(stage: Stage, top: str, number: int, most: int) -> list[bytes]:
    """Texts and noise of some hundred to `most` bytes, in five folders."""
    chance = random.Random(top)
    paths = [f"{top}/{at % 5}/{top}-{at:03d}" for at in range(number)]
    for at, path in enumerate(paths):
        size = chance.randint(100, most)
        stage.write(path, text(path, size) if at % 3 else noise(path, size))
    return [path.encode() for path in paths]


# -- contents that went through the log ---------------------------------------------------------


def data_reused(stage: Stage) -> None:
    """Files go, and others are written over all of their blocks; the log has both."""
    leave_free(stage, 3 * MIB)
    old = plant_files(stage, "old", 60, 60_000)
    stage.remove(shuffled(old, "reused"))
    stage.sync()
    plant_files(stage, "new", 60, 60_000)
    stage.sync()


def data_turned(stage: Stage) -> None:
    """As `data_reused`, each old file with its later half in front of the earlier one."""
    pads = [f"pad/{at:02d}" for at in range(32)]
    for path in pads:  # each takes 64 KiB behind the one before
        stage.write(path, noise(path, 64 << 10))
    stage.sync()
    leave_free(stage, SPARE)
    old = [f"old/{at:02d}" for at in range(16)]
    for first, there in ((0, pads[16:]), (32 << 10, pads[:16])):
        stage.remove(there)
        stage.sync()
        for path in old:
            if not first:
                stage.write(path, b"")
            stage.add(path, [(first, noise(f"{path} {first}", 32 << 10))])
        leave_free(stage, SPARE)
        stage.sync()
    stage.remove(shuffled([path.encode() for path in old], "turned"))
    stage.sync()
    for at in range(16):
        stage.write(f"new/{at:02d}", noise(f"new {at}", 60_000))
    stage.sync()


def data_rewritten(stage: Stage) -> None:
    """Files written over in their place three times, half of them removed then."""
    paths = plant_files(stage, "book", 30, 40_000)
    stage.sync()
    for turn in range(3):
        stage.record(paths)
        for at, path in enumerate(paths):
            size = stage.path(path).stat().st_size
            first = 0 if at % 3 == 0 else size // 2
            with stage.path(path).open("r+b") as stream:
                stream.seek(first)
                stream.write(noise(f"{path!r} {turn}", size - first))
        stage.sync()
    stage.remove(paths[::2])
    stage.sync()


def data_loose(stage: Stage) -> None:
    """As `data_reused`; then the log goes on until the old descriptors are overwritten."""
    leave_free(stage, 3 * MIB // 2)
    ballast = make_ballast(stage, 800)
    stage.remount()
    no_reserve(stage)
    wrap_log(stage, ballast, 4)
    stage.remove(shuffled(plant_files(stage, "old", 60, 30_000), "loose"))
    stage.sync()
    free = os.statvfs(stage.root)
    stage.write("new", noise("new", (free.f_bfree - 40) * free.f_frsize))
    stage.sync()
    _go_on(stage, ballast[:160:16])


def _go_on(stage: Stage, ballast: list[bytes]) -> None:
    """Fill the log until undescribed blocks have half of the states in the book."""
    wanted = {one.slot.signature for one in stage.book}
    for number in range(800):
        for path in ballast:
            stage.path(path).chmod(0o600 + number % 8)
        stage.sync()
        if number % 2:
            continue
        with Disk(stage.device) as disk:
            loose = _slots(disk, copies_in_log(disk).undescribed)
        if 2 * len(wanted & loose) > len(wanted):
            return


def _slots(disk: Disk, blocks: Iterable[bytes]) -> set[bytes]:
    """Signatures of all inodes in some blocks, whatever these are."""
    size = disk.inode_size
    slots = (block[at : at + size] for block in blocks for at in range(0, len(block), size))
    return {Slot(slot).signature for slot in slots}


# -- attributes and inline data -----------------------------------------------------------------


def _with_attributes(stage: Stage, path: str, at: int, size: int) -> bytes:
    """A file with one attribute in its inode, and with more for some, which takes a block."""
    stage.write(path, text(path, size))
    os.setxattr(stage.path(path), "user.note", (NOTE + path).encode())
    if at % 3 == 0:
        os.setxattr(stage.path(path), "user.big", noise(NOTE + path, 600))
    return path.encode()


def inline_loose(stage: Stage) -> None:
    """Files within their inodes; the log has no descriptor any more for what it has of them."""
    ballast = make_ballast(stage, 320)
    doomed = [
        _with_attributes(stage, f"small/{at % 4}/{at:03d}", at, 1 + at % 100) for at in range(120)
    ]
    stage.remount()
    wrap_log(stage, ballast, 50)
    for path in doomed:
        stage.path(path).chmod(0o640)
    stage.remove(shuffled(doomed, "inline"))
    stage.sync()
    _go_on(stage, ballast[:48:16])


def log_removed(stage: Stage) -> None:
    """The journal taken away: what it held is in free blocks."""
    ballast = make_ballast(stage, 320)
    doomed = [_with_attributes(stage, f"small/{at:03d}", at, 1 + at % 100) for at in range(100)]
    doomed += [_with_attributes(stage, f"large/{at:03d}", at, 3000 + at) for at in range(30)]
    stage.remount()
    wrap_log(stage, ballast, 4)
    stage.remove(shuffled(doomed, "removed"))
    stage.unmount()
    run("tune2fs", "-O", "^has_journal", stage.device)
    stage.mount()


def blocks_passed_on(stage: Stage) -> None:
    """Attribute blocks that later files take, some shared ones, and the log has none of them."""
    ballast = make_ballast(stage, 800)
    leave_free(stage, 190 * 4096)
    first = [_with_attributes(stage, f"first/{at:03d}", 0, 3000) for at in range(30)]
    lone = [_with_attributes(stage, f"lone/{at:03d}", 0, 3000) for at in range(20)]
    for path in (shared := [f"shared/{at:03d}" for at in range(20)]):
        stage.write(path, text(path, 3000))
        os.setxattr(stage.path(path), "user.same", noise("the same", 600))
    stage.remount()
    no_reserve(stage)
    wrap_log(stage, ballast, 40)
    for doomed in [*first, *lone, *(path.encode() for path in shared)]:
        stage.path(doomed).chmod(0o611)
    stage.remove([*first, *(path.encode() for path in shared[:10])])
    stage.sync()
    second = [_with_attributes(stage, f"second/{at:03d}", 0, 3000) for at in range(30)]
    stage.sync()
    stage.remount()
    stage.remove([*second[:15], *lone])
    stage.sync()


# -- maps ---------------------------------------------------------------------------------------


def in_pieces(stage: Stage) -> None:
    """Files of two to four extents of different lengths, each removed in a transaction alone."""
    ballast = make_ballast(stage, 800)
    paths = []
    for at in range(240):
        name = f"old/{at:03d}"
        if at % 8 == 0:
            _write_in_pieces(stage, name)
            paths.append(name.encode())
        else:
            stage.write(name, text(name, 3000))
    stage.remount()
    wrap_log(stage, ballast, 26)
    time.sleep(LONG_AGO)
    for at, path in enumerate(paths):
        stage.write(f"new/{at:03d}", text(f"new {at}", 5000))
        stage.remove([path])
        stage.sync()


def _write_in_pieces(stage: Stage, name: str) -> None:
    """A file between whose extents lie single blocks of another one."""
    chance = random.Random(name)
    lengths = chance.sample(range(1, 6), chance.choice((2, 3, 4)))
    data = noise(name, sum(lengths) * 4096 - chance.randint(1, 4000))
    for path in (name, name + ".between"):
        stage.write(path, b"")
    first = 0
    for at, length in enumerate(lengths):
        stage.add(name, [(first, data[first : first + length * 4096])])
        stage.add(name + ".between", [(at * 4096, text(f"{name} {at}", 4096))])
        first += length * 4096


RECIPES = (
    Recipe("data_reused", "journaled data, blocks written over", data_reused, LOG_16,
           size=48 * MIB, mount_options="data=journal"),
    Recipe("data_turned", "journaled data, later blocks in front", data_turned, LOG_16,
           size=48 * MIB, mount_options="data=journal"),
    Recipe("data_rewritten", "journaled data, written over in place", data_rewritten, LOG_16,
           size=48 * MIB, mount_options="data=journal"),
    Recipe("data_loose", "journaled data without a descriptor", data_loose, LOG_4,
           size=48 * MIB, mount_options="data=journal"),
    Recipe("inline_loose", "inline files without a descriptor", inline_loose,
           (*LOG_4, *INLINE), size=48 * MIB),
    Recipe("log_removed", "the old log in free blocks", log_removed, (*LOG_4, *INLINE),
           size=48 * MIB),
    Recipe("blocks_passed_on", "attribute blocks with later owners", blocks_passed_on, LOG_4,
           size=24 * MIB),
    Recipe("in_pieces", "several extents, one file a transaction", in_pieces, LOG_4,
           size=32 * MIB),
)  # fmt: skip
