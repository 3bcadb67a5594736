"""Power cuts at any write: `python -m tests.powercut --seed N --seconds S [LAYOUT ...]`.

Each layout in turn gets a history on a disk that records its writes. The power is cut at flushes
and between them; each image is judged as it is, some also after `e2fsck -fy` or after the kernel
has replayed it. A table tells what came of it (`cut_judge` says what the words mean); images with
something wrong stay, with what is known of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.random_history import check
from tests.evidence.failing_disk import missing
from tests.powercut.cut_judge import GRADES, RIGHT, WRONG, Moment, Tally, ask_kernel, judge
from tests.powercut.told_writes import CUT_LAYOUTS, NO_LOG, Told, tell
from tests.powercut.write_log import Cut

AFTERWARDS = ("", "", "e2fsck", "replayed")
MOST_KEPT = 3  # images of one history
COLUMNS = ("cuts", "images", *GRADES, "cautious", *RIGHT, *WRONG, "asked", "untrue", "refused")


def cut_and_judge(told: Told, count: int, folder: Path, keep: Path | None) -> Tally:
    """Cut a history so many times, and judge what is left each time."""
    chance, total = random.Random(told.seed), Tally()
    image = folder / "cut.img"
    kept = 0
    for cut in told.log.cuts(chance, count):
        image.write_bytes(told.log.image(cut))
        tally = judge_cut(image, told, cut, chance.choice(AFTERWARDS))
        total.add(tally)
        if tally.wrong and keep and kept < MOST_KEPT:
            kept += 1
            _keep(keep / f"{told.layout.name}-{told.seed}-{cut.at}-{cut.kind}", told, cut, tally)
    image.unlink(missing_ok=True)
    return total


def judge_cut(image: Path, told: Told, cut: Cut, afterwards: str) -> Tally:
    """Judge an image, and once more after it was checked or replayed."""
    moment = Moment(told, cut)
    tally = judge(image, moment)
    tally.counts.update(cuts=1, images=1)
    if afterwards and told.layout is not NO_LOG:
        try:
            check(image) if afterwards == "e2fsck" else ask_kernel(tally, image, moment)
        except machine.MachineError:
            tally.counts["refused"] += 1
            return tally
        tally.add(judge(image, moment, afterwards))
        tally.counts["images"] += 1
    return tally


def _keep(folder: Path, told: Told, cut: Cut, tally: Tally) -> None:
    """An image with something wrong, its truth, and all that it takes to cut elsewhere."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "cut.img").write_bytes(told.log.image(cut))
    (folder / "base.img").write_bytes(told.log.base)
    told.log.save(folder / "writes.log")
    told.book.save(folder / "book.json")
    about = {
        "layout": told.layout.name,
        "seed": told.seed,
        "cut": asdict(cut),
        "findings": tally.findings,
        "acts": {number: [span.begun, span.done] for number, span in told.spans.items()},
    }
    (folder / "cut.json").write_text(json.dumps(about, indent=1) + "\n")


def table(tallies: dict[str, Tally]) -> str:
    """A line for each layout, and one for all."""
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    rows = [["", *COLUMNS]]
    for name, tally in [*tallies.items(), ("all", total)]:
        rows.append([name, *(str(tally.counts[column]) for column in COLUMNS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(lines)


def run(options: argparse.Namespace) -> dict[str, Tally]:
    """Histories of the layouts in turn until the time is over."""
    names = options.layouts or list(CUT_LAYOUTS)
    tallies = {name: Tally() for name in names}
    for name, seed in _turns(names, options.seed, options.seconds):
        with tempfile.TemporaryDirectory(prefix="ext4kit-powercut-") as folder:
            told = tell(CUT_LAYOUTS[name], seed, options.operations, Path(folder))
            tally = cut_and_judge(told, options.cuts, Path(folder), options.keep)
        for which, finding in tally.findings.items():
            print(f"{name} seed {seed}: {which} {finding}", flush=True)
        tallies[name].add(tally)
    return tallies


def _turns(names: list[str], first: int, seconds: float) -> Iterator[tuple[str, int]]:
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        for name in names:
            if time.monotonic() > end:
                return
            yield name, seed


def main() -> int:
    """Tell, cut and judge; 1 when there is something wrong."""
    parser = argparse.ArgumentParser(prog="powercut", description=__doc__)
    parser.add_argument("layouts", nargs="*", choices=[[], *CUT_LAYOUTS], metavar="LAYOUT")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--seconds", type=float, default=600, help="when no further one begins")
    parser.add_argument("--operations", type=int, default=160, help="in each history")
    parser.add_argument("--cuts", type=int, default=25, help="of each history")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/powercut"), help="where images with a wrong stay"
    )
    options = parser.parse_args()
    if reason := missing() or machine.missing_for_kernel():
        print(f"error: power cuts: {reason}", file=sys.stderr)
        return 3
    tallies = run(options)
    print(table(tallies))
    return int(any(tally.wrong for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
