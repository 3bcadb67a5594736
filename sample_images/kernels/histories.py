"""Random histories on several kernels: `python -m sample_images.kernels.histories KERNEL ...`.

"host" is the running kernel. What goes wrong on a kernel stays in build/histories/KERNEL; what was
counted is in counts.json there and, of all kernels, in one table at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sample_images.kernels import truth

FOLDER = Path("build/histories")
_UNJUDGED = 3  # the exit code of histories that could not be told


def main(arguments: Sequence[str]) -> int:
    """The worst exit code of all kernels: 1 when something is wrong, 3 when one did not run."""
    options = _parser().parse_args(arguments)
    codes, counts = [], []
    for name in options.kernels:
        started = time.monotonic()
        counted = FOLDER / name / "counts.json"
        counted.unlink(missing_ok=True)
        print(f"kernel {name}:", flush=True)
        codes.append(_tell(name, counted, options))
        if counted.exists():
            counts.append(counted)
        else:
            codes.append(_UNJUDGED)
        print(f"kernel {name}: {time.monotonic() - started:.0f} s", flush=True)
    print(truth.table(truth.load(counts)))
    return max(codes)


def _tell(name: str, counted: Path, options: argparse.Namespace) -> int:
    settings = {
        "histories": options.histories,
        "operations": options.operations,
        "seed": options.seed,
        "counts": counted,
        "keep": counted.parent,
    }
    words = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    kernel = ["-m", "sample_images.kernels", name, "--"]
    history = ["-m", "sample_images.recipes.random_history", *words]
    return subprocess.run(
        [sys.executable, *kernel, sys.executable, *history], check=False
    ).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sample_images.kernels.histories")
    parser.add_argument("kernels", nargs="+", metavar="KERNEL")
    parser.add_argument("--histories", type=int, default=1, help="of each layout")
    parser.add_argument("--operations", type=int, default=400, help="in each history")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
