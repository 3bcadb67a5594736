"""The child that judges mutants in a copy of the repository: `python -m tests.mutation.trial`.

It loads what the tests import from elsewhere once and forks for each mutant, so that a mutant costs
the tests and hardly any start-up. Jobs come as JSON lines, verdicts go back as JSON lines.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.environment import failures

_OUTSIDE = ("click", "construct", "crc32c", "crcmod", "filelock", "hypothesis", "jsonschema",
            "numpy", "puremagic", "pytsk3", "rich.console", "rich.table", "xdist.plugin",
            "zstandard")  # fmt: skip
_TAIL = 4000  # bytes of output that are looked at
_LINE = 200  # characters of it that are kept
_MOST_MEMORY = 8 << 30  # of a test that a mutant makes ask for too much
_MEMORY = Path("/dev/shm")  # where images are written quickly, if there is such a place
_scratch = Path("build/trial")


def judge(job: dict[str, Any]) -> dict[str, Any]:
    """Run the tests of a job on its source, and put the old source back."""
    path = Path(job["path"])
    sound = path.read_text()
    _forget_compiled(path)
    path.write_text(job["source"])
    started = time.monotonic()
    try:
        code = _run(job["tests"], job["each"], job["limit"])
    finally:
        path.write_text(sound)
    seconds = time.monotonic() - started
    output = (_scratch / "output").read_bytes()[-_TAIL:].decode(errors="replace")
    shutil.rmtree(_scratch, ignore_errors=True)
    verdict = "survived" if code == 0 else "timed out" if "Timeout" in output else "killed"
    told = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR", "E  "))]
    by = told[-1] if told else output[-_LINE:] if code else ""
    return {"verdict": verdict, "seconds": round(seconds, 2), "by": by[:_LINE]}


def _run(tests: list[str], each: float, limit: float) -> int:
    """The exit code of pytest in a fork; whatever it started ends with it."""
    _scratch.mkdir(parents=True)
    process = os.fork()
    if process == 0:
        _become_pytest(tests, each)
    code = _wait(process, limit)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return code


def _become_pytest(tests: list[str], each: float) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        output = os.open(_scratch / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        failures.FOLDER = _scratch / "failed"
        code = pytest.main(
            ["-n", "0", "-x", "-q", "--seed", "0", "-p", "no:cacheprovider", "--tb=line",
             f"--timeout={each:.0f}", "--timeout-method=signal",
             f"--basetemp={_scratch}/tmp", *tests]
        )  # fmt: skip
    finally:
        os._exit(code)


def _wait(process: int, limit: float) -> int:
    """Its exit code; interrupted after `limit` seconds, so that it unmounts what it mounted."""
    for word, seconds in ((0, limit), (signal.SIGINT, 20), (signal.SIGKILL, 1e9)):
        if word:
            os.killpg(process, word)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
    raise AssertionError("a killed process does not end")


def _forget_compiled(path: Path) -> None:
    """Two sources of one size within a second look alike to who compares times."""
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


def main() -> None:
    """Judge job after job."""
    global _scratch
    if _MEMORY.is_dir():
        _scratch = _MEMORY / f"ext4kit-mutation-{os.getpid()}"
    for name in _OUTSIDE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.dont_write_bytecode = True
    for line in sys.stdin:
        print(json.dumps(judge(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
