"""`python -m sample_images.kernels.images [KERNEL ...]`: all recipes on each kernel.

Images and their truth go into build/images/KERNEL; without a name, of all kernels in the cache.
Those have no network, so the recipe that installs a system is left to the running kernel.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sample_images.kernels import HOST, kernels_here
from sample_images.recipes.making import RECIPES

FOLDER = Path("build/images")
NEEDS_NETWORK = {"debian"}


def main(kernels: Sequence[str]) -> int:
    """The worst exit code of all kernels."""
    codes = []
    for name in kernels or kernels_here():
        started = time.monotonic()
        names = [one for one in RECIPES if name == HOST or one not in NEEDS_NETWORK]
        names.sort(key=lambda one: RECIPES[one].slow)
        recipes = ["-m", "sample_images.recipes", "build", "-o", str(FOLDER / name), *names]
        kernel = ["-m", "sample_images.kernels", name, "--"]
        done = subprocess.run([sys.executable, *kernel, sys.executable, *recipes], check=False)
        codes.append(done.returncode)
        made = len(list((FOLDER / name).glob("*.truth.json")))
        print(f"{FOLDER / name}: {made} images, {time.monotonic() - started:.0f} s", flush=True)
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
