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


def main() -> int:
    """0 when no scene has fewer files than e2fsck gives, and none out of foreign bytes."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.recipes.wiped")
    parser.add_argument("--scene", action="append", choices=SCENES)
    asked = parser.parse_args()
    print(
        "| start overwritten | files | extract | with their trees | e2fsck | recover: of others |"
    )
    print("|---|---|---|---|---|---|")
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
            got = [path for part in ("files", "unnamed") for path in digests_below(again / part)]
            wrong = len(set(got) - set(truth) - deleted)
            mine = [digest for digest in truth if digest in ours]
            placed = sum(any(tail_matches(one, truth[each]) for one in ours[each]) for each in mine)
            beside = sum(digest in theirs for digest in truth)
            print(
                f"| {name} | {len(truth)} | {len(mine)} | {placed} | {beside} | {wrong} |",
                flush=True,
            )
            worse += len(mine) < beside
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
