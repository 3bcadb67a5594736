"""`python -m sample_images.recipes.wiped`: files of disks with a wiped start, beside e2fsck."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from sample_images.recipes.wiped.scenes import (
    SCENES,
    build,
    by_e2fsck,
    digests_below,
    options_for,
    run_program,
    tail_matches,
)

_INTRODUCTION = """\
# Disks whose start is gone

The start of each disk was overwritten with zeros, an ISO image, or a new file system. The table
shows how many of 250 files are recovered, and how many of them with their path below the first
folder. For comparison, the column `e2fsck` shows how many files `e2fsck -y` leaves on a copy. The
last column counts files with foreign bytes among those that `recover` writes. If ext4kit refused
the disk, the command that its message names was used. `make wiped` makes this page.
"""
_HEADINGS = (
    "| start overwritten | files | extract | with their trees | e2fsck | of foreign bytes |",
    "|---|---|---|---|---|---|",
)


def main() -> int:
    """0 when no scene has fewer files than e2fsck gives, and none out of foreign bytes."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.recipes.wiped")
    parser.add_argument("--scene", action="append", choices=SCENES)
    parser.add_argument("--page", type=Path, help="write the table into this page")
    asked = parser.parse_args()
    page = [_INTRODUCTION, *_HEADINGS]
    print("\n".join(_HEADINGS))
    worse = 0
    for name in asked.scene or SCENES:
        with tempfile.TemporaryDirectory() as work:
            image, out = Path(work, "disk.img"), Path(work, "out")
            truth, deleted = build(image, SCENES[name])
            options = options_for(image)
            words: list[str | Path] = ["extract", image, "/", "-q", *options, "-o", out]
            run_program(words)
            ours = digests_below(out / "files") | digests_below(out / "unnamed")
            theirs = by_e2fsck(image)
            again = Path(work, "deleted")
            if "--lost" not in options:
                run_program(["recover", image, "-q", *options, "-o", again, "--sources", "blocks"])
            got = [
                path
                for part in ("files", "unnamed", "partial")
                for path in digests_below(again / part)
            ]
            wrong = len(set(got) - set(truth) - deleted)
            mine = [digest for digest in truth if digest in ours]
            placed = sum(any(tail_matches(one, truth[each]) for one in ours[each]) for each in mine)
            beside = sum(digest in theirs for digest in truth)
            cells = name, len(truth), len(mine), placed, beside, wrong
            page.append("| " + " | ".join(map(str, cells)) + " |")
            print(page[-1], flush=True)
            worse += len(mine) < beside
    if asked.page:
        asked.page.write_text("\n".join([*page, ""]), encoding="utf-8")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
