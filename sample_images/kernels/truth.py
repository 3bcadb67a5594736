"""What random histories told on several kernels, as one table.

`python -m sample_images.kernels.truth COUNTS.json ...` prints it; with `--page docs/truth.md` it is
the section of that page that is about kernels. The counts are those of `make fuzz-kernel`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sample_images.kernels import version_of
from sample_images.recipes.history_judge import Content, Verdict

HEADING = "## By kernel"
_SECTION = """
{heading}

{text}
{table}
"""
_TEXT = """\
This section is written by `python -m sample_images.kernels.truth --page docs/truth.md` from the
counts of `make fuzz-kernel`.

Histories of {operations} operations ran on all layouts, with the same number of histories for each;
two kernels act differently on the same seed. A user-mode kernel has its own clock, so minutes pass
between its operations and up to days between its mounts. *Exact kept* is the share of files graded
intact or consistent among the files that were recovered exactly and are not empty.
"""
_COLUMNS = (
    "kernel", "images", "deleted files", "intact", "of these wrong", "consistent",
    "of these exact", "exact kept", "paths", "of these wrong",
)  # fmt: skip


@dataclass(slots=True)
class Counts:
    """What was counted on one kernel.

    Attributes:
        images: how many histories; operations: of each of them, all values that there were.
    """

    images: int = 0
    operations: set[int] = field(default_factory=set)
    verdict: Verdict = field(default_factory=Verdict)


def save(path: Path, images: int, operations: int, seed: int, verdict: Verdict) -> None:
    """Write what was counted on the kernel that runs this.

    Args:
        path: made anew, with its folder.
        images: histories in it.
        operations: of each.
        seed: of the first.
        verdict: on all of them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"kernel": os.uname().release.split("-")[0], "images": images, "seed": seed,
            "operations": operations, **verdict.counts()}  # fmt: skip
    path.write_text(json.dumps(told, indent=1) + "\n")


def load(paths: Iterable[Path]) -> dict[str, Counts]:
    """Release -> what was counted on it, the oldest kernel first."""
    found: dict[str, Counts] = {}
    for path in paths:
        told = json.loads(path.read_text())
        counts = found.setdefault(told["kernel"], Counts())
        counts.images += told["images"]
        counts.operations.add(told["operations"])
        counts.verdict.add(Verdict.of(told))
    return dict(sorted(found.items(), key=lambda one: version_of(one[0])))


def table(kernels: dict[str, Counts]) -> str:
    """A line on each kernel, as Markdown."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|---" * len(_COLUMNS) + "|"]
    for release, counts in kernels.items():
        one = counts.verdict
        consistent = {content: one.contents["consistent", content] for content in Content}
        exact = consistent[Content.EXACT] + consistent[Content.NOTHING]
        numbers = (counts.images, one.files, one.intact, one.wrong, sum(consistent.values()), exact)
        cells = [release, *(f"{number:,}" for number in numbers), f"{one.kept:.0%}",
                 f"{one.paths:,}", f"{one.wrong_paths:,}"]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def section(kernels: dict[str, Counts]) -> str:
    """The section of the page."""
    operations = {one for counts in kernels.values() for one in counts.operations}
    told = " or ".join(map(str, sorted(operations)))
    text = _TEXT.format(operations=told)
    return _SECTION.format(heading=HEADING, text=text, table=table(kernels))


def section_of(page: Path) -> str:
    """The section that a page has; empty when it has none."""
    _, found, behind = (page.read_text() if page.exists() else "").partition(f"\n{HEADING}\n")
    return found + behind


def main(arguments: Sequence[str]) -> int:
    """Join, print, write."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.kernels.truth")
    parser.add_argument("counts", nargs="+", type=Path, metavar="COUNTS.json")
    parser.add_argument("--page", type=Path, help="write the section of this page anew")
    options = parser.parse_args(arguments)
    kernels = load(options.counts)
    print(table(kernels))
    if options.page:
        before = options.page.read_text().removesuffix(section_of(options.page))
        options.page.write_text(before + section(kernels))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
