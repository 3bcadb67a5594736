"""A recipe for directories that move before and after removals from them.

On kernels before 5.13 the entries that stay say nothing of when they went: where their directory
stands now need not be where it stood then. Names and inode numbers are used again as well.
"""

from __future__ import annotations

import random
import time

from sample_images.recipes.contents import mixed
from sample_images.recipes.recipe import Recipe, make_ballast, wrap_log
from sample_images.recipes.stage import Stage

TOPS = ("office", "projects", "mail", "photos", "music", "notes", "drafts", "server")
ROOMS = ("red", "blue", "green")
A_WHILE = 1.1  # seconds: times of deletion are told in whole ones


def moved_since(stage: Stage) -> None:
    """Three directories in three in each of eight; files go before, between and after moves."""
    ballast = make_ballast(stage, 1600)
    for top in TOPS:
        _fill(stage, top, stage.count(4, 2))
    _fill(stage, "lasting", 12)
    _later(stage)
    _thin(stage, "", 1)  # before any move
    _later(stage)
    stage.rename("office/red", "archive/old/red")  # away, with what was removed in it
    stage.rename("projects", "work/projects")
    _swap(stage, "mail/red", "mail/blue")  # the evidence of one move is overwritten by the next
    _later(stage)
    _thin(stage, "archive", 2)
    _thin(stage, "work/projects", 2)
    _thin(stage, "mail", 2)
    wrap_log(stage, ballast, 14)
    _later(stage)
    stage.rename("work/projects", "projects")  # there and back again
    stage.rename("photos/red/blue", "photos/blue/was red")
    stage.rename("photos", "pictures")
    _swap(stage, "music/red", "notes/red")
    _later(stage)
    _thin(stage, "pictures", 3)
    _thin(stage, "music", 3)
    _again(stage, "drafts/red/green")
    _replace(stage, "server/green")
    wrap_log(stage, ballast, 14)
    _later(stage)
    stage.rename("server/red", "server/blue/red one")  # after the last removal in it
    stage.rename("pictures/green", "lasting/pictures")
    _swap(stage, "drafts/blue", "drafts/green")
    _move_files(stage, "notes/green")
    _thin(stage, "lasting", 4)
    wrap_log(stage, ballast, 14)


def _fill(stage: Stage, top: str, number: int) -> None:
    for outer in ROOMS:
        for inner in ROOMS:
            for at in range(number):
                path = f"{top}/{outer}/{inner}/{top}-{outer}-{at}.txt".encode()
                stage.write(path, mixed(path.decode(), small=True))


def _later(stage: Stage) -> None:
    """Another day: nothing that was freed is remembered by the kernel."""
    stage.remount()
    time.sleep(A_WHILE)


def _thin(stage: Stage, below: str, seed: int) -> None:
    """Remove every third file below a directory, chosen by chance."""
    paths = [path for path in stage.files(below or ".") if not path.startswith(b"ballast")]
    stage.remove(random.Random(f"thin {below} {seed}").sample(paths, len(paths) // 3))


def _swap(stage: Stage, one: str, other: str) -> None:
    stage.rename(one, f"{one}.tmp")
    stage.rename(other, one)
    stage.rename(f"{one}.tmp", other)


def _again(stage: Stage, folder: str) -> None:
    """The same names in the same directory with other inodes, or others with the same inodes."""
    names = stage.files(folder)
    for turn in range(3):
        stage.remove(stage.files(folder))
        _later(stage)
        for path in names[turn:] + names[:turn]:
            stage.write(path, mixed(f"{path!r} again {turn}", small=True))
        for at in range(turn):
            stage.write(f"drafts/other-{turn}-{at}", b"takes a number")
    stage.remove(names[::2])


def _replace(stage: Stage, folder: str) -> None:
    """A tree that goes, and another one of the same names; files of it go."""
    names = stage.files(folder)
    stage.remove_tree(folder)
    _later(stage)
    for path in names:
        stage.write(path, mixed(f"{path!r} replaced", small=True))
    stage.remove(names[1::2])


def _move_files(stage: Stage, folder: str) -> None:
    """Files that are moved, or get another name, before they go."""
    for at, path in enumerate(stage.files(folder)):
        target = (path + b".old", b"lasting/" + path.rsplit(b"/", 1)[1], path)[at % 3]
        if target != path:
            stage.rename(path, target)
    _later(stage)
    stage.remove([path for path in stage.files("lasting") if b"notes" in path])
    stage.remove(stage.files(folder)[::2])


RECIPES = (
    Recipe(
        "moved_since", "directories moved before and after removals", moved_since,
        ("-t", "ext4", "-J", "size=4"), forgotten=True,
    ),
)  # fmt: skip
