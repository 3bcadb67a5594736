"""The long run: images through all commands, until told to stop.

    python -m tests.fuzz --count 1000 --seconds 600 --found FOLDER
    python -m tests.fuzz --powercut --count 200
    python -m tests.fuzz --containers --count 30000 [--base qcow2]

As many children as there are processors do the work. A child is replaced when it dies, hangs or
has done its share; the parent only counts. What is found is written to FOLDER as JSON: the base,
the seed and the patches; of a power cut the image too.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import multiprocessing
import os
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import ext4kit
from tests.fuzz.commands import INTERRUPTED_FROM, Cost, Failure, failures, heed_interrupts
from tests.fuzz.containers import ContainerCommands, Containers
from tests.fuzz.forms import commands, every_line
from tests.fuzz.inputs import CUTS_EACH, KERNEL, Damaged, Inputs, PowerCuts, bases

ADDRESS_SPACE = 3 << 30
SILENCE = 300  # seconds without a word from a child: it hangs
SHARE = 20 * CUTS_EACH  # images of a child, so that its memory says something
SHOWN = 5  # of the costliest commands
DONE = "it is done"


class Commands(Protocol):
    """Which commands an image gets."""

    def of(self, chance: random.Random) -> list[list[str]]:
        """The commands for one image."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which commands an image gets.

    Attributes:
        each: so many of them, drawn by chance; 0 for all.
        only: those that begin with one of these words; none for all.
        lines: every line of the forms, and not one of each command.
    """

    each: int = 0
    only: tuple[str, ...] = ()
    lines: bool = False

    def of(self, chance: random.Random) -> list[list[str]]:
        """The commands for one image."""
        every = every_line(chance) if self.lines else commands(chance)
        found = [words for words in every if not self.only or words[0] in self.only]
        return chance.sample(found, min(self.each, len(found))) if self.each else found


@dataclass(slots=True)
class Tally:
    """What came of a run.

    Attributes:
        slowest: (cost, base, seed) of the commands that took longest.
        largest: of those whose memory grew most.
    """

    found_in: Path
    images: int = 0
    commands: int = 0
    interrupted: int = 0
    by_base: Counter[str] = field(default_factory=Counter)
    found: list[dict[str, Any]] = field(default_factory=list)
    slowest: list[tuple[Cost, str, int]] = field(default_factory=list)
    largest: list[tuple[Cost, str, int]] = field(default_factory=list)

    def keep(self, finding: dict[str, Any]) -> None:
        """Count a finding, print it and write it down."""
        self.found.append(finding)
        print(
            finding["base"], finding["seed"], finding.get("arguments"), finding["what"], flush=True
        )
        name = f"{finding['base']}-{finding['seed']}-{len(self.found)}.json"
        (self.found_in / name).write_text(json.dumps(finding, indent=1))

    def add(self, base: str, seed: int, costs: list[Cost], interrupted: int) -> None:
        """Count an image."""
        self.images += 1
        self.commands += len(costs)
        self.interrupted += interrupted
        self.by_base[base] += 1
        every = [(cost, base, seed) for cost in costs]
        self.slowest = sorted(self.slowest + every, key=lambda one: -one[0].seconds)[:SHOWN]
        self.largest = sorted(self.largest + every, key=lambda one: -one[0].memory)[:SHOWN]

    def lines(self, seconds: float) -> Iterator[str]:
        """What the run came to, the findings last."""
        for cost, base, seed in self.slowest:
            yield f"slowest: {cost.seconds:.1f} s: {base} {seed} {' '.join(cost.arguments)}"
        for cost, base, seed in self.largest:
            grown = cost.memory >> 20
            yield f"memory: {grown} MiB more: {base} {seed} {' '.join(cost.arguments)}"
        yield f"{self.interrupted:,} commands of over a second were interrupted once more"
        yield (
            f"{self.images:,} images of {len(self.by_base)} bases, {self.commands:,} commands in "
            f"{seconds:,.0f} s, {len(self.found)} findings"
        )


def work(inputs: Inputs, seeds: range, choice: Commands, channel: Connection, folder: Path) -> None:
    """A child: one image after the other; sends the seed, what was found, and what it cost."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for seed in seeds:
        channel.send(("seed", seed, None))
        costs: list[Cost] = []
        for finding in one_image(inputs, seed, folder, choice, costs):
            channel.send(("found", seed, finding))
        channel.send(("done", seed, costs))
    channel.close()


def memory_folder() -> str | None:
    """A folder in memory, where there is one."""
    place = Path("/dev/shm")
    return str(place) if place.is_dir() else None


def one_image(
    inputs: Inputs, seed: int, folder: Path, choice: Commands, costs: list[Cost]
) -> Iterator[dict[str, Any]]:
    """Run commands on the image of a seed; gives what was found, and notes what they cost."""
    chance = random.Random(seed)
    with inputs.image(seed, chance, folder) as one:
        words = choice.of(chance)
        found = [*failures(one.image, words, folder, costs)]
        found += heed_interrupts(one.image, costs, folder, chance)
        found += [Failure((), what) for what in [one.watched()] if what]
        where = [[patch.offset, patch.data.hex()] for patch in one.patches]
        for failure in found:
            kept = {} if one.patches else {"image": str(_kept(one.image))}
            yield {"base": inputs.base(seed), "seed": seed, "patches": where, **kept,
                   **asdict(failure)}  # fmt: skip


