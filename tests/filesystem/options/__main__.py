"""Many sets: `python -m tests.filesystem.options --sets N --seed N [--seconds S]`."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

from tests.environment import widen_path
from tests.filesystem.options import running


def main() -> None:
    """The command line; the exit code is 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--seed", type=int, help="of the first set; by chance without it")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no set after that long")
    options = parser.parse_args()
    widen_path()
    if reason := running.missing():
        raise SystemExit(reason)
    first = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"sets {first} to {first + options.sets - 1}", flush=True)
    tally = running.run(_in_time(range(first, first + options.sets), options.seconds))
    for seed, stage, told in tally.unclean:
        print(f"set {seed}, {stage}: e2fsck: {told}")
    print(tally.line())
    print(f"sets with something wrong: {len(tally.wrong)}")
    raise SystemExit(bool(tally.wrong))


def _in_time(seeds: range, seconds: float) -> Iterator[int]:
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            return
        yield seed


if __name__ == "__main__":
    main()
