"""What a checker that shares no code says of all recipes: `python -m sample_images.recipes.proof`.

Each image is made and recovered. `tools/ext4check.py` judges every record, and manifests in which
one fact was changed. Texts of `explain` show what a record rests on.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from sample_images.recipes.machine import MachineError, missing_for_kernel
from sample_images.recipes.making import RECIPES, build
from sample_images.recipes.score import read_records

CHECKER = Path(__file__).parents[2] / "tools/ext4check.py"
GRADES = ("intact", "consistent", "partial", "overwritten", "carved")
VERDICTS = ("confirmed", "refuted", "undecided")
TEXTS = 2  # of each grade
MOST_LINES = 60  # of a text that is shown
FACTS = {
    "offset": "file_system_at inode_at.offset freed_at.offset name_at.offset map_at.*.offset"
    " content_at.*.offset",
    "transaction": "inode_at.transaction freed_at.transaction name_at.transaction"
    " map_at.*.transaction content_at.*.transaction last_owner.first last_owner.last"
    " deleted_between.*.transaction",
    "owner": "uid gid inode generation last_owner.inode last_owner.generation",
    "time": "atime mtime ctime crtime dtime deleted_between.*.time",
    "name": "name path",
    "size": "size",
    "hash": "sha256",
    "block": "extents.*.* blocks inode_at.block freed_at.block name_at.block map_at.*.block"
    " content_at.*.block",
    "other": "mode inode_at.checksum freed_at.checksum copies.older copies.newer",
}
PAGE = """# Proof that others can check

Written by `make proof SEED={seed}`, on kernel {kernel}.