def _kept(image: Path) -> Path:
    """A copy of an image that cannot be made again."""
    return Path(shutil.copy(image, tempfile.gettempdir()))


def _load_all() -> None:
    """Import the whole package, so that no child has to; what is here by now is shared with all."""
    for module in pkgutil.walk_packages(ext4kit.__path__, "ext4kit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


@dataclass(slots=True)
class _Child:
    process: multiprocessing.process.BaseProcess
    channel: Connection
    folder: Path  # of its images
    current: int  # seed
    stop: int  # behind the last of its seeds
    heard: float  # when it last said something

    def end(self) -> None:
        """Kill it, and remove what it left."""
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder)


def run(
    inputs: Inputs, seeds: range, choice: Commands, seconds: float, tally: Tally, children: int,
    folder: Path,
) -> None:  # fmt: skip
    """An image for each seed, until all are done or the time is over; `folder` has the images."""
    end = time.monotonic() + seconds
    share = max(min(SHARE, -(-len(seeds) // children // CUTS_EACH) * CUTS_EACH), 1)
    todo = deque(seeds[start : start + share] for start in range(0, len(seeds), share))
    running: list[_Child] = []
    _load_all()
    try:
        while (todo or running) and time.monotonic() < end:
            while todo and len(running) < children:
                running.append(_started(inputs, todo.popleft(), choice, folder))
            wait([child.channel for child in running], timeout=1)
            for child in list(running):
                if reason := _heard(child, inputs, tally):
                    running.remove(child)
                    child.end()
                    if reason != DONE:
                        base = inputs.base(child.current)
                        tally.keep({"base": base, "seed": child.current, "what": reason})
                        todo.appendleft(range(child.current + 1, child.stop))
            todo = deque(some for some in todo if some)
    finally:
        for child in running:
            child.end()


def _started(inputs: Inputs, seeds: range, choice: Commands, folder: Path) -> _Child:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    own = Path(tempfile.mkdtemp(dir=folder))
    fork = multiprocessing.get_context("fork")  # shares what is loaded
    process = fork.Process(target=work, args=(inputs, seeds, choice, theirs, own))
    process.start()
    theirs.close()
    return _Child(process, ours, own, seeds.start, seeds.stop, time.monotonic())


def _heard(child: _Child, inputs: Inputs, tally: Tally) -> str:
    """Take what a child says; why it is no more, or ""."""
    try:
        while child.channel.poll():
            kind, seed, value = child.channel.recv()
            child.current, child.heard = seed, time.monotonic()
            if kind == "found":
                tally.keep(value)
            elif kind == "done":
                slow = sum(cost.seconds > INTERRUPTED_FROM for cost in value)
                tally.add(inputs.base(seed), seed, value, slow)
                if seed + 1 == child.stop:
                    return DONE
    except EOFError:
        return "the child died"
    return f"no word for {SILENCE} s" if time.monotonic() - child.heard > SILENCE else ""


def _keep_bases(paths: list[Path], tally: Tally) -> None:
    """Beside what was found, the bases that no two runs have alike: those that the kernel made."""
    names = {finding["base"] for finding in tally.found}
    for path in paths:
        if path.stem in names and path.stem.startswith(KERNEL):
            shutil.copy(path, tally.found_in)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="images")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after that long")
    parser.add_argument("--seed", type=int, default=0, help="of the first image")
    parser.add_argument("--each", type=int, default=0, help="commands an image; 0: all of them")
    parser.add_argument(
        "--lines", action="store_true", help="each line of the forms, not one of each command"
    )
    parser.add_argument("--only", action="append", default=[], help="a command; all without it")
    parser.add_argument(
        "--base", action="append", default=[], help="only these; `cases`: e2fsprogs' own as well"
    )
    parser.add_argument("--containers", action="store_true", help="damaged containers")
    parser.add_argument("--powercut", action="store_true", help="images as power cuts leave them")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1, help="at once")
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder")
    options = parser.parse_args()
    options.found.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes its images from the memory
    with tempfile.TemporaryDirectory(prefix="ext4kit-fuzz-", dir=memory_folder()) as name:
        start, tally = time.monotonic(), Tally(options.found)
        others = options.powercut or options.containers
        paths = [] if others else bases(Path(name), options.base)
        inputs: Inputs = PowerCuts() if options.powercut else Damaged(paths)
        seeds = range(options.seed, options.seed + options.count)
        choice: Commands = Choice(options.each, tuple(options.only), options.lines)
        if options.containers:
            inputs = Containers(Path(name), options.base)
            choice = ContainerCommands(inputs.key)
        left = options.seconds - (time.monotonic() - start)
        run(inputs, seeds, choice, left, tally, options.children, Path(name))
        _keep_bases(paths, tally)
    print("\n".join(tally.lines(time.monotonic() - start)))
    raise SystemExit(bool(tally.found))


if __name__ == "__main__":
    main()
