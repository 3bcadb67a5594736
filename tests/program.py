"""Run the command line in a process of its own.

Where there is fork, the process is a fork of this one: the program's modules are loaded already,
which is most of what a short command takes. Start-up itself, interrupts and what the program does
to its standard streams are tested on processes of their own (tests/cli).
"""

from __future__ import annotations

import io
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NoReturn

import ext4kit
from tests.environment import ROOT

Done = subprocess.CompletedProcess[bytes]
Word = str | bytes | Path
_CODE = "import sys; from ext4kit.cli.main import main; sys.exit(main())"


def run_program(
    *arguments: Word,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdout: BinaryIO | None = None,
    timeout: float = 300,
) -> Done:
    """Run the program to its end.

    Args:
        arguments: its command and options.
        cwd: the folder it runs in.
        env: its environment; this process's where None.
        stdout: where it writes; into the result where None.
        timeout: seconds.

    Raises:
        subprocess.TimeoutExpired: it did not end in time; it was killed.
    """
    words = [os.fsencode(word) for word in arguments]
    environment = dict(os.environ if env is None else env)
    if not hasattr(os, "fork"):
        command = [sys.executable, "-c", _CODE, *map(os.fsdecode, words)]
        out = subprocess.PIPE if stdout is None else stdout
        return subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, cwd=cwd, env=environment, timeout=timeout
        )
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        out = said if stdout is None else stdout
        process = start_program(words, out.fileno(), told.fileno(), cwd, environment)
        code = wait_for_program(process, words, timeout)
        return subprocess.CompletedProcess(words, code, _all(said), _all(told))


def start_program(
    words: Sequence[bytes], stdout: int, stderr: int, cwd: Path, env: Mapping[str, str]
) -> int:
    """Fork, and be the program there; its process id.

    Args:
        words: its command and options.
        stdout: descriptor of its standard output.
        stderr: that of its standard error.
        cwd: the folder it runs in.
        env: its environment.
    """
    load_modules()
    process = os.fork()
    if process == 0:
        _become(words, stdout, stderr, cwd, env)
    return process


@cache
def load_modules() -> None:
    """Import the commands and what they show with, so that no fork has to."""
    for module in pkgutil.walk_packages(ext4kit.__path__, "ext4kit."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in ("rich.console", "rich.live", "rich.progress", "rich.table", "numpy.ma"):
        import_module(name)


def _become(
    words: Sequence[bytes], stdout: int, stderr: int, cwd: Path, env: Mapping[str, str]
) -> NoReturn:
    """Be the program: its streams, folder, environment and arguments, then `main`."""
    code = 1
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        sys.argv = ["ext4kit", *map(os.fsdecode, words)]
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)), write_through=True
        )
        code = _main()
    except BaseException:  # noqa: BLE001 -- a fork must not go on as the tests
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _main() -> int:
    from ext4kit.cli.main import main

    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else bool(ended.code)
    return 0


def wait_for_program(process: int, words: Sequence[bytes], timeout: float) -> int:
    """The exit code of the fork, minus the signal's number where one ended it.

    Raises:
        subprocess.TimeoutExpired: as for `run_program`.
    """
    until = time.monotonic() + timeout
    pause = 0.001
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    os.kill(process, 9)
    os.waitpid(process, 0)
    raise subprocess.TimeoutExpired(list(words), timeout)


def _all(stream: BinaryIO) -> bytes:
    stream.seek(0)
    return stream.read()
