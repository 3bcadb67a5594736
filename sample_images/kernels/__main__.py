"""`python -m sample_images.kernels`: list, fetch, run a command in a kernel."""

from __future__ import annotations

import argparse
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from sample_images.kernels import HOST, SUITES, KernelError, kernel, kernels_here
from sample_images.kernels.fetching import fetch
from sample_images.kernels.guest import MEMORY, run
from sample_images.recipes.machine import MachineError

_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """The exit code of the command; 3 when the kernel cannot be had or dies, 130 interrupted."""
    words = list(arguments)
    behind = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:behind])
    options.command = words[behind + 1 :]
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if options.fetch is not None:
            return _fetch(options.fetch)
        if options.list or options.kernel is None:
            return _list()
        return _run(options)
    except (KernelError, MachineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _list() -> int:
    print(f"{HOST:<6} {platform.release()}")
    here = kernels_here()
    for one in here.values():
        print(f"{one.name:<6} {one.release}  {one.suite}  {one.folder}")
    suites = {one.suite for one in here.values()}
    for name, suite in SUITES.items():
        if suite not in suites:
            print(f"{name:<6} not here  {suite}")
    return 0


def _fetch(names: list[str]) -> int:
    """Those that are named; without a name those that are not here."""
    here = {one.suite for one in kernels_here().values()}
    suites = [SUITES.get(name, name) for name in names]
    for suite in suites or [suite for suite in SUITES.values() if suite not in here]:
        if suite not in SUITES.values():
            raise KernelError(f"{suite} is none of {', '.join([*SUITES, *SUITES.values()])}")
        got = fetch(suite)
        print(f"{got.name:<6} {got.release}  {got.suite}  {got.folder}", flush=True)
    return 0


def _run(options: argparse.Namespace) -> int:
    if not options.command:
        raise KernelError("no command: it stands behind --")
    if options.kernel == HOST:
        return subprocess.run(options.command, check=False).returncode
    return run(
        kernel(options.kernel),
        options.command,
        sys.stdout.buffer,
        sys.stderr.buffer,
        options.module,
        options.memory,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sample_images.kernels",
        usage="%(prog)s [--list] [--fetch [NAME ...]] [KERNEL [--module M] -- COMMAND ...]",
        description="Linux kernels that run as programs: list, fetch, run a command as root in one",
    )
    parser.add_argument("--list", action="store_true", help="which kernels are here")
    parser.add_argument("--fetch", nargs="*", metavar="NAME", help="fetch them (all missing ones)")
    parser.add_argument("--module", action="append", default=[], help="insert this one too")
    parser.add_argument("--memory", default=MEMORY, help="of the kernel (%(default)s)")
    parser.add_argument("kernel", nargs="?", metavar="KERNEL", help='as "6.12"; "host" is this one')
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
