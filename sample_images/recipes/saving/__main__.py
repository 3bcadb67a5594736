"""`python -m sample_images.recipes.saving [--page FILE]`: old contents of files saved over.

Each row is a way of saving, each column when the file system was synced: before the save, between
its steps, after it, at each of these, or never.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from sample_images.recipes.saving.patterns import PATTERNS, Pattern
from sample_images.recipes.saving.programs import installed, pattern_of
from sample_images.recipes.saving.scenes import LAYOUTS, SYNCS, Verdict, build, judge

_INTRODUCTION = """\
# Files that were saved over

A file of 9,000 bytes was saved over. The tables show whether its old content is recovered, by the
way in which the program saves (`sample_images/recipes/saving/patterns.py`), by the layout, and by
the time at which the file system was synced: before the save, between its steps, after it, at all
of these times, or never. Each cell has two answers: whether the old content was recovered, and
whether it was recovered under its path. Content that was never on the disk before it was replaced
leaves nothing to recover; this is the case without a sync before the save. `make saving` makes this
page on the running kernel."""


def main() -> int:
    """0 when nothing is said falsely."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.recipes.saving")
    parser.add_argument("--layout", action="append", choices=LAYOUTS)
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    asked = parser.parse_args()
    wrong, page = 0, [_INTRODUCTION]
    with tempfile.TemporaryDirectory() as work:
        for layout in asked.layout or LAYOUTS:
            columns = {sync: _verdicts(Path(work), layout, sync) for sync in SYNCS}
            page.append(f"\n## {layout}\n\n" + "\n".join(_table(columns)))
            print(page[-1], flush=True)
            wrong += sum(bool(one.wrong) for each in columns.values() for one in each.values())
        ways = {name: pattern_of(name) for name in installed()}
        columns = {each: _verdicts(Path(work), each, "before", ways) for each in LAYOUTS}
        text = (
            "All programs saved on one disk, after a sync. `reused`: later files have the blocks."
        )
        page.append(f"\n## By real programs\n\n{text}\n\n" + "\n".join(_table(columns)))
        print(page[-1])
        wrong += sum(bool(one.wrong) for each in columns.values() for one in each.values())
    page.append(f"\nSaid falsely: {wrong}.\n")
    print(page[-1])
    if asked.page:
        asked.page.write_text("\n".join(page), encoding="utf-8")
    return int(wrong > 0)


def _verdicts(
    work: Path, layout: str, sync: str, ways: Mapping[str, Pattern] = PATTERNS
) -> dict[str, Verdict]:
    image = work / "disk.img"
    saved = build(image, layout, sync, ways)
    found = judge(image, saved)
    image.unlink()
    return {path.split(b"/")[1].decode(): verdict for path, verdict in found.items()}


def _table(columns: Mapping[str, dict[str, Verdict]]) -> Iterable[str]:
    yield f"| saved by | {' | '.join(columns)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for name in next(iter(columns.values())):
        cells = " | ".join(_cell(verdicts[name]) for verdicts in columns.values())
        yield f"| {name.replace('_', ' ')} | {cells} |"


def _cell(verdict: Verdict) -> str:
    if verdict.wrong:
        return f"**{verdict.wrong}**"
    if verdict.reused:
        return "reused"
    return f"{'yes' if verdict.content else '-'}, {'yes' if verdict.path else '-'}"


if __name__ == "__main__":
    sys.exit(main())
