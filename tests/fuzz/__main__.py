"""The long run: mutated images through all commands, each in its turn, until told to stop.

    python -m tests.fuzz --count 1000 --seconds 600 --found FOLDER

A child does the work and is replaced when it dies, hangs or grows; the parent only counts. What
is found is written to FOLDER as JSON: the base, the seed and the patches.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ext4kit.errors import Ext4kitError
from sample_images import packed_names, unpack
from sample_images.recipes.machine import missing_for_kernel
from tests import cases
from tests.fuzz import images
from tests.fuzz.commands import failures
from tests.fuzz.forms import commands
from tests.fuzz.mutation import Patch, mutated
from tests.fuzz.places import Anatomy, anatomy
from tests.journal.fast_commit_images import FORMATS, Doings, make

ADDRESS_SPACE = 3 << 30
LARGEST_CASE = 4 << 20  # bytes
SILENCE = 180  # seconds without a word from the child: it hangs
KERNEL = "kernel "  # before the names of bases that it made
RENEWED = 200  # images after which a child is replaced, so that its memory says something


@dataclass(frozen=True, slots=True)
class Choice:
    """Which commands an image gets.

    Attributes:
        each: so many of them, drawn by chance; 0 for all.
        only: those that begin with one of these words; none for all.
    """

    each: int = 0
    only: tuple[str, ...] = ()

    def of(self, chance: random.Random) -> list[list[str]]:
        """The commands for one image."""
        found = [words for words in commands(chance) if not self.only or words[0] in self.only]
        return chance.sample(found, min(self.each, len(found))) if self.each else found


@dataclass(slots=True)
class Tally:
    """What came of a run."""

    images: int = 0
    by_base: Counter[str] = field(default_factory=Counter)
    found: list[dict[str, Any]] = field(default_factory=list)


def bases(folder: Path, wanted: list[str]) -> list[Path]:
    """The sound images to start from: small ones, the packed samples, e2fsprogs' cases."""
    paths = [images.make(name, folder) for name in images.BASES]
    paths += [unpack(name, folder).image for name in packed_names()]
    paths += [] if missing_for_kernel() else list(_of_the_kernel(folder))
    paths = [path for path in paths if not wanted or path.stem in wanted]
    names = [one["image"] for one in cases.records() if one["bytes"] <= LARGEST_CASE]
    if names and "cases" in wanted:
        cases.unpack(folder, names)
        paths += [folder / name for name in names if _can_be_read(folder / name)]
    return paths


def _of_the_kernel(folder: Path) -> Iterator[Path]:
    """Images whose newest changes are in fast commits alone: only a kernel writes those."""
    for form in ("default", "1k", "inline 1k"):
        made = make(folder, FORMATS[form], lambda root: Doings(root, 3).run(40), size=24)
        yield made.image.rename(folder / f"{KERNEL}{form}.img")


def _can_be_read(path: Path) -> bool:
    try:
        anatomy(path)
    except Ext4kitError:
        return False
    return True