Each of {recipes} recipes was made, recovered, and judged by `ext4check.py`, one file of 500 lines
that shares no code with ext4kit ([how to use it](guide.md#checking-a-manifest-without-ext4kit)).
*Undecided* counts records that it can neither confirm nor refute: carved content without an inode,
maps and names rebuilt from freed metadata, and images with fast commits.

{grades}

## Changed records

In confirmed records with the grade intact one fact was changed at random, {changes:,} times.
{refuted:,} of the changed records were refuted.

{facts}

## By recipe

{table}

## What records rest on

This is the output of `ext4kit explain` for two files of each grade{short}.

{texts}
"""


@dataclass(slots=True)
class Proof:
    """What was measured.

    Attributes:
        verdicts: by recipe, grade and verdict.
        changed: by kind of fact; refuted: of these.
        missed: changed records that were not refuted.
        texts: by grade, (recipe, path, text of `explain`).
    """

    verdicts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    refuted: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    texts: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)

    def count(self, name: str = "", grade: str = "", verdict: str = "") -> int:
        """How many records; "" for any."""
        wanted = (name, grade, verdict)
        return sum(
            count
            for key, count in self.verdicts.items()
            if all(ask in ("", one) for ask, one in zip(wanted, key, strict=True))
        )

    @property
    def is_bad(self) -> bool:
        """Whether something is refuted, or a change is not, or an intact record is undecided."""
        confirmed = self.count(grade="intact", verdict="confirmed")
        refuted = self.count(verdict="refuted")
        return bool(refuted or self.missed or confirmed != self.count(grade="intact"))


def load_checker() -> ModuleType:
    """The checker as a module."""
    spec = importlib.util.spec_from_file_location("ext4check", CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ext4check"] = module
    spec.loader.exec_module(module)
    return module


def changed(record: dict[str, Any], kind: str, rng: random.Random) -> dict[str, Any] | None:
    """The record with one fact of a kind changed; None where it tells no such fact."""
    facts = [fact.split(".") for fact in FACTS[kind].split()]
    whole = [fact if fact[0] in record else ["evidence", *fact] for fact in facts]
    found = [place for fact in whole for place in _places(record, fact)]
    if not found:
        return None
    place = rng.choice(found)
    new = copy.deepcopy(record)
    at: Any = new
    for key in place[:-1]:
        at = at[key]
    old = at[place[-1]]
    if isinstance(old, str):
        spot = rng.randrange(old.startswith("/"), len(old))
        letter = rng.choice([one for one in "abcdef0123456789" if one != old[spot]])
        at[place[-1]] = old[:spot] + letter + old[spot + 1 :]
        new.pop(f"{place[-1]}_bytes", None)
    else:
        steps = (1, -1, rng.randrange(2, 1000), (old ^ 1 << rng.randrange(32)) - old)
        at[place[-1]] = old + rng.choice(steps)
    return new


def _places(value: Any, parts: list[str]) -> list[list[Any]]:
    """Where in a record a fact stands that is told."""
    if not parts or value is None:
        return [] if value is None or isinstance(value, list | dict) else [[]]
    keys = range(len(value)) if parts[0] == "*" else [parts[0]]
    return [[key, *rest] for key in keys for rest in _places(value[key], parts[1:])]


def prove(proof: Proof, name: str, folder: Path, changes: int, rng: random.Random) -> None:
    """Make an image in a folder, unless it is there, recover it, and judge its records."""
    image, out = folder / f"{name}.img", folder / "out"
    if not image.exists():
        build(name, folder)
    if not out.exists():
        _ext4kit("recover", image, "-o", out, "-q")
    checker = load_checker()
    fs = checker.FileSystem(image, 0)
    pool = []
    for number, record in enumerate(read_records(out), 1):
        check, grade = checker.Check(fs, record, out), record["grade"]
        verdict = "refuted" if check.failed else "undecided" if check.unknown else "confirmed"
        proof.verdicts[name, grade, verdict] += 1
        if grade == "intact" and verdict == "confirmed":
            pool.append(record)
        texts = proof.texts.setdefault(grade, [])
        if len(texts) < TEXTS and name not in [one for one, _, _ in texts]:
            manifest = out / "manifest.jsonl"
            text = _ext4kit("explain", image, "--manifest", manifest, "--record", str(number))
            what = record["path"] or record["output"] or f"<{record['inode']}>"
            texts.append((name, what, text))
    _change(proof, checker, fs, pool, changes, rng)


def _change(
    proof: Proof, checker: ModuleType, fs: Any, pool: list[Any], changes: int, rng: random.Random
) -> None:
    """Change one fact in so many of the confirmed records, and have each judged."""
    while pool and changes:
        record, kind = rng.choice(pool), rng.choice(list(FACTS))
        new = changed(record, kind, rng)
        if new is not None:
            changes -= 1
            proof.changed[kind] += 1
            if checker.Check(fs, new, None).failed:
                proof.refuted[kind] += 1
            else:
                proof.missed.append(f"{kind}: {json.dumps(record)} {json.dumps(new)}")


def _ext4kit(*arguments: object) -> str:
    command = [sys.executable, "-m", "ext4kit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def page(proof: Proof, seed: int) -> str:
    """What was measured, as Markdown."""
    names = list(dict.fromkeys(name for name, _, _ in proof.verdicts))
    grades = [
        (grade, *(f"{proof.count(grade=grade, verdict=verdict):,}" for verdict in VERDICTS))
        for grade in GRADES
    ]
    total = ("all", *(f"{proof.count(verdict=verdict):,}" for verdict in VERDICTS))
    rows = [(name, *(proof.count(name, verdict=verdict) for verdict in VERDICTS)) for name in names]
    facts = [(kind, proof.changed[kind], proof.refuted[kind]) for kind in FACTS]
    texts = [
        f"### {grade}: `{path}` of `{name}`\n\n```\n{_cut(text)}\n```"
        for grade in GRADES
        for name, path, text in proof.texts.get(grade, [])
    ]
    return PAGE.format(
        seed=seed, kernel=os.uname().release.split("-")[0], recipes=len(names),
        grades=_table(("grade", *VERDICTS), [*grades, total]),
        changes=proof.changed.total(), refuted=proof.refuted.total(),
        facts=_table(("fact", "changed", "refuted"), facts),
        table=_table(("recipe", *VERDICTS), rows),
        short=f"; of a long text the first {MOST_LINES} lines", texts="\n\n".join(texts),
    )  # fmt: skip


def _cut(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[:MOST_LINES])


def _table(head: tuple[object, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main() -> int:
    """Judge recipes, write the page; 1 when a record is refuted or a change is not."""
    options = _parser().parse_args()
    if reason := missing_for_kernel():
        print(f"error: proof: {reason}", file=sys.stderr)
        return 3
    names = options.names or [name for name, recipe in RECIPES.items() if not recipe.slow]
    proof, rng = Proof(), random.Random(options.seed)
    try:
        for name in names:
            with tempfile.TemporaryDirectory(prefix="proof-") as scratch:
                folder = options.keep / name if options.keep else Path(scratch)
                prove(proof, name, folder, options.changes, rng)
            counts = ", ".join(f"{proof.count(name, verdict=one):,} {one}" for one in VERDICTS)
            print(f"{name:<24}{counts}", flush=True)
    except MachineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    print(f"{proof.refuted.total():,} of {proof.changed.total():,} changes refuted")
    print("\n".join(proof.missed[:5]))
    if options.page:
        options.page.write_text(page(proof, options.seed), encoding="utf-8")
    return int(proof.is_bad)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *RECIPES], metavar="NAME")
    parser.add_argument("--changes", type=int, default=100, help="of one fact, in each recipe")
    parser.add_argument("--seed", type=int, default=1, help="of the changes")
    parser.add_argument("--page", type=Path, help="write the results here, as Markdown")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where images stay; used if there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
