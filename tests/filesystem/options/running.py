"""One option set from mke2fs to the deleted files, and the sum of many."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.machine import MachineError
from tests.environment import ROOT
from tests.filesystem.matrix_oracle import Tree
from tests.filesystem.options import making, removing
from tests.filesystem.options.drawing import OptionSet, draw
from tests.filesystem.options.looking import complaint, look, look_for_findings

SHOWN = 8  # of what is wrong with one set; all of it is kept
FAILED = ROOT / "build" / "failed"


@dataclass(slots=True)
class Tally:
    """What came of many sets.

    Attributes:
        counts: sets that were tried, made, clean, mounted, changed; files that were removed, came
            back right, intact, consistent, wrong ones.
        wrong: (seed, stage, what), for each stage at which something was wrong.
        unclean: (seed, stage, what e2fsck finds); nothing was asked of ext4kit there.
    """

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, str, list[str]]] = field(default_factory=list)
    unclean: list[tuple[int, str, str]] = field(default_factory=list)

    def line(self) -> str:
        """The counts in one line."""
        return ", ".join(f"{name} {count:,}" for name, count in self.counts.items())


def run(seeds: Iterable[int], told: Callable[[str], None] = print) -> Tally:
    """Try the set of each seed; images of those that fail stay in `FAILED`."""
    tally = Tally()
    for seed in seeds:
        try_set(draw(seed), tally, told)
    return tally


def try_set(
    chosen: OptionSet, tally: Tally | None = None, told: Callable[[str], None] = print
) -> Tally:
    """Try one set; what came of it is added to the tally."""
    tally = Tally() if tally is None else tally
    with _work_folder() as work:
        _Trial(chosen, work, tally, told).run()
    return tally


def missing() -> str:
    """Why no set can be tried here, or an empty string."""
    return machine.missing_for_kernel()


@contextmanager
def _work_folder() -> Iterator[Path]:
    """In memory where there is room for that: nothing of it has to come to a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="ext4kit-options-", dir=memory if os.access(memory, os.W_OK) else None
    ) as name:
        yield Path(name)


class _Trial:
    """One set."""

    def __init__(
        self, chosen: OptionSet, work: Path, tally: Tally, told: Callable[[str], None]
    ) -> None:
        self._chosen, self._work, self._tally, self._told = chosen, work, tally, told
        self._image = work / "image"
        self._is_changed = False

    def run(self) -> None:
        """All stages, until something is wrong or goes no further."""
        counts = self._tally.counts
        counts["tried"] += 1
        try:
            making.make(self._chosen, self._image)
        except MachineError:
            return
        counts["made"] += 1
        tree = None
        if making.is_mountable(self._chosen):
            tree = making.fill_mounted(self._chosen, self._image)
        if tree is None:
            self._offline()
            return
        counts["mounted"] += 1
        if self._is_right("filled", tree):
            trees = self._change(tree)
            if trees:
                self._remove(trees)

    def _offline(self) -> None:
        """A copy made by mke2fs; what it counts wrong (quotas, values in inodes) e2fsck mends."""
        try:
            making.fill_offline(self._chosen, self._image)
            if complaint(self._image):
                machine.check(self._image)
        except MachineError:
            self._tally.counts["not filled"] += 1
            return
        tree = making.read_mounted(self._chosen, self._image)
        if self._is_right("copied", tree):
            self._tally.counts["not mounted"] += 1
            self._change(tree)

    def _change(self, tree: Tree | None) -> list[Tree] | None:
        """Resize and convert; what the kernel read each time, None where something was wrong."""
        trees = [] if tree is None else [tree]
        done = []
        for name in self._chosen.changes:
            if not making.change(self._chosen, name, self._image):
                continue
            self._tally.counts["changes"] += 1
            done.append(name)
            tree = making.read_mounted(self._chosen, self._image)
            if not self._is_right(name, tree):
                return None
            trees += [] if tree is None else [tree]
        self._tally.counts["changed"] += bool(done)
        self._is_changed = bool(done)
        return trees

    def _remove(self, trees: list[Tree]) -> None:
        try:
            gone = removing.remove(self._chosen, self._image, trees[-1])
        except MachineError:
            return
        if told := complaint(self._image):
            self._tally.unclean.append((self._chosen.seed, "removed", told))
            return
        if wrong := look_for_findings(self._image):
            self._keep("removed", wrong)
        found = removing.judge(self._image, trees, gone, self._is_changed)
        for name, value in asdict(found).items():
            self._tally.counts[name] += len(value) if name == "wrong" else value
        if found.wrong:
            self._keep("deleted", found.wrong)

    def _is_right(self, stage: str, tree: Tree | None) -> bool:
        """Look at the image as it is."""
        if told := complaint(self._image):
            self._tally.unclean.append((self._chosen.seed, stage, told))
            return False
        self._tally.counts["clean"] += stage in ("filled", "copied")
        self._tally.counts["looks"] += 1
        wrong = look(self._image, self._work, tree)
        if wrong:
            self._keep(stage, wrong)
        return not wrong

    def _keep(self, stage: str, wrong: list[str]) -> None:
        """Keep the image, tell what is wrong and how to repeat it."""
        seed = self._chosen.seed
        self._tally.wrong.append((seed, stage, wrong))
        folder = FAILED / f"options-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder)
        folder.mkdir()
        machine.copy_sparse(self._image, folder / "image")
        about = {"command": self._chosen.command, "stage": stage, "wrong": wrong}
        (folder / "set.json").write_text(json.dumps(about | asdict(self._chosen), indent=1) + "\n")
        lines = [f"set {seed}, {stage}: {self._chosen.command}", *wrong[:SHOWN]]
        repeat = f"repeat: make fuzz-options SETS=1 SEED={seed}"
        self._told("\n  ".join([*lines, f"kept: {folder}", repeat]))
