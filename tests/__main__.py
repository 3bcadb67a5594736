"""Run the tests: bring in what they need, run them here, and in the user-mode kernel if need be.

`python -m tests [ARGUMENT ...]`; the arguments are pytest's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.environment import provide, user_mode
from tests.environment.kernel import ANSWER, missing_for_kernel

KERNELS = 2  # user-mode ones have one processor each
MEMORY = Path("/dev/shm")
ROOM = 8 << 30  # bytes; a run's images take some 4 GiB at most at a time


def main(arguments: Sequence[str]) -> int:
    """The worst exit code of all runs."""
    started = time.monotonic()
    provide.provide()
    if "TMPDIR" not in os.environ and _free(MEMORY) > ROOM:
        os.environ["TMPDIR"] = str(MEMORY)  # images are written and read over and over
    subprocess.run([sys.executable, "-m", "tests.cases", "fetch"], check=False)
    elsewhere = bool(missing_for_kernel())
    if elsewhere and (reason := user_mode.missing()):
        os.environ[ANSWER], elsewhere = reason, False
    here = [*arguments, "-m", "not kernel"] if elsewhere else arguments
    codes = [subprocess.run([sys.executable, "-m", "pytest", *here], check=False).returncode]
    if elsewhere:
        codes += _in_user_mode(arguments)
    print(f"tests: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    return max(codes)


def _free(folder: Path) -> int:
    """Bytes free in a folder's file system, 0 where it is not there or not ours."""
    return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0


def _in_user_mode(arguments: Sequence[str]) -> list[int]:
    """Run what mounts images in user-mode kernels side by side, and show what they said."""
    print("tests: those that mount images, in user-mode kernels", flush=True)
    kernels = [
        user_mode.UserMode(
            [*arguments, "-m", "kernel", "--part", f"{part}/{KERNELS}"],
            user_mode.FOLDER / f"{part}",
        )
        for part in range(1, KERNELS + 1)
    ]
    codes = []
    for kernel in kernels:
        code, said = kernel.wait()
        codes.append(code)
        print(said, flush=True)
    return codes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
