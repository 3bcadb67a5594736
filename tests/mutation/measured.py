"""Which tests run which line, measured once and again for test files that changed since."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage

from tests.environment import ROOT, sharing
from tests.mutation import FOLDER, PACKAGES, Package
from tests.mutation.recorder import SECONDS

IMAGES = FOLDER / "images"  # kept: what the kernel made serves all runs
_SETTINGS = """[run]
branch = false
parallel = true
patch = _exit
data_file = {folder}/data
source = ext4kit
"""


@dataclass(frozen=True, slots=True)
class Covering:
    """What one run of the tests showed.

    Attributes:
        seconds: of each test that passed.
        lines: source -> line -> tests, or test files where their fixtures ran it.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, set[str]]]

    def tests_of(self, path: str, lines: Iterable[int] | None) -> set[str]:
        """The tests that run one of these lines of a source, any line for None."""
        known = self.lines.get(path, {})
        wanted = known if lines is None else lines
        contexts = set().union(*(known.get(line, set()) for line in wanted))
        return {test for test in self.seconds if contexts & {test, _file(test)}}

    def plan(self, tests: set[str], own: str, budget: float) -> list[str]:
        """Tests to run, each group of a file together, the quickest file first.

        First these; then the others of their files, for what only the first test to fill a cache
        is seen to run; then the others of the package.

        Args:
            tests: that are known to run the line.
            own: the folder of the package's own tests.
            budget: seconds of tests; what does not fit in is left out.
        """
        files = {_file(test) for test in tests}
        groups: dict[tuple[int, str], list[str]] = {}
        for test in sorted(self.seconds, key=self.seconds.__getitem__):
            file = _file(test)
            if test in tests or file in files or test.startswith(own):
                turn = 0 if test in tests else 1 if file in files else 2
                groups.setdefault((turn, file), []).append(test)
        chosen: list[str] = []
        for key in sorted(groups, key=lambda key: (key[0], self.cost(groups[key]))):
            for test in groups[key]:
                if (took := self.seconds[test]) <= budget:
                    chosen.append(test)
                    budget -= took
        return chosen

    def cost(self, tests: Sequence[str]) -> float:
        """Seconds of these tests."""
        return sum(self.seconds[test] for test in tests)


def covering(package: Package) -> Covering:
    """What tests run, from the last time where the test file and the sources are as they were."""
    kept = FOLDER / "lines.json"
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    sources = _digest(_python(("ext4kit",)))
    keys = {
        str(path.relative_to(ROOT)): sources + _digest([path])
        for path in _python(package.tests)
        if path.name.startswith("test_")
    }
    stale = sorted(file for file in keys if known.get(file, {}).get("key") != keys[file])
    if stale:
        for file, one in _measure(stale).items():
            known[file] = {"key": keys[file], **one}
        kept.write_text(json.dumps(known))
    return _joined(known[file] for file in keys)


def _joined(parts: Iterable[dict[str, Any]]) -> Covering:
    whole = Covering({}, {})
    for part in parts:
        whole.seconds.update(part["seconds"])
        for path, by_line in part["lines"].items():
            mine = whole.lines.setdefault(path, {})
            for line, contexts in by_line.items():
                mine.setdefault(int(line), set()).update(contexts)
    return whole


def _measure(files: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Run test files under coverage; for each what `Covering` holds, as JSON has it."""
    folder = FOLDER / "coverage"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings, seconds = folder / "settings", folder / "seconds.json"
    settings.write_text(_SETTINGS.format(folder=folder))
    environment = {**os.environ, sharing.IMAGES: str(IMAGES), SECONDS: str(seconds)}
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"]
    done = subprocess.run(
        [*command, "-n", "0", "--seed", "0", "-p", "no:cacheprovider",
         "-p", "tests.mutation.recorder", *files],
        cwd=ROOT, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit("the tests have to pass before they are measured")
    data = coverage.CoverageData(str(folder / "all"))
    for path in folder.glob("data.*"):
        one = coverage.CoverageData(str(path))
        one.read()
        data.update(one)
    found: dict[str, dict[str, Any]] = {file: {"seconds": {}, "lines": {}} for file in files}
    for test, took in json.loads(seconds.read_text()).items():
        found[_file(test)]["seconds"][test] = took
    mutated = {str(path) for one in PACKAGES.values() for path in _python(one.sources)}
    for source in mutated & data.measured_files():
        name = str(Path(source).relative_to(ROOT))
        for line, contexts in data.contexts_by_lineno(source).items():
            for context in filter(None, contexts):
                by_line = found[_file(context)]["lines"].setdefault(name, {})
                by_line.setdefault(str(line), []).append(context)
    return found


def _file(test: str) -> str:
    return test.split("::")[0]


def _python(places: Iterable[str]) -> list[Path]:
    found = [ROOT / place for place in places]
    return sorted(
        path for place in found for path in (place.rglob("*.py") if place.is_dir() else [place])
    )


def _digest(paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
