"""Types, rootless tests, goldens and the demo on each Python, with the oldest and newest libraries.

    python -m tests.pythons [--only 3.13] [--libraries oldest|newest|next] [--part 1/2]
                            [--here | --bare]

Pythons are looked for where people have them; with root and debootstrap also in bare Debian
systems, each with its own. `next` are pre-releases of NumPy, click, rich and construct. What is
committed is cloned. A table at the end tells how each run ended. mypy runs with the newest ones.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bare.system import HOMES, BareError, bare_system, inside
from tests.environment import ROOT, is_root
from tests.environment.memory import prefer_memory
from tests.pythons.interpreters import SUITES, found_interpreters
from tests.pythons.libraries import PRE_RELEASES, oldest_libraries

WORK = ROOT / "build" / "pythons"
BARE_PACKAGES = ("python3", "python3-venv", "git", "ca-certificates", "e2fsprogs")
TESTS = ("-m", "pytest", "-m", "not kernel and not slow", "--quick")
_COUNT = re.compile(r"(\d+) (passed|failed|error|errors)\b")
Run = Callable[[Sequence[str | Path]], subprocess.CompletedProcess[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Python is.

    Attributes:
        name: "3.13", with the suite of a bare Debian.
        minor: of Python 3.
        python: the interpreter, as seen from there.
        clone: a clone of the project, as seen from there.
        run: runs a command there, in the clone.
    """

    name: str
    minor: int
    python: Path
    clone: Path
    run: Run


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended."""

    python: str
    libraries: str
    installed: str  # of NumPy and puremagic, whose versions matter most
    passed: int
    failed: int
    types: int  # exit codes
    tests: int
    demo: int
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether tests ran, and all of them, the types and the demo ended well."""
        return self.passed > 0 and not (self.failed or self.types or self.tests or self.demo)


def main() -> int:
    """0 when every run ended well."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pythons", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", action="append", help="3.13; `newest` for the newest one here")
    parser.add_argument(
        "--libraries", action="append", choices=["oldest", "newest", "next"],
        help="oldest and newest by default",
    )  # fmt: skip
    parser.add_argument("--part", default="1/1", help="1/2: the first half of the tests")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--here", action="store_true", help="no bare Debian systems")
    where.add_argument("--bare", action="store_true", help="nothing else")
    asked = parser.parse_args()
    prefer_memory()
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        for place in _places(asked.only, asked.here, asked.bare, stack):
            for libraries in asked.libraries or ["oldest", "newest"]:
                outcomes.append(_tried(place, libraries, asked.part))
                print(_table(outcomes[-1:]), flush=True)
    print(f"\n{_table(outcomes)}")
    return int(not outcomes or not all(one.is_good for one in outcomes))


def _places(only: list[str] | None, here: bool, bare: bool, stack: ExitStack) -> Iterator[Place]:
    """The Pythons to try: those of this machine, then one bare system after the other."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    found = found_interpreters()
    wanted = {max(found)} if only == ["newest"] else {int(each[2:]) for each in only or ()}
    clone = _cloned(WORK / "ext4kit")
    for minor, python in found.items():
        if not bare and (minor in wanted or not wanted):
            yield Place(f"3.{minor}", minor, python, clone, lambda words: _run_here(words, clone))
    if here or only == ["newest"]:
        return
    if not is_root() or shutil.which("debootstrap") is None:
        print("bare Debian systems are left out: they need root and debootstrap", flush=True)
        return
    for suite, minor in SUITES.items():
        if minor in wanted or not wanted:
            try:
                root = stack.enter_context(bare_system(suite, BARE_PACKAGES))
            except BareError as error:
                print(f"Debian {suite} is left out: {error}", flush=True)
                continue
            clone = Path(HOMES["root"], "ext4kit")  # as seen from inside
            _cloned(root / clone.relative_to("/"))
            yield Place(
                f"3.{minor}, {suite}", minor, Path("/usr/bin/python3"), clone,
                lambda words, root=root, clone=clone: inside(  # type: ignore[misc]
                    root, "root", ["env", f"--chdir={clone}", *map(str, words)], capture=True
                ),
            )  # fmt: skip


def _cloned(to: Path) -> Path:
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, to], check=True)
    return to


def _run_here(words: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def _tried(place: Place, libraries: str, part: str) -> Outcome:
    """Install the project and run its tests and the demo."""
    started = time.monotonic()
    python = place.clone / f".venv-{place.minor}-{libraries}" / "bin" / "python"
    installed = _installed(place, libraries, python)
    if installed is None:
        seconds = time.monotonic() - started
        return Outcome(place.name, libraries, "not installed", 0, 0, 1, 1, 1, seconds)
    # `make test` begins with the types, in a fresh clone with the newest libraries.
    types = place.run([python, "-m", "mypy"] if libraries == "newest" else ["true"])
    tests = place.run([python, *TESTS, "--part", part])
    demo = place.run([python, "-m", "sample_images.demo"])
    counts = {kind: int(number) for number, kind in _COUNT.findall(tests.stdout)}
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    for done in (types, tests, demo):
        if done.returncode:
            print(done.stdout[-6000:], done.stderr[-3000:], flush=True)
    return Outcome(
        place.name, libraries, installed, counts.get("passed", 0), failed, types.returncode,
        tests.returncode, demo.returncode, time.monotonic() - started,
    )  # fmt: skip


def _installed(place: Place, libraries: str, python: Path) -> str | None:
    """Make an environment; the versions of some libraries, None where it cannot be made."""
    chosen = oldest_libraries(ROOT, place.minor) if libraries == "oldest" else []
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    steps: list[list[str | Path]] = [
        [place.python, "-m", "venv", python.parents[1]],
        [*pip, "--editable", ".[dev]", *chosen],
    ]
    if libraries == "next":
        steps.append([*pip, "--upgrade", "--pre", *PRE_RELEASES])
    for step in steps:
        done = place.run(step)
        if done.returncode:
            print(f"{place.name}, {libraries}: {done.stderr[-3000:]}", flush=True)
            return None
    lines = place.run([python, "-m", "ext4kit", "--version", "--verbose"]).stdout.splitlines()
    named = [line for line in lines if line.startswith(("numpy ", "puremagic ", "click "))]
    return ", ".join(named)


def _table(outcomes: Sequence[Outcome]) -> str:
    rows = [
        f"| {one.python} | {one.libraries} | {one.installed} | {one.passed:,} passed, {one.failed} "
        f"failed, exit {one.tests} | types exit {one.types} | demo exit {one.demo} | "
        f"{one.seconds:.0f} s |"
        for one in outcomes
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
