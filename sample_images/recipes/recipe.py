"""What a recipe is, and the steps that many of them share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from sample_images.recipes.contents import ODD_NAMES, WORDS, mixed
from sample_images.recipes.stage import Stage

MIB = 1 << 20
SUFFIXES = (".txt", ".log", ".jpg", ".tar.gz", "", ".conf", ".db")


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image to make.

    Attributes:
        about: one line on what happens.
        act: what is done in the mounted file system.
        options: for mke2fs.
        size: of the image, bytes.
        power_cut: the image is what the disk holds while still mounted.
        mount_options: for mount.
        slow: takes minutes.
        small_size: of the image in the small variant, bytes; 0 when there is none.
        forgotten: the log has nothing or little of what is removed.
    """

    name: str
    about: str
    act: Callable[[Stage], None]
    options: tuple[str, ...] = ("-t", "ext4", "-J", "size=8")
    size: int = 128 * MIB
    power_cut: bool = False
    mount_options: str = ""
    slow: bool = False
    small_size: int = 0
    forgotten: bool = False


def plant(stage: Stage, seed: str, full: int, small: int = 0) -> list[bytes]:
    """Files of mixed sizes in a few nested folders below `seed`, the odd names among them.

    Args:
        stage: where.
        seed: the top folder's name; decides about all contents.
        full: how many files.
        small: how many in the small variant; a third when 0.

    Returns:
        The paths, in the order in which they were made.
    """
    chance = random.Random(f"plant {seed}")
    number = stage.count(full, small or full // 3)
    paths = [b"%s/odd names/%s" % (seed.encode(), odd) for odd in ODD_NAMES[: number // 4]]
    while len(paths) < number:
        folder = "/".join(chance.choices(WORDS[:6], k=chance.randint(1, 3)))
        name = f"{chance.choice(WORDS)}-{len(paths):04d}{chance.choice(SUFFIXES)}"
        paths.append(f"{seed}/{folder}/{name}".encode())
    for path in paths:
        stage.write(path, mixed(path.decode(errors="replace"), stage.small))
    return paths


def shuffled(paths: list[bytes], seed: str) -> list[bytes]:
    """The same paths in another order that is always the same."""
    return random.Random(f"shuffle {seed}").sample(paths, len(paths))


def make_ballast(stage: Stage, number: int) -> list[bytes]:
    """Empty files, 16 to an inode-table block of 4 KiB, for `wrap_log` to work on."""
    paths = [f"ballast/{at:05d}".encode() for at in range(number)]
    for path in paths:
        stage.path(path).parent.mkdir(exist_ok=True)
        stage.path(path).touch()
    return paths


def wrap_log(stage: Stage, ballast: list[bytes], rounds: int) -> None:
    """Push older transactions out of the log without allocating a block: only modes change."""
    for number in range(rounds):
        for path in ballast:
            stage.path(path).chmod(0o600 + number % 8)
        stage.sync()
