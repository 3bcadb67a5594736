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
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.machine import check
from tests.evidence.failing_disk import missing
from tests.powercut.cut_judge import GRADES, RIGHT, WRONG, Tally, ask_kernel, judge
from tests.powercut.told_writes import CUT_LAYOUTS, NO_LOG, Moment, Told, go_on, tell
from tests.powercut.write_log import Cut

AFTERWARDS = ("", "", "e2fsck", "replayed")
MOST_KEPT = 3  # images of one history
COLUMNS = (
    *("cuts", "images", *GRADES, "agreeing", "cautious", *RIGHT, *WRONG, "files"),
    *("asked", "untrue", "refused"),
)


def judge_cuts(told: Told, cuts: list[Cut], folder: Path, keep: Path) -> dict[str, Tally]:
    """Judge what each cut leaves of a history; a tally for each kind of cut.

    Args:
        told: the history.
        cuts: those to judge.
        folder: for the images.
        keep: where images with something wrong stay.
    """
    chance, kept = random.Random(told.seed), 0
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    image = folder / "cut.img"
    for cut in cuts:
        image.write_bytes(told.log.image(cut))
        tally = judge_cut(image, told, cut, chance.choice(AFTERWARDS))
        tallies["torn" if cut.torn else cut.kind].add(tally)
        if tally.wrong and kept < MOST_KEPT:
            kept += 1
            which = "-on" if told.before else ""
            name = f"{told.layout.name}-{told.seed}{which}-{cut.at}-{cut.kind}"
            _keep(keep / name, told, cut, tally)
    image.unlink(missing_ok=True)
    return tallies


def judge_cut(image: Path, told: Told, cut: Cut, afterwards: str) -> Tally:
    """Judge an image, and once more after it was checked or replayed."""
    moment = Moment(told, cut)
    tally = judge(image, moment)
    tally.counts.update(cuts=1, images=1)
    if afterwards == "e2fsck" or (afterwards and told.layout is not NO_LOG):
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
        "acts": {
            number: [span.begun, span.done, told.names.get(number, "")]
            for number, span in told.spans.items()
        },
    }
    (folder / "cut.json").write_text(json.dumps(about, indent=1) + "\n")


def table(tallies: dict[str, Tally]) -> str:
    """A line for each, and one for all; `files` are those that something is wrong with."""
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    rows = [["", *COLUMNS]]
    for name, tally in [*tallies.items(), ("all", total)]:
        counts = {**tally.counts, "files": len(tally.findings)}
        rows.append([name, *(str(counts.get(column, 0)) for column in COLUMNS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(lines)


def run(options: argparse.Namespace) -> tuple[dict[str, Tally], dict[str, Tally]]:
    """Histories of the layouts in turn until the time is over; by layout, and by kind of cut."""
    names = options.layouts or list(CUT_LAYOUTS)
    layouts, kinds = {name: Tally() for name in names}, dict[str, Tally]()
    for name, seed in _turns(names, options.seed, options.seconds):
        with tempfile.TemporaryDirectory(prefix="ext4kit-powercut-") as folder:
            told = tell(CUT_LAYOUTS[name], seed, options.operations, Path(folder), options.mild)
            by_kind = _judge_twice(told, options, Path(folder))
        findings: dict[str, str] = {}
        for kind, tally in by_kind.items():
            kinds.setdefault(kind, Tally()).add(tally)
            layouts[name].add(tally)
            findings.update(tally.findings)
        for which, finding in findings.items():
            print(f"{name} seed {seed}: {which} {finding}", flush=True)
    return layouts, kinds


def _judge_twice(told: Told, options: argparse.Namespace, folder: Path) -> dict[str, Tally]:
    """Judge cuts of a history, and of what came after one of them ("again" in its kinds)."""
    chance = random.Random(told.seed)
    cuts = told.log.cuts(chance, options.cuts)
    tallies = judge_cuts(told, cuts, folder, options.keep)
    try:
        further = go_on(told, chance.choice(cuts), options.operations // 2, folder, options.mild)
    except machine.MachineError:
        return tallies
    cuts = further.log.cuts(chance, options.cuts // 2)
    again = judge_cuts(further, cuts, folder, options.keep)
    return {**tallies, **{f"{kind} again": tally for kind, tally in again.items()}}


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
    parser.add_argument("--mild", action="store_true", help="nothing is written over")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/powercut"), help="where images with a wrong stay"
    )
    options = parser.parse_args()
    if reason := missing() or machine.missing_for_kernel():
        print(f"error: power cuts: {reason}", file=sys.stderr)
        return 3
    layouts, kinds = run(options)
    print(table(layouts), table(kinds), sep="\n\n")
    return int(any(tally.wrong for tally in layouts.values()))


if __name__ == "__main__":
    sys.exit(main())
