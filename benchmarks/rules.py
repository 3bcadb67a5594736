"""How much of the processor time of `report --quick` the rules of signs take.

python -m benchmarks.rules IMAGE [--rules 500]

More rules than the package has are copies of its own: with another code, other names of files where
a pattern has one name, and other texts of regular expressions, so that nothing is shared by chance.
Where a pattern has wildcards, a copy matches the same files and reads them again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

RULES = 500
RUNS = 3
_FAMILIES = files("ext4kit.triage.rules").joinpath("families")
_TEXTS = ("places.yaml", "phrases.yaml")
_ONE_NAME = re.compile(r"[\w.-]+")
_PATTERNS = ("content", "without", "added", "name")


def _documents() -> Iterator[dict[str, Any]]:
    """The rules of the package that look at files or events."""
    for path in sorted(_FAMILIES.iterdir(), key=lambda one: one.name):
        if path.name.endswith(".yaml") and path.name not in _TEXTS:
            for rule in yaml.safe_load_all(path.read_text()):
                if not {"own", "hints"} & set(_listed(rule["look"])):
                    yield rule


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _other_name(pattern: str, number: int) -> str:
    """A pattern with another name in its last part, if that is one name."""
    above, _, name = pattern.rpartition("/")
    return f"{above}/{number}{name}" if _ONE_NAME.fullmatch(name) else pattern


def _copy(rule: dict[str, Any], number: int) -> dict[str, Any]:
    copied = dict(rule, code=f"{rule['code']}-{number}")
    if "paths" in rule:
        copied["paths"] = [_other_name(one, number) for one in _listed(rule["paths"])]
    for key in _PATTERNS:
        if key in rule:
            copied[key] = f"(?#{number})" + rule[key] if "(?" not in rule[key][:4] else rule[key]
    return copied


def write_rules(folder: Path, wanted: int) -> int:
    """Write copies of rules, so that there are as many as wanted; the number of all rules."""
    from ext4kit.triage.rules.reading import own_rules, read_rules

    own, copies, number = list(_documents()), list[dict[str, Any]](), 0
    while len(own_rules()) + len(copies) < wanted:
        copies.append(_copy(own[number % len(own)], number))
        number += 1
    (folder / "copies.yaml").write_text(yaml.safe_dump_all(copies, sort_keys=False))
    return len(read_rules([folder]))


def measure(image: Path, folder: Path | None) -> dict[str, float]:
    """Processor seconds of a report in this process: of all, of reading rules, of finding signs."""
    from ext4kit.cli import rule_files
    from ext4kit.cli.main import run as command
    from ext4kit.triage import collecting
    from ext4kit.triage.suspicions import signs

    spent = dict.fromkeys(("reading the rules", "matching", "finding signs"), 0.0)

    def timed(owner: Any, name: str, title: str) -> None:  # noqa: ANN401 -- a module
        inner: Callable[..., object] = getattr(owner, name)

        def run(*words: object, **values: object) -> object:
            start = time.process_time()
            try:
                return inner(*words, **values)
            finally:
                spent[title] += time.process_time() - start

        setattr(owner, name, run)

    timed(rule_files, "read_rules", "reading the rules")
    timed(signs, "find_indicators", "matching")
    timed(collecting, "find_signs", "finding signs")
    words = ["report", str(image), "--quick", *(["--rules", str(folder)] if folder else ())]
    with contextlib.redirect_stdout(io.StringIO()):
        command(words)
    return spent | {"report": time.process_time()}


def main() -> None:
    """Print the medians of some runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("--rules", type=int, default=RULES, help="number of rules")
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.once is not None:
        folder = chosen.once if any(chosen.once.iterdir()) else None
        print(json.dumps(measure(chosen.image, folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        own, more = Path(name, "own"), Path(name, "more")
        own.mkdir()
        more.mkdir()
        for title, folder in ((f"{write_rules(more, chosen.rules)} rules", more), ("own", own)):
            words = [sys.executable, "-m", "benchmarks.rules", chosen.image, "--once", folder]
            runs = [
                json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
                for _ in range(RUNS)
            ]
            median = {key: sorted(run[key] for run in runs)[RUNS // 2] for key in runs[0]}
            listed = ", ".join(f"{key} {value:.2f} s" for key, value in median.items())
            share = median["finding signs"] / median["report"]
            both = share + median["reading the rules"] / median["report"]
            shares = f"signs {share:.1%}, with reading the rules {both:.1%}"
            print(f"{title}: {listed}; {shares}", flush=True)


if __name__ == "__main__":
    main()
