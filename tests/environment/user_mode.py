"""Run pytest inside a user-mode kernel: where one may not mount, or in one that is asked for.

`python -m tests.environment.user_mode NUMBER [ARGUMENT ...]` runs there what is its kernel's.
"""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from sample_images.kernels import Kernel, KernelError, kernels_here, version_of
from sample_images.kernels.guest import run
from sample_images.recipes.machine import MachineError
from tests.environment import ROOT
from tests.environment.kernel import ANSWER
from tests.environment.sharing import IMAGES

GOES_ON = (6, 4)  # the first kernel whose journal goes on at the next mount
PARTS = 2  # kernels side by side; each has one processor
# Processes of a part, one after another. Each page that a guest's process uses can be a mapping of
# the host, which allows a process 65,530 of them (vm.max_map_count): 256 MiB where none adjoin.
SHARES = 48
MEMORY = "3G"
_NO_TESTS = 5  # pytest's exit code where it was given none


def newest() -> Kernel | None:
    """The newest kernel in the cache whose journal goes on at the next mount.

    The tests expect that (kernel fs/ext4/super.c, JBD2_CYCLE_RECORD).
    """
    here = [one for one in kernels_here().values() if version_of(one.release) >= GOES_ON]
    return here[-1] if here else None


def missing() -> str:
    """Why the kernel tests cannot run this way; empty when they can. A start is tried."""
    kernel = newest()
    if kernel is None:
        return "needs root and loop devices, or a user-mode kernel"
    try:
        run(kernel, ["true"], io.BytesIO(), io.BytesIO())
    except (KernelError, MachineError) as error:
        return f"needs root, as the user-mode kernel does not start here ({error})"
    return ""


def run_tests(name: str, arguments: Sequence[str]) -> int:
    """Run the tests that mount images in a kernel, in parts side by side, and show what they said.

    Args:
        name: of the kernel.
        arguments: of pytest.

    Returns:
        The worst exit code.
    """
    print(f"tests: those that mount images, in kernel {name}", flush=True)
    environment = {key: value for key, value in os.environ.items() if key != ANSWER}
    kernel = ["-m", "sample_images.kernels", "--memory", MEMORY, name, "--", sys.executable]
    seed = ["--seed", str(random.SystemRandom().randrange(1_000_000)), *arguments]
    with tempfile.TemporaryDirectory(prefix="ext4kit-tests-") as folder:
        outputs = [open(f"{folder}/{part}", "w+b") for part in range(PARTS)]  # noqa: PTH123, SIM115
        processes = [
            subprocess.Popen(
                [sys.executable, *kernel, "-m", __name__, str(part), *seed],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for part, output in enumerate(outputs, 1)
        ]
        codes = []
        for process, output in zip(processes, outputs, strict=True):
            codes.append(process.wait())
            with output:
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
    return _worst(codes)


def main(number: int, arguments: Sequence[str]) -> int:
    """Run a part of the tests inside a kernel, share by share; the worst exit code."""
    pytest = ["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *arguments, "-m", "kernel"]
    parts, codes = PARTS * SHARES, []
    images = tempfile.mkdtemp(prefix="ext4kit-images-")  # on the kernel's disk, and goes with it
    environment = {IMAGES: images, **os.environ}
    for part in range(number, parts + 1, PARTS):
        command = [sys.executable, *pytest, "--part", f"{part}/{parts}"]
        code = subprocess.run(command, env=environment, check=False).returncode
        if code < 0:
            print(f"tests: --part {part}/{parts} was ended by {signal.Signals(-code).name}")
            print(
                "tests: SIGSEGV may mean too few mappings of the host, vm.max_map_count", flush=True
            )
        codes.append(code)
    return _worst(codes)


def _worst(codes: Sequence[int]) -> int:
    """A part of few tests may be empty; a process that a signal ended is the worst."""
    ended = [abs(code) for code in codes if code != _NO_TESTS]
    return max(ended, default=_NO_TESTS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
