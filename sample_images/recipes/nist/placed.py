"""Cases 01 to 08 without the large file: files placed block by block, and their blocks reused."""

from __future__ import annotations

from sample_images.recipes.nist.case import Act, Case
from sample_images.recipes.nist.placing import PlacementError, Run, Site

VICTIM = "data/victim"
TRASH = "home/user/.local/share/Trash"
PIECES = 12  # fragments of two blocks in the case with many
FEWEST_FRAGMENTS = 8


def placed(files: dict[str, list[Run]]) -> Act:
    """Files in their runs of the plot; all of them are deleted in the next mount."""

    def act(site: Site) -> None:
        site.stage.mkdir("data")
        site.fill()
        paths = [site.place(f"data/{name}", runs) for name, runs in files.items()]
        site.remount()
        site.remove(paths)

    return act


def scattered(site: Site) -> None:
    """One file in many fragments."""
    site.stage.mkdir("data")
    site.fill()
    path = site.scatter("data/many", [(0, 1), *((4 + 4 * at, 2) for at in range(PIECES))])
    if len(site.map(path)) < FEWEST_FRAGMENTS:
        raise PlacementError(f"{path!r} is in {site.map(path)}")
    site.remount()
    site.remove([path])


def trash(site: Site) -> None:
    """A file is moved to the trash with a note of where it was; the trash is emptied later."""
    site.stage.mkdir("home/user/letters")
    site.stage.mkdir(f"{TRASH}/files")
    site.stage.mkdir(f"{TRASH}/info")
    site.write("home/user/letters/harbour.txt", 30_000)
    site.write("home/user/letters/kept.txt", 9_000)
    site.remount()
    site.stage.rename("home/user/letters/harbour.txt", f"{TRASH}/files/harbour.txt")
    site.write(f"{TRASH}/info/harbour.txt.trashinfo", 120)
    site.remount()
    site.remove([f"{TRASH}/files/harbour.txt", f"{TRASH}/info/harbour.txt.trashinfo"])


def reused(runs: list[Run], *blocks: int) -> Act:
    """One file in these runs is deleted; in a later mount another one reuses these blocks."""

    def act(site: Site) -> None:
        site.stage.mkdir("data")
        site.fill()
        path = site.place(VICTIM, runs)
        site.remount()
        site.remove([path])
        site.remount()
        site.reuse("data/new", len(blocks), {path: list(blocks)})

    return act


def several_reused(site: Site) -> None:
    """Of four files one is overwritten in full, of two neighbours the end and the start."""
    site.stage.mkdir("data")
    site.fill()
    first = site.place("data/first", [(0, 8), (10, 2)])
    second = site.place("data/second", [(12, 2), (16, 8)])
    third = site.place("data/third", [(24, 8)])
    fourth = site.place("data/fourth", [(36, 4)])
    site.remount()
    site.remove([first, second, third, fourth])
    site.remount()
    site.reuse("data/new", 4, {first: [8, 9], second: [0, 1], third: [], fourth: []})
    site.reuse("data/newer", 4, {fourth: [0, 1, 2, 3], third: []})


CASES = (
    Case("01", "one file in one piece", placed({"one": [(0, 8)]})),
    Case("01-trash", "one file, moved to the trash, which is emptied later", trash),
    Case("02", "one file in two fragments", placed({"two": [(0, 5), (9, 4)]})),
    Case("03", "one file in many fragments", scattered),
    Case("03-order", "one file, its later blocks in front of the earlier ones",
         placed({"backwards": [(8, 3), (4, 3), (0, 3)]})),
    Case("05", "several files in fragments, live data between them",
         placed({"a": [(0, 3), (6, 3)], "b": [(12, 2), (16, 2), (20, 2)],
                 "c": [(30, 5), (40, 4)]})),
    Case("05-braid", "fragments of two files in turn",
         placed({"a": [(0, 2), (4, 2), (8, 2)], "b": [(2, 2), (6, 2), (10, 2)]})),
    Case("05-nest", "three files, each between the fragments of the next",
         placed({"outer": [(0, 2), (10, 2)], "middle": [(2, 2), (8, 2)], "inner": [(4, 4)]})),
    Case("05-adjacent", "four files next to each other",
         placed({"a": [(0, 3)], "b": [(3, 4)], "c": [(7, 2)], "d": [(9, 5)]})),
    Case("07-first", "one file, its first blocks overwritten", reused([(6, 10)], 0, 1)),
    Case("07-middle", "one file, blocks in its middle overwritten",
         reused([(0, 4), (6, 2), (12, 4)], 4, 5)),
    Case("07-last", "one file, its last blocks overwritten", reused([(0, 8), (10, 2)], 8, 9)),
    Case("07-several", "one file, blocks in two places overwritten",
         reused([(0, 4), (6, 1), (12, 4), (19, 1)], 4, 9)),
    Case("07-whole", "one file, all of it overwritten", reused([(0, 10)], *range(10))),
    Case("08", "four files; two are overwritten in part, one in full", several_reused),
)  # fmt: skip
