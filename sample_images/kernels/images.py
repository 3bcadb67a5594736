"""`python -m sample_images.kernels.images [KERNEL ...]`: all recipes on each kernel.

Images and their truth go into build/images/KERNEL; without a name, of all kernels in the cache.
Those have no network, so the recipe that installs a system is left to the running kernel.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sample_images.kernels import HOST, kernels_here
from sample_images.recipes.making import RECIPES
from sample_images.recipes.truth import TRUTH

FOLDER = Path("build/images")
NEEDS_NETWORK = {"debian"}


def main(arguments: Sequence[str]) -> int:
    """The worst exit code of all kernels."""
    options = _parser().parse_args(arguments)
    codes = []
    for name in options.kernels or kernels_here():
        started = time.monotonic()
        wanted = options.recipes or RECIPES
        names = [one for one in wanted if name == HOST or one not in NEEDS_NETWORK]
        recipes = ["-m", "sample_images.recipes", "build", "-o", str(FOLDER / name), *names]
        kernel = ["-m", "sample_images.kernels", name, "--"]
        done = subprocess.run([sys.executable, *kernel, sys.executable, *recipes], check=False)
        codes.append(done.returncode)
        made = len(list((FOLDER / name).glob(f"*{TRUTH}")))
        print(f"{FOLDER / name}: {made} images, {time.monotonic() - started:.0f} s", flush=True)
        if done.returncode:
            print(f"error: kernel {name}: not all of them, exit code {done.returncode}", flush=True)
    return max(codes, default=0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sample_images.kernels.images")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument(
        "--recipes", nargs="*", choices=[*RECIPES], metavar="RECIPE", help="not all"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
