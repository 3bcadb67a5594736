"""Recipes for corners where a careless recovery hands out the wrong bytes."""

from __future__ import annotations

import os

from sample_images.recipes.contents import noise, plain, text
from sample_images.recipes.machine import run
from sample_images.recipes.recipe import MIB, Recipe, plant, shuffled
from sample_images.recipes.stage import Stage


def reuse_by_metadata(stage: Stage) -> None:
    """Space taken by directories, attribute blocks, long symlinks and extent leaves."""
    doomed = [f"small/{at:04d}.bin".encode() for at in range(1500)]
    for path in doomed:
        stage.write(path, noise(path.decode(), 3900))
    stage.remount()
    stage.remove(doomed)
    stage.sync()
    for at in range(150):
        stage.mkdir(f"folders/{at:03d}")
        stage.write(f"attributes/{at:03d}", b"x")
        os.setxattr(stage.path(f"attributes/{at:03d}"), "user.note", noise(f"note {at}", 2000))
        stage.path(f"folders/{at:03d}/link").symlink_to("target/" * 40)
    for at in range(20):
        sieve = f"leaves/{at:02d}"
        stage.write(sieve, b"")
        stage.add(sieve, ((place * 8192, b"leaf") for place in range(8)))
    stage.sync()


def hard_links(stage: Stage) -> None:
    """Files with two names of which one goes, and files of which both go."""
    for at, path in enumerate(plant(stage, "one", 120)):
        twin = stage.path(f"two/{at:03d}")
        twin.parent.mkdir(exist_ok=True)
        twin.hardlink_to(stage.path(path))
    stage.remount()
    first = stage.files("one")
    stage.remove(first)
    stage.remove(stage.files("two")[::2])


def preallocated(stage: Stage) -> None:
    """Unwritten extents over old data, inside the file and behind its end."""
    old = [f"old/{at:03d}.bin".encode() for at in range(40)]
    for path in old:
        stage.write(path, noise(path.decode(), 300_000))
    stage.remove(old)
    stage.sync()
    fresh = [f"fresh/{at:03d}.bin".encode() for at in range(40)]
    for path in fresh:
        stage.write(path, b"")
        run("fallocate", "-l", "60000", stage.path(path))
        stage.add(path, [(8192, text(path.decode(), 10_000))])
        run("fallocate", "--keep-size", "-l", "200000", stage.path(path))
    stage.remount()
    stage.remove(fresh)


def cut_short_first(stage: Stage) -> None:
    """Files truncated to a part, grown again or emptied before they are removed."""
    paths = plant(stage, "logs", 150)
    stage.remount()
    for at, path in enumerate(paths):
        stage.record([path])
        size = stage.path(path).stat().st_size
        os.truncate(stage.path(path), (0, size // 2, size // 3, size + 5000)[at % 4])
        if at % 4 == 2:
            stage.add(path, [(size // 3, text(f"grown {path!r}", 2000))])
    stage.remove(shuffled(paths, "short"))


def data_journal_cut(stage: Stage) -> None:
    """Data only in the log at the power cut: the home blocks never got it."""
    old = plant(stage, "old", 40)
    stage.remount()
    new = plant(stage, "new", 60)
    stage.commit()
    stage.remove_committed(old + new)
    stage.commit()


def fast_commit(stage: Stage) -> None:
    """Small fsyncs go to the fast-commit area; the last removals are told there alone."""
    old = plant(stage, "old", 100)
    plant(stage, "keep", 30)
    stage.remount()
    stage.remove(old[:50])
    stage.sync()
    for at, path in enumerate(old[50:]):
        stage.save_over(path, plain(f"fast {at}", 5000)) if at % 2 else stage.remove([path])
        stage.commit()


RECIPES = (
    Recipe("reuse_by_metadata", "space reused by directories, attributes, leaves",
           reuse_by_metadata, size=64 * MIB),
    Recipe("hard_links", "files with two names", hard_links),
    Recipe("preallocated", "unwritten extents over old data", preallocated),
    Recipe("cut_short_first", "truncated or grown before removal", cut_short_first),
    Recipe("data_journal_cut", "data in an unreplayed log", data_journal_cut,
           ("-t", "ext4", "-J", "size=32"), power_cut=True, mount_options="data=journal"),
    Recipe("fast_commit", "fast commits, power cut", fast_commit,
           ("-t", "ext4", "-J", "size=8", "-O", "fast_commit"), power_cut=True),
)  # fmt: skip
