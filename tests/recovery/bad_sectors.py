"""Disks with bad sectors: `python -m tests.recovery.bad_sectors --seed N --seconds S [LAYOUT ...]`.

Each layout in turn gets a random history, and its image is read from disks that fail at some
sectors: the kernel says EIO. What ext4kit then says is held against the history's book: no wrong
file may be called intact, no path may be wrong, no living file may be called deleted, and every
loss that is met is reported. Images with something wrong stay, with the sectors and the book.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import ext4kit
from ext4kit.errors import Ext4kitError
from ext4kit.evidence.lost import merge_ranges, unreadable_ranges
from ext4kit.journal import Log
from sample_images.recipes import machine
from sample_images.recipes.history_book import Book, Key
from sample_images.recipes.history_judge import Verdict, judged, living_files
from sample_images.recipes.history_layouts import LAYOUTS
from sample_images.recipes.random_history import History, tell
from tests.evidence.failing_disk import failing_disk, missing

SECTOR, PAGE = 512, 4096
SCRATCH = 64 << 10  # bytes, at most
DESCRIPTOR = 64  # bytes of a group descriptor, at most
Ranges = list[tuple[int, int]]
COLUMNS = (
    *("disks", "refused", "files", "intact", "wrong", "paths", "wrong paths", "living"),
    *("untold", "errors"),
)


@dataclass(slots=True)
class Tally:
    """What came of some disks.

    Attributes:
        counts: `disks`; those that were `refused`, since nothing of the file system's superblock
            can be read; of the deleted `files` and `paths` what `Verdict` says; `untold` disks of
            which a loss was met and not reported; `errors` that ended a run.
        findings: what was wrong, in words.
    """

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    @property
    def is_bad(self) -> bool:
        """Whether something was said that is not so."""
        names = ("wrong", "wrong paths", "living", "untold", "errors")
        return any(self.counts[name] for name in names)

    def add(self, other: Tally) -> None:
        """Count others in."""
        self.counts.update(other.counts)
        self.findings += other.findings

    def add_verdict(self, verdict: Verdict) -> None:
        """Count what the judge of random histories says."""
        self.counts.update(
            {
                "files": verdict.files,
                "intact": verdict.intact,
                "wrong": verdict.wrong,
                "paths": verdict.paths,
                "wrong paths": verdict.wrong_paths,
                "living": verdict.live,
            }
        )
        self.findings += verdict.findings


class Places:
    """Where on an image its parts lie, for sectors that fail in each of them.

    Args:
        image: a sound image.

    Attributes:
        head: bytes at the start of it without which a small file system cannot be read.
    """

    def __init__(self, image: Path) -> None:
        self.size = image.stat().st_size
        with ext4kit.open(image) as opened:
            fs = opened.volume().filesystem()
            block_size, log = fs.superblock.block_size, Log.open(fs)
            tree, groups = fs.tree(), fs.groups
            folders = fs.inode_table(np.unique(tree.inode[tree.file_type == 2]))
            runs = fs.map_table_silently(folders).runs
            per_block = block_size // fs.superblock.inode_size
            used = tree.inode[tree.inode > 0] - 1
            group, slot = np.divmod(used, fs.superblock.inodes_per_group)
            first = fs.superblock.first_data_block
            self.head = (first + 1) * block_size + len(groups) * DESCRIPTOR
            parts: dict[str, Collection[int]] = {
                "head": np.arange(-(-self.head // block_size)),
                "log": [] if log is None else log.reader.log_blocks,
                "log headers": [] if log is None else log.reader.log_blocks[log.headers.position],
                "inode tables": np.unique(groups.inode_table[group] + slot // per_block),
                "inode bitmaps": groups.inode_bitmap,
                "block bitmaps": groups.block_bitmap,
                "directories": np.append(runs.physical, runs.physical + runs.length - 1),
                "anywhere": np.arange(self.size // block_size),
            }
        self._parts = {
            name: [int(block) * block_size for block in blocks]
            for name, blocks in parts.items()
            if len(blocks)
        }

    def choose(self, chance: random.Random) -> Ranges:
        """Some bad sectors: single ones in some of the parts, or a scratch."""
        if chance.random() < 0.2:
            start = chance.choice(self._parts[chance.choice(list(self._parts))])
            return [(start, min(start + chance.randrange(SECTOR, SCRATCH, SECTOR), self.size))]
        weights = [0.1 if name == "head" else 1 for name in self._parts]
        names = chance.choices(list(self._parts), weights, k=chance.choice((1, 1, 2, 4, 9, 25)))
        starts = sorted({chance.choice(self._parts[name]) for name in names})
        return [(start, start + SECTOR) for start in starts]


def judge_disk(
    image: Path, book: Book, living: set[Key], bad: Ranges, head: int, folder: Path
) -> Tally:
    """Judge what is said of an image of which some sectors cannot be read.

    Args:
        image: the whole image.
        book: of its history.
        living: the files that the kernel shows on the whole image.
        bad: first byte and end of what fails.
        head: of the image, as in `Places`: a failure there may end a run.
        folder: is made, and removed again.
    """
    tally = Tally()
    tally.counts["disks"] += 1
    with failing_disk(image, folder, bad) as disk:
        try:
            with ext4kit.open(disk) as opened:
                tally.add_verdict(judged(opened, book, living))
                lost, told = unreadable_ranges(opened.evidence.source), opened.problems
                if _in_pages(lost) != _in_pages(_told(map(str, told))):
                    tally.counts["untold"] += 1
                    tally.findings.append(f"lost {lost.tolist()}, told {list(map(str, told))}")
        except Ext4kitError as error:
            if not any(start // PAGE * PAGE < head for start, _ in bad):
                tally.counts["errors"] += 1
                tally.findings.append(f"ERROR {type(error).__name__}: {error}")
            tally.counts["refused"] += 1
        except Exception as error:  # noqa: BLE001 (any error that ends a run is a finding)
            tally.counts["errors"] += 1
            tally.findings.append(f"ERROR {type(error).__name__}: {error}")
    folder.rmdir()
    return tally


def _told(problems: Iterable[str]) -> Any:
    """The bytes that problems of an image name as unreadable, int64 (n, 2)."""
    found = [re.match(r"image, bytes ([0-9,]+) to ([0-9,]+): cannot be read", one)
             for one in problems]  # fmt: skip
    ends = [[int(number.replace(",", "")) for number in one.groups()] for one in found if one]
    return merge_ranges([(first, last + 1) for first, last in ends])


def _in_pages(ranges: Any) -> set[int]:
    return {
        page for start, end in ranges.tolist() for page in range(start // PAGE, -(-end // PAGE))
    }


def judge_history(history: History, disks: int, keep: Path) -> Tally:
    """Judge several disks of a history; what is wrong stays in `keep`."""
    chance, total = random.Random(history.seed), Tally()
    places, living = Places(history.image), living_files(history.image)
    for number in range(disks):
        bad = places.choose(chance)
        folder = history.image.with_suffix(".disk")
        tally = judge_disk(history.image, history.book, living, bad, places.head, folder)
        total.add(tally)
        if tally.is_bad:
            _keep(keep / f"{history.image.stem}-{number}", history, bad, tally)
    return total


def _keep(folder: Path, history: History, bad: Ranges, tally: Tally) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    machine.copy_sparse(history.image, folder / history.image.name)
    history.book.save(folder / "book.json")
    about = {"breaks": history.breaks, "bad": bad, "findings": tally.findings}
    (folder / "disk.json").write_text(json.dumps(about, indent=1) + "\n")


def run(options: argparse.Namespace) -> Tally:
    """Histories of the layouts in turn until the time is over."""
    total, end = Tally(), time.monotonic() + options.seconds
    for seed in itertools.count(options.seed):
        for name in options.layouts or LAYOUTS:
            if time.monotonic() > end:
                return total
            with tempfile.TemporaryDirectory(prefix="ext4kit-bad-sectors-") as folder:
                history = tell(LAYOUTS[name], seed, options.operations, Path(folder))
                tally = judge_history(history, options.disks, options.keep)
            total.add(tally)
            for finding in tally.findings:
                print(f"{name} seed {seed}: {finding}", flush=True)
    return total


def line(tally: Tally) -> str:
    """The counts in one line."""
    return ", ".join(f"{tally.counts[name]} {name}" for name in COLUMNS)


def main() -> int:
    """Tell, spoil and judge; 1 when there is something wrong."""
    parser = argparse.ArgumentParser(prog="bad_sectors", description=__doc__)
    parser.add_argument("layouts", nargs="*", choices=[[], *LAYOUTS], metavar="LAYOUT")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--seconds", type=float, default=600, help="when no further one begins")
    parser.add_argument("--operations", type=int, default=250, help="in each history")
    parser.add_argument("--disks", type=int, default=12, help="of each history")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/bad-sectors"), help="where what is wrong stays"
    )
    options = parser.parse_args()
    if reason := missing() or machine.missing_for_kernel():
        print(f"error: bad sectors: {reason}", file=sys.stderr)
        return 3
    total = run(options)
    print(line(total))
    return int(total.is_bad)


if __name__ == "__main__":
    sys.exit(main())
