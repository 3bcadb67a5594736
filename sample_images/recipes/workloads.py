"""`python -m sample_images.recipes.workloads`: benchmarks that clean up after themselves.

Workloads shaped as postmark (a mail server), bonnie++ (small files, in order and at random) and
iozone (one large file) do, with their own removals at the end.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from sample_images.recipes.contents import noise, text
from sample_images.recipes.making import make
from sample_images.recipes.recipe import MIB, Recipe, shuffled
from sample_images.recipes.score import Score, read_outputs, score
from sample_images.recipes.stage import Stage
from sample_images.recipes.truth import load
from sample_images.recipes.wiped.scenes import run_program

_FILES, _TRANSACTIONS, _BETWEEN_COMMITS = 500, 1500, 100
_SMALLEST, _LARGEST = 500, 10_000  # bytes of a mail, as postmark has them
_BONNIE, _FOLDERS = 1024, 8
_LARGE, _RECORD = 48 * MIB, 64 << 10
_INTRODUCTION = """\
# Workloads of the classic benchmarks

The table shows how many of the files that benchmarks created and deleted are recovered. *postmark*
creates, changes and deletes mails of 500 to 10,000 bytes and deletes the rest at the end;
*bonnie++* creates, reads and deletes small files in order, then at random; *iozone* writes,
rewrites and deletes one large file. *Files* counts deleted files. *Still there* counts those whose
blocks hold their bytes at the end and whose map the evidence shows, and *came* counts how many of
these were recovered byte for byte. *Exact* counts all files that were recovered byte for byte.
*Paths* counts files recovered under the path that the journal shows, of all files with such a path.
*False* counts files graded intact with content of another file, live files, and files that never
existed. `make workloads` makes this page on the running kernel.
"""
_HEADINGS = (
    "| file system | workload | files | still there | came | exact | paths | false |",
    "|---|---|---|---|---|---|---|---|",
)
_LOG = ("-J", "size=8")
LAYOUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "ext2": (("-t", "ext2"), ""),
    "ext3": (("-t", "ext3", *_LOG), ""),
    "ext4, ordered": (("-t", "ext4", *_LOG), "data=ordered"),
    "ext4, writeback": (("-t", "ext4", *_LOG), "data=writeback"),
    "ext4, journal": (("-t", "ext4", *_LOG), "data=journal"),
}


def postmark(stage: Stage) -> None:
    """Makes mails, then changes, adds and removes some in turn, then removes all."""
    dice, number = random.Random("postmark"), 0
    pool: list[bytes] = []

    def create() -> None:
        nonlocal number
        path = f"mail/{number % 10}/{number}".encode()
        stage.write(path, text(path.decode(), dice.randrange(_SMALLEST, _LARGEST)))
        pool.append(path)
        number += 1

    for _ in range(_FILES):
        create()
    for _ in range(_TRANSACTIONS // _BETWEEN_COMMITS):
        doomed = dice.sample(pool, _BETWEEN_COMMITS // 2)
        stage.sync()
        stage.record(doomed)
        for path in doomed:
            pool.remove(path)
            stage.path(path).unlink()
            create()
    stage.remove(shuffled(pool, "postmark"))
    stage.sync()


def bonnie(stage: Stage) -> None:
    """Makes and removes small files in order, then at random."""
    dice = random.Random("bonnie")
    for order in ("sequential", "random"):
        paths = [f"{order}/{at % _FOLDERS}/{at:07d}".encode() for at in range(_BONNIE)]
        paths = paths if order == "sequential" else shuffled(paths, "made")
        for path in paths:
            stage.write(path, noise(path.decode(), dice.randrange(1, 3000)))
        for path in paths:
            stage.path(path).read_bytes()
        stage.remove(paths if order == "sequential" else shuffled(paths, "removed"))
    stage.sync()


def iozone(stage: Stage) -> None:
    """Writes a large file in records, writes it over, reads and removes it."""
    stage.write("iozone.tmp", b"")
    for turn in range(2):
        records = range(0, _LARGE, _RECORD)
        stage.add("iozone.tmp", ((at, noise(f"{turn} {at}", _RECORD)) for at in records))
    stage.remove([b"iozone.tmp"])
    stage.sync()


WORKLOADS: dict[str, Callable[[Stage], None]] = {
    "postmark": postmark,
    "bonnie++": bonnie,
    "iozone": iozone,
}


def judged(layout: str, workload: str, folder: Path) -> Score:
    """Make the image of a workload, recover from it and compare."""
    options, mount = LAYOUTS[layout]
    act = WORKLOADS[workload]
    recipe = Recipe("workload", workload, act, options, 128 * MIB, mount_options=mount)
    built = make(recipe, folder)
    run_program(["recover", "-q", built.image, "-o", folder / "out"])
    return score(load(built.truth), read_outputs(folder / "out"))


def main() -> int:
    """0 when nothing is said falsely."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.recipes.workloads")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    asked = parser.parse_args()
    page, false = [_INTRODUCTION, *_HEADINGS], 0
    print("\n".join(_HEADINGS))
    for layout in LAYOUTS:
        for workload in WORKLOADS:
            with tempfile.TemporaryDirectory() as folder:
                one = judged(layout, workload, Path(folder))
            wrong = len(one.intact_wrong) + len(one.live) + len(one.unheard_of)
            paths = f"{one.paths_right} of {one.paths}"
            cells = (
                layout,
                workload,
                one.states,
                one.could,
                one.could_exact,
                one.exact,
                paths,
                wrong,
            )
            page.append("| " + " | ".join(map(str, cells)) + " |")
            print(page[-1], flush=True)
            false += wrong
    if asked.page:
        asked.page.write_text("\n".join([*page, ""]), encoding="utf-8")
    return int(false > 0)


if __name__ == "__main__":
    sys.exit(main())
