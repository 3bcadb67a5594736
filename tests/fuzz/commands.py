"""Every command run inside this process on an image that may be damaged, and what must hold."""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from unittest import mock

from ext4kit.cli import main
from ext4kit.errors import Ext4kitError

SECONDS = 20
MEMORY = 500 << 20
OUTPUT_SLACK = 64 << 20
CODES = (0, 1, 2, 3)
TARGETS = ("/", "<8>", "<2>", "<12>", "/sub/holes", "/sub/file 5", "/long link")


class TooSlowError(BaseException):
    """A command took longer than it may; no command may catch it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one command.

    Attributes:
        arguments: of the program, the image left out.
        what: one line; detail: the traceback.
    """

    arguments: tuple[str, ...]
    what: str
    detail: str = ""


def commands(chance: random.Random) -> list[list[str]]:
    """All commands in one of their forms; IMAGE and OUT stand for the two paths."""
    number = str(chance.randrange(1, 15))
    inode = f"<{chance.randrange(1, 180)}>"
    sources = ["--sources", chance.choice(("journal", "blocks", "runs"))]
    found = [
        ["volumes", "IMAGE"],
        ["info", "IMAGE", *chance.choice(([], ["-g"]))],
        ["ls", "IMAGE", "-r", *chance.choice((["-l"], ["-i"], ["-a", "-l"]))],
        ["ls", "IMAGE", "-r", "-l", "--no-replay"],
        ["ls", "IMAGE", "-r", "-l", "--as-of", number],
        ["ls", "IMAGE", "-r", "-l", "--lost"],
        ["stat", "IMAGE", *TARGETS[:4], inode],
        ["stat", "IMAGE", *TARGETS[4:]],
        ["cat", "IMAGE", chance.choice([inode, *TARGETS])],
        ["extract", "IMAGE", "/", "-o", "OUT"],
        ["deleted", "IMAGE", *chance.choice(([], ["--versions"], ["--no-replay"], sources))],
        ["deleted", "IMAGE", "--lost"],
        ["recover", "IMAGE", "-o", "OUT", *chance.choice(([], ["--versions"]))],
        ["recover", "IMAGE", "-o", "OUT", *sources],
        ["recover", "IMAGE", "-o", "OUT", "--lost"],
        ["journal", "list", "IMAGE"],
        ["journal", "audit", "IMAGE", *chance.choice(([], ["--all"]))],
        ["journal", "replay", "IMAGE", *chance.choice(([], ["-o", "OUT"]))],
        ["journal", "history", "IMAGE", inode, "--entries"],
        ["journal", "history", "IMAGE", "--block", chance.choice(["1", "2", "40", "100"])],
        ["timeline", "IMAGE"],
        ["report", "IMAGE", *chance.choice(([], sources, ["--no-verify"], ["--html", "OUT"]))],
        ["verify", "IMAGE"],
    ]
    for words in found:
        if words[0] != "cat" and chance.random() < 0.3:
            words.append("--json")
    return found


def failures(image: Path, commands: list[list[str]], folder: Path) -> Iterator[Failure]:
    """Run the commands on an image; yields each that did what none may do."""
    for words in commands:
        out = folder / "out"
        failure = _failure(words, image, out)
        if failure is not None:
            yield failure
        if out.is_dir():
            shutil.rmtree(out)
        elif out.exists():
            out.unlink()


def _failure(words: list[str], image: Path, out: Path) -> Failure | None:
    arguments = [{"IMAGE": str(image), "OUT": str(out)}.get(word, word) for word in words]
    before, start = _memory(), time.monotonic()
    said = ""
    try:
        code, said = called(arguments)
    except TooSlowError:
        return Failure(
            tuple(words), f"took longer than {SECONDS} s", traceback.format_exc(limit=-8)
        )
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is the finding
        what = f"{type(error).__name__}: {error}"
        return Failure(tuple(words), what, traceback.format_exc(limit=-8))
    if code not in CODES or "internal error" in said:
        return Failure(tuple(words), f"exit code {code}", said[-500:])
    if _memory() - before > MEMORY:
        grown = (_memory() - before) >> 20
        took = time.monotonic() - start
        return Failure(tuple(words), f"memory grew by {grown} MiB", f"{took:.1f} s")
    if (written := _written(out)) > 4 * image.stat().st_size + OUTPUT_SLACK:
        return Failure(tuple(words), f"{written >> 20} MiB written")
    return None


def called(arguments: list[str]) -> tuple[int, str]:
    """(exit code, standard error) of the program, run in this process.

    Raises:
        TooSlowError: it took too long.
        Exception: one that ext4kit does not raise on purpose.
    """
    with _captured() as said, _limited(SECONDS), mock.patch.dict(os.environ, EXT4KIT_DEBUG="1"):
        try:
            return main.run(arguments), said.getvalue()
        except (Ext4kitError, BrokenPipeError) as error:
            return main._end(error), said.getvalue()
        except OSError as error:
            if error.filename is None:
                raise
            return main._end(error), said.getvalue()


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    """Standard error kept, standard output thrown away, also what goes to its descriptor."""
    said = io.StringIO()
    with Path(os.devnull).open("w", errors="backslashreplace") as nowhere:
        kept = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = nowhere, said
        try:
            yield said
        finally:
            sys.stdout, sys.stderr = kept


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _memory() -> int:
    """Bytes of this process's largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _written(out: Path) -> int:
    """Bytes that the output takes on the disk."""
    paths = [out, *out.rglob("*")] if out.exists() else []
    return sum(path.lstat().st_blocks for path in paths) * 512
