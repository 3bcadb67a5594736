"""Run the tests: bring in what they need, run them here, and in the user-mode kernel if need be.

`python -m tests [--kernel NAME] [ARGUMENT ...]`; the arguments are pytest's. With a kernel of
`sample_images.kernels`, only what mounts images runs, in that one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.environment import memory, provide, user_mode
from tests.environment.kernel import ANSWER, missing_for_kernel


def main(arguments: Sequence[str]) -> int:
    """The worst exit code of all runs."""
    started = time.monotonic()
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kernel", metavar="NAME")
    options, given = parser.parse_known_args(arguments)
    provide.provide()
    memory.prefer_memory()
    subprocess.run([sys.executable, "-m", "tests.cases", "fetch"], check=False)
    code = user_mode.run_tests(options.kernel, given) if options.kernel else _run_all(given)
    print(f"tests: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    return code


def _run_all(arguments: Sequence[str]) -> int:
    """Here, what mounts images in a user-mode kernel where that cannot be here."""
    elsewhere = bool(missing_for_kernel())
    if elsewhere and (reason := user_mode.missing()):
        os.environ[ANSWER], elsewhere = reason, False
    here = [*arguments, "-m", "not kernel"] if elsewhere else arguments
    code = subprocess.run([sys.executable, "-m", "pytest", *here], check=False).returncode
    kernel = user_mode.newest()
    if elsewhere and kernel:
        code = max(code, user_mode.run_tests(kernel.name, arguments))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
