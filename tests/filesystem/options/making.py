"""From an option set to an image, and what the kernel says is in it; how it is changed later."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.machine import MachineError
from tests.filesystem.matrix_oracle import Tree, kernel_tree
from tests.filesystem.options.drawing import LARGEST_MOUNTED, OptionSet
from tests.filesystem.options.filling import Filler

PLAIN = "noatime"  # mount options where there is no journal


def make(chosen: OptionSet, image: Path, source: Path | None = None) -> None:
    """An empty file system, or one with a copy of `source`.

    Raises:
        MachineError: mke2fs does not make it.
    """
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(chosen.room * chosen.block_size)
    words = ["mke2fs", "-q", "-F", *chosen.options, "-b", str(chosen.block_size)]
    if chosen.bad_blocks:
        bad = image.with_suffix(".bad")
        bad.write_text("".join(f"{block}\n" for block in chosen.bad_blocks))
        words += ["-l", str(bad)]
    if source is not None:
        words += ["-d", str(source)]
    machine.run(*words, image, str(chosen.blocks))


@contextmanager
def mounted(image: Path, options: str) -> Iterator[tuple[Path, Path]]:
    """(the loop device, the mount point) of an image, for the time of the context.

    Raises:
        MachineError: the kernel does not mount it.
    """
    root = image.with_suffix(".mounted")
    root.mkdir()
    try:
        with ExitStack() as stack:
            device = stack.enter_context(machine.loop_device(image))
            try:
                machine.mount(device, root, options)
            except MachineError:
                if options == PLAIN:
                    raise
                machine.mount(device, root, PLAIN)
            stack.callback(machine.unmount, root)
            yield device, root
    finally:
        root.rmdir()


def is_mountable(chosen: OptionSet) -> bool:
    """Whether it is worth trying; a mount with mmp waits for seconds."""
    asked = [word for word in chosen.options if "mmp" in word and "^mmp" not in word]
    return chosen.block_size <= LARGEST_MOUNTED and not asked


def fill_mounted(chosen: OptionSet, image: Path) -> Tree | None:
    """Fill through the kernel and read back through it; None where it does not mount."""
    try:
        with mounted(image, chosen.mount_options) as (_, root):
            Filler(root, random.Random(chosen.seed), chosen.block_size).fill()
    except MachineError:
        return None
    return read_mounted(
        chosen, image
    )  # not from the cache: a full disk may not have taken all of it


def fill_offline(chosen: OptionSet, image: Path) -> None:
    """Make the file system anew as a copy of a folder.

    Raises:
        MachineError: it does not fit.
    """
    source = image.with_suffix(".source")
    source.mkdir()
    try:
        Filler(source, random.Random(chosen.seed), chosen.block_size, is_copied=True).fill()
        make(chosen, image, source)
    finally:
        shutil.rmtree(source)


def read_mounted(chosen: OptionSet, image: Path) -> Tree | None:
    """What the kernel reads of an image that nothing is written to; None where it cannot."""
    if chosen.block_size > LARGEST_MOUNTED:
        return None
    try:
        with mounted(image, "ro,noload") as (_, root):
            return kernel_tree(root)
    except (MachineError, OSError):
        return None


# ---- changes

_TOOLS = {
    "shrink most": "resize2fs -M",
    "64bit": "resize2fs -b",
    "not 64bit": "resize2fs -s",
    "metadata_csum": "tune2fs -O metadata_csum",
    "not metadata_csum": "tune2fs -O ^metadata_csum",
    "uninit_bg": "tune2fs -O uninit_bg",
    "inode size": "tune2fs -I 256",
    "uuid": "tune2fs -U random",
    "no journal": "tune2fs -O ^has_journal",
    "journal": "tune2fs -j",
    "quota": "tune2fs -O quota",
    "no quota": "tune2fs -O ^quota",
    "project": "tune2fs -O project -Q prjquota",
    "orphan_file": "tune2fs -O orphan_file",
    "no orphan_file": "tune2fs -O ^orphan_file",
    "no resize_inode": "tune2fs -O ^resize_inode",
    "reindexed": "e2fsck -fyD",
    "no flex_bg": "tune2fs -O ^flex_bg",
    "hash": "tune2fs -E hash_alg=tea",
    "ea_inode": "tune2fs -O ea_inode",
    "sparse_super": "tune2fs -O sparse_super",
    "raid": "tune2fs -E stride=16,stripe_width=64 -r 10 -c 20 -L changed",
    "inline_data": "tune2fs -O inline_data",
    "read-only": "tune2fs -O read-only",
}


def change(chosen: OptionSet, name: str, image: Path) -> bool:
    """Resize or convert; whether that was done. What tools leave behind, e2fsck brings in order."""
    by_kernel = {"grow online": _grow_online, "extents": _to_extents}
    try:
        if name in by_kernel:
            by_kernel[name](chosen, image)
        elif name in ("grow offline", "shrink"):
            blocks = chosen.room if name == "grow offline" else chosen.blocks * 3 // 4
            machine.check(image)
            machine.run("resize2fs", image, str(blocks))
        else:
            machine.check(image)
            machine.run(*_TOOLS[name].split(), image)
    except MachineError:
        with suppress(MachineError):  # a tool that fails leaves multi-mount protection in force
            machine.run("tune2fs", "-f", "-E", "clear_mmp", image)
        machine.check(image)
        return False
    machine.check(image)
    return True


def _grow_online(chosen: OptionSet, image: Path) -> None:
    with mounted(image, chosen.mount_options) as (device, _):
        machine.run("resize2fs", device, str(chosen.room))


def _to_extents(chosen: OptionSet, image: Path) -> None:
    """Maps by indirect blocks become extents, file by file."""
    machine.check(image)
    machine.run("tune2fs", "-O", "extents", image)
    machine.check(image)
    with mounted(image, chosen.mount_options) as (_, root):
        tool = random.Random(chosen.seed).choice((["chattr", "-R", "+e"], ["e4defrag"]))
        command = [*tool, os.fspath(root)]
        with suppress(OSError):
            subprocess.run(command, capture_output=True, check=False)
