"""Change the program at places drawn by chance and count which changes the tests notice.

    python -m tests.mutation PACKAGE [--sample N] [--seed S] [--workers N]

A site is a place where operators of cosmic-ray apply; N sites are drawn and one change of each.
The tests that run the line judge it, in a copy of the repository below build/mutation; so do, as
far as --budget goes, the other tests of their files and the package's own. For what runs at import
those that run anything of the module take their place.
Results are in build/mutation/PACKAGE-SEED.jsonl; with --survivors those that survived there are
judged again.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import queue
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests import cases
from tests.environment import ROOT, sharing
from tests.mutation import FOLDER, PACKAGES, Package
from tests.mutation.measured import IMAGES, Covering, covering
from tests.mutation.sites import Variant, sites, statement_lines

_COPIED = ("docs", "ext4kit", "sample_images", "tests", "Makefile", "README.md", "pyproject.toml")
_SLACK = 5  # times as long as all of them without a change may one test take, and 20 seconds
_LIMIT = 600  # seconds for all, besides


class Copy:
    """A copy of the repository with a child in it that judges mutants."""

    def __init__(self, number: int) -> None:
        self._folder = folder = FOLDER / f"copy-{os.getpid()}-{number}"
        folder.mkdir(parents=True)
        for name in _COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
        environment = {
            **os.environ, sharing.IMAGES: str(IMAGES), cases.HOME: str(cases.home()),
        }  # fmt: skip
        environment.pop("PYTHONPATH", None)
        self._proven: set[str] = set()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.trial"], cwd=folder, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def prove(self, path: str, source: str, tests: Sequence[str], clean: float) -> None:
        """See that tests pass here without a change; each of them once.

        Raises:
            SystemExit: one fails; what it noticed would say nothing of a change.
        """
        if not (new := [test for test in tests if test not in self._proven]):
            return
        found = self.judge(path, source, new, clean)
        if found["verdict"] != "survived":
            raise SystemExit(f"tests fail without a change: {found['by']}")
        self._proven.update(new)

    def judge(self, path: str, source: str, tests: Sequence[str], clean: float) -> dict[str, Any]:
        """Verdict, seconds and the test that noticed."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        job = {"path": path, "source": source, "tests": tests,
               "each": 20 + _SLACK * clean, "limit": _LIMIT + _SLACK * clean}  # fmt: skip
        self._child.stdin.write(json.dumps(job) + "\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._child.stdout.readline())
        return answer

    def close(self) -> None:
        """End the child and remove the copy."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()
        shutil.rmtree(self._folder)


class Run:
    """One run over some variants."""

    def __init__(self, package: Package, covered: Covering, budget: float, workers: int) -> None:
        self.package = package
        self.covered = covered
        self.budget = budget
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        self._workers = workers

    def results(self, variants: Sequence[Variant]) -> Iterator[dict[str, Any]]:
        """What came of each, in order."""
        copies = [Copy(number) for number in range(self._workers)]
        for copy in copies:
            self._copies.put(copy)
        with ThreadPoolExecutor(self._workers) as pool:
            yield from pool.map(self._judged, variants)
        for copy in copies:
            copy.close()

    def _judged(self, variant: Variant) -> dict[str, Any]:
        source = (ROOT / variant.path).read_text()
        mutated = variant.mutate(source)
        tests = self._tests(variant, source)
        about = {
            "path": variant.path, "line": variant.start[0], "column": variant.start[1],
            "operator": variant.operator, "occurrence": variant.occurrence,
            "change": change(source, mutated), "tests": len(tests),
        }  # fmt: skip
        if not tests:
            return {**about, "verdict": "survived", "seconds": 0.0, "by": "no test runs it"}
        copy = self._copies.get()
        try:
            clean = self.covered.cost(tests)
            copy.prove(variant.path, source, tests, clean)
            return {**about, **copy.judge(variant.path, mutated, tests, clean)}
        finally:
            self._copies.put(copy)

    def _tests(self, variant: Variant, source: str) -> list[str]:
        lines, in_function = statement_lines(source, variant.start[0])
        found = self.covered.tests_of(variant.path, lines) if in_function else set()
        found = found or self.covered.tests_of(variant.path, None)
        return self.covered.plan(found, self.package.tests[0], self.budget)


def change(before: str, after: str) -> str:
    """The changed lines, without their context."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def drawn(package: Package, sample: int, seed: int) -> tuple[list[Variant], int]:
    """One variant of each of so many sites, and how many sites there are."""
    paths = [ROOT / name for name in package.sources]
    files = sorted(
        file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])
    )
    every = [site for file in files for site in sites(ROOT, str(file.relative_to(ROOT)))]
    chance = random.Random(seed)
    chosen = chance.sample(every, min(sample, len(every)))
    return sorted(chance.choice(site) for site in chosen), len(every)


def interval(count: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a share."""
    share = count / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return middle - half, middle + half


def _survivors(path: Path) -> list[Variant]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Variant(one["path"], (one["line"], one["column"]), one["operator"], one["occurrence"])
        for one in records
        if one["verdict"] == "survived"
    ]  # fmt: skip


def _show(one: dict[str, Any]) -> None:
    place = f"{one['path'].removeprefix('ext4kit/')}:{one['line']}"
    print(
        f"{one['verdict']:9} {one['seconds']:6.1f} s  {place:34} {one['operator'].split('/')[1]}",
        flush=True,
    )
    if one["verdict"] == "survived":
        print(one["change"], flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--sample", type=int, default=120, help="sites")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for a mutant")
    parser.add_argument("--survivors", action="store_true", help="only those of the last run")
    options = parser.parse_args()
    package = PACKAGES[options.package]
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = f"{options.package}-{options.seed}"
    target = FOLDER / f"{name}{'-again' if options.survivors else ''}.jsonl"
    if options.survivors:
        variants = _survivors(FOLDER / f"{name}.jsonl")
    else:
        variants, count = drawn(package, options.sample, options.seed)
        print(f"{options.package}: {len(variants)} of {count} sites, --seed {options.seed}")
    covered = covering(package)
    killed, of = 0, 0
    with target.open("w") as stream:
        for one in Run(package, covered, options.budget, options.workers).results(variants):
            stream.write(json.dumps(one) + "\n")
            stream.flush()
            _show(one)
            killed, of = killed + (one["verdict"] != "survived"), of + 1
    low, high = (round(100 * part) for part in interval(killed, of))
    print(f"{options.package}: {killed} of {of} killed ({100 * killed / of:.0f} %, "
          f"95 % interval {low}-{high})")  # fmt: skip


if __name__ == "__main__":
    main()
