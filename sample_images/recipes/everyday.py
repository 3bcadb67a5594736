"""Recipes for what people and programs do: remove, save over, rename, reuse, pull the plug."""

from __future__ import annotations

import random
from functools import partial

from sample_images.recipes.contents import plain
from sample_images.recipes.recipe import MIB, Recipe, make_ballast, plant, shuffled, wrap_log
from sample_images.recipes.stage import Stage


def removed_now(stage: Stage) -> None:
    """Written, synced and removed at once, in one mount."""
    plant(stage, "keep", 60)
    stage.remove(shuffled(plant(stage, "home", 300), "now"))


def removed_after_remount(stage: Stage) -> None:
    """Written in one mount, removed in the next."""
    doomed = plant(stage, "home", 300)
    plant(stage, "keep", 60)
    stage.remount()
    stage.remove(shuffled(doomed, "remount"))


def rm_rf_tree(stage: Stage) -> None:
    """Whole trees removed, their directories too."""
    for top in ("project", "mail"):
        plant(stage, top, 150)
    plant(stage, "keep", 60)
    stage.remount()
    stage.remove_tree("project")
    stage.remove_tree("mail")


def power_cut(stage: Stage) -> None:
    """Old and new files removed; the log has it, the home places do not."""
    old = plant(stage, "old", 150)
    plant(stage, "keep", 60)
    stage.remount()
    new = plant(stage, "new", 150)
    stage.remove(shuffled(old + new, "cut"))
    stage.commit()


def editor_save(stage: Stage) -> None:
    """Five times a new file renamed over the old one; some removed for good at the end."""
    paths = [f"docs/chapter-{at:02d}.txt".encode() for at in range(stage.count(50, 10))]
    for path in paths:
        stage.write(path, plain(f"{path!r} 0", 9000))
    for version in range(1, 6):
        for path in shuffled(paths, f"save {version}"):
            size = random.Random(f"{path!r} {version}").randint(1, 90_000)
            stage.save_over(path, plain(f"{path!r} {version}", size))
        if version == 3:
            stage.remount()
    stage.remove(paths[::4])


def renamed_moved(stage: Stage) -> None:
    """Files renamed and moved, directories renamed and moved, then removed."""
    files = plant(stage, "work", 240)
    stage.sync()
    moved: list[bytes] = []
    for at, path in enumerate(shuffled(files, "move")):
        target = (b"elsewhere/%d/" % (at % 7)) + b"moved-" + path.rsplit(b"/", 1)[1][:200]
        stage.rename(path, target)
        moved.append(target)
        if at % 40 == 0:
            stage.sync()
    stage.remount()
    stage.rename("elsewhere/1", "elsewhere/one of them")
    stage.rename("elsewhere/2", "archive/deep/two")
    stage.rename("archive", "shelf")
    stage.sync()
    stage.remove(stage.files("elsewhere") + stage.files("shelf/deep")[::2])
    stage.remove_tree("shelf")


def log_rotation(stage: Stage) -> None:
    """Most removals long before the log went round, the last ones after that."""
    ballast = make_ballast(stage, 1600)
    early = plant(stage, "early", 200)
    late = plant(stage, "late", 60)
    stage.remove(shuffled(early, "rotation"))
    wrap_log(stage, ballast, 14)
    stage.remove(late[::2])
    wrap_log(stage, ballast, 1)
    stage.remove(late[1::2])


def big_directory(stage: Stage, entries: int = 20_000) -> None:
    """Very many entries in one directory, three quarters of them removed."""
    paths = [f"spool/message-{at:05d}.eml".encode() for at in range(entries)]
    stage.mkdir("spool")
    for path in paths:
        stage.path(path).write_bytes(b"Message %s\n" % path * (1 + path[-5] % 7))
    stage.remount()
    stage.remove(paths[::2])
    stage.remove(paths[1 : entries // 2 : 2])


def orphans(stage: Stage) -> None:
    """Files unlinked while open, and still open at the power cut; some others just removed."""
    held = plant(stage, "held", 100, 24)
    doomed = plant(stage, "doomed", 60)
    plant(stage, "keep", 40)
    stage.remount()
    stage.remove(doomed)
    stage.hold(shuffled(held, "hold"))
    stage.commit()


def reuse(stage: Stage) -> None:
    """The space of removed files partly taken by new ones, of which some go again."""
    first = plant(stage, "first", 250)
    stage.remount()
    stage.remove(first)
    stage.sync()
    second = plant(stage, "second", 120)
    stage.remount()
    stage.remove(second[::2])
    plant(stage, "third", 40)


def truncate_rewrite(stage: Stage) -> None:
    """The same inode truncated and written anew three times; half of the files removed."""
    paths = [f"state/cache-{at:02d}.db".encode() for at in range(stage.count(60, 12))]
    for version in range(4):
        for path in shuffled(paths, f"rewrite {version}"):
            size = random.Random(f"{path!r} {version}").randint(1, 60_000)
            content = plain(f"{path!r} rewrite {version}", size)
            (stage.rewrite if version else stage.write)(path, content)
        stage.remount()
    stage.remove(paths[::2])


RECIPES = (
    Recipe("removed_now", "removed right after the sync", removed_now),
    Recipe(
        "removed_after_remount", "removed in a later mount", removed_after_remount,
        small_size=32 * MIB,
    ),
    Recipe("rm_rf_tree", "nested trees removed whole", rm_rf_tree, small_size=32 * MIB),
    Recipe(
        "power_cut", "removals in an unreplayed log", power_cut, power_cut=True,
        small_size=32 * MIB,
    ),
    Recipe("editor_save", "saved over five times by rename", editor_save),
    Recipe("renamed_moved", "renamed and moved before removal", renamed_moved),
    Recipe(
        "log_rotation", "the log went round after most removals", log_rotation,
        options=("-t", "ext4", "-J", "size=4"),
    ),
    Recipe(
        "big_directory", "15,000 of 20,000 entries of one directory removed", big_directory,
        options=("-t", "ext4", "-J", "size=32", "-N", "24000"), size=256 * MIB, slow=True,
    ),
    Recipe(
        "wide_directory", "3,000 of 4,000 entries of one directory removed",
        partial(big_directory, entries=4000),
        options=("-t", "ext4", "-J", "size=32"),
    ),
    Recipe(
        "orphan_list", "unlinked while open, orphan list", orphans, power_cut=True,
        options=("-t", "ext4", "-J", "size=8", "-O", "^orphan_file"),
    ),
    Recipe(
        "orphan_file", "unlinked while open, orphan file", orphans, power_cut=True,
        options=("-t", "ext4", "-J", "size=8", "-O", "orphan_file"), small_size=32 * MIB,
    ),
    Recipe("reuse", "space partly reused, some of that removed again", reuse, size=64 * MIB),
    Recipe("truncate_rewrite", "same inode truncated and rewritten", truncate_rewrite),
)  # fmt: skip