def work(paths: list[Path], seeds: range, choice: Choice, channel: Connection) -> None:
    """The child: one image after the other; tells the seed, then what was found with it."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    bodies: dict[Path, Anatomy] = {}
    with tempfile.TemporaryDirectory(prefix="ext4kit-fuzz-", dir=_memory_folder()) as name:
        for seed in seeds:
            channel.send(("seed", seed))
            for finding in one_image(paths[seed % len(paths)], seed, bodies, Path(name), choice):
                channel.send(("found", finding))
            channel.send(("done", seed))
    channel.close()


def _memory_folder() -> str | None:
    place = Path("/dev/shm")
    return str(place) if place.is_dir() else None


def one_image(
    path: Path, seed: int, bodies: dict[Path, Anatomy], folder: Path, choice: Choice
) -> Iterator[dict[str, Any]]:
    """Damage a base as the seed says and run commands on it; gives what was found."""
    if path not in bodies:
        bodies[path] = anatomy(path)
    chance = random.Random(seed)
    patches = mutated(bodies[path], chance)
    image = folder / path.name
    if not image.exists():
        image.write_bytes(bodies[path].data)
    _put(image, patches)
    for failure in failures(image, choice.of(chance), folder):
        where = [[patch.offset, patch.data.hex()] for patch in patches]
        yield {"base": path.stem, "seed": seed, "patches": where, **asdict(failure)}
    sound = bodies[path].data
    _put(image, [Patch(p.offset, sound[p.offset : p.offset + len(p.data)]) for p in patches])


def _put(image: Path, patches: list[Patch]) -> None:
    with image.open("r+b") as stream:
        for patch in patches:
            stream.seek(patch.offset)
            stream.write(patch.data)


def run(paths: list[Path], seeds: range, choice: Choice, seconds: float, found: Path) -> Tally:
    """An image for each seed, until all are done or the time is over."""
    tally, seed, end = Tally(), seeds.start, time.monotonic() + seconds
    while seed < seeds.stop and time.monotonic() < end:
        part = range(seed, min(seed + RENEWED, seeds.stop))
        seed = _child(paths, part, choice, tally, end, found)
    return tally


def _child(
    paths: list[Path], seeds: range, choice: Choice, tally: Tally, end: float, found: Path
) -> int:
    """Run one child; the seed to go on with."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=work, args=(paths, seeds, choice, theirs))
    child.start()
    theirs.close()
    current, reason = seeds.start, ""
    try:
        while time.monotonic() < end:
            if not ours.poll(SILENCE):
                reason = f"no word for {SILENCE} s"
                break
            kind, value = ours.recv()
            if kind == "found":
                _keep(value, tally, found)
            current = value if kind == "seed" else value + 1 if kind == "done" else current
            if kind == "done":
                tally.images += 1
                tally.by_base[paths[value % len(paths)].stem] += 1
    except EOFError:
        reason = "" if current >= seeds.stop else "the child died"
    child.kill()
    child.join()
    if reason:
        base = paths[current % len(paths)].stem
        _keep({"base": base, "seed": current, "what": reason}, tally, found)
        return current + 1
    return current if current < seeds.stop else seeds.stop


def _keep(finding: dict[str, Any], tally: Tally, found: Path) -> None:
    tally.found.append(finding)
    print(finding["base"], finding["seed"], finding.get("arguments"), finding["what"], flush=True)
    name = f"{finding['base']}-{finding['seed']}-{len(tally.found)}.json"
    (found / name).write_text(json.dumps(finding, indent=1))


def _keep_bases(paths: list[Path], tally: Tally, found: Path) -> None:
    """Beside what was found, the bases that no two runs have alike: those that the kernel made."""
    names = {finding["base"] for finding in tally.found}
    for path in paths:
        if path.stem in names and path.stem.startswith(KERNEL):
            shutil.copy(path, found)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="images")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after that long")
    parser.add_argument("--seed", type=int, default=0, help="of the first image")
    parser.add_argument("--each", type=int, default=0, help="commands an image; 0: all of them")
    parser.add_argument("--only", action="append", default=[], help="a command; all without it")
    parser.add_argument(
        "--base", action="append", default=[], help="only these; `cases`: e2fsprogs' own as well"
    )
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder")
    options = parser.parse_args()
    options.found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ext4kit-bases-", dir=_memory_folder()) as name:
        start = time.monotonic()
        paths = bases(Path(name), options.base)
        seeds = range(options.seed, options.seed + options.count)
        choice = Choice(options.each, tuple(options.only))
        tally = run(paths, seeds, choice, options.seconds, options.found)
        took = time.monotonic() - start
        _keep_bases(paths, tally, options.found)
    print(f"{tally.images:,} images of {len(tally.by_base)} bases in {took:,.0f} s, "
          f"{len(tally.found)} findings")  # fmt: skip
    raise SystemExit(bool(tally.found))


if __name__ == "__main__":
    main()
