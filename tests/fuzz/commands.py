"""Every command run inside this process on an image that may be damaged, and what must hold."""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from unittest import mock

from ext4kit.cli import exits, main
from ext4kit.errors import Ext4kitError
from tests.environment import ROOT
from tests.fuzz.judging import complaint_about

SECONDS = 20  # of the processor
MEMORY = 500 << 20
OUTPUT_SLACK = 64 << 20
CODES = (0, 1, 2, 3)
REFUSED = 2  # nothing is promised of what is written then
START_UP = 0.2  # seconds of the processor; Python drops interrupts while it reads `*.pth` files
INTERRUPTED_FROM = 1.0  # seconds of the processor
HEEDED = 1.0  # seconds of the processor within which an interrupt ends a command
MOST_AFTER = 20.0  # seconds after which one that was interrupted is killed


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


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took.

    Attributes:
        arguments: of the program, the image left out.
        seconds: of the processor.
        memory: bytes by which the largest resident set grew.
    """

    arguments: tuple[str, ...]
    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Places:
    """Where the image is, and what a command may write."""

    image: Path
    out: Path
    other: Path
    printed: Path

    def of(self, word: str) -> str:
        """A word of a form, or the path that it stands for."""
        paths = {"IMAGE": self.image, "OUT": self.out, "OUT2": self.other}
        return str(paths.get(word, word))

    def written(self) -> int:
        """Bytes that all output takes on the disk."""
        whole = (self.out, self.other, self.printed)
        paths = [path for each in whole if each.exists() for path in (each, *each.rglob("*"))]
        return sum(path.lstat().st_blocks for path in paths) * 512

    @staticmethod
    def below(folder: Path, image: Path) -> Places:
        """Those of a folder."""
        return Places(image, folder / "out", folder / "out2", folder / "printed")

    def clear(self) -> None:
        """Remove what a command wrote."""
        for out in (self.out, self.other):
            if out.is_dir():
                shutil.rmtree(out)
            for name in (out.name, f"{out.name}.map.tsv"):
                for left in (out.with_name(name), out.with_name(f"{name}.incomplete")):
                    left.unlink(missing_ok=True)


def failures(
    image: Path, commands: list[list[str]], folder: Path, costs: list[Cost] | None = None
) -> Iterator[Failure]:
    """Run the commands on an image; yields each that did what none may do, and notes the costs."""
    places = Places.below(folder, image)
    for words in commands:
        before, start = _memory(), time.process_time()
        failure = _failure(words, places)
        if failure is not None:
            yield failure
        if costs is not None:
            took = time.process_time() - start
            costs.append(Cost(tuple(words), took, _memory() - before))
        places.clear()


def heed_interrupts(
    image: Path, costs: list[Cost], folder: Path, chance: random.Random
) -> Iterator[Failure]:
    """Run each command that took long once more, and interrupt it at some moment.

    Yields those that went on for over a second of the processor.
    """
    places = Places.below(folder, image)
    for cost in costs:
        if cost.seconds > INTERRUPTED_FROM:
            words = [places.of(word) for word in cost.arguments]
            moment = max(cost.seconds * chance.random(), START_UP)
            after = _seconds_after_interrupt(words, moment)
            places.clear()
            if after > HEEDED:
                yield Failure(cost.arguments, f"an interrupt was heeded after {after:.1f} s")


def _seconds_after_interrupt(words: list[str], moment: float) -> float:
    """Seconds of the processor that a command takes after an interrupt; 0 if it ended before.

    Args:
        words: the command.
        moment: of the interrupt, in seconds of the processor.
    """
    with Path(os.devnull).open("w") as null:
        command = [sys.executable, "-m", "ext4kit", *words]
        child = subprocess.Popen(command, stdout=null, stderr=null, cwd=ROOT, preexec_fn=_hear)
    while 0 <= (used := _seconds_of(child.pid)) < moment:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    end = time.monotonic() + MOST_AFTER
    while time.monotonic() < end:
        pid, _, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = 0
            return usage.ru_utime + usage.ru_stime - used if used >= 0 else 0
        time.sleep(0.02)
    child.kill()
    child.wait()
    return MOST_AFTER


def _hear() -> None:
    """Hear interrupts, also where the run was started in the background, which ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _seconds_of(pid: int) -> float:
    """Seconds of the processor that a process took so far; -1 when it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] == "Z":
        return -1
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _failure(words: list[str], places: Places) -> Failure | None:
    before, start = _memory(), time.monotonic()
    said = ""
    try:
        code, said = called([places.of(word) for word in words], places.printed)
    except TooSlowError:
        return Failure(tuple(words), f"took more than {SECONDS} s", traceback.format_exc(limit=-8))
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is the finding
        what = f"{type(error).__name__}: {error}"
        return Failure(tuple(words), what, traceback.format_exc(limit=-8))
    if code not in CODES or "internal error" in said:
        return Failure(tuple(words), f"exit code {code}", said[-500:])
    if _memory() - before > MEMORY:
        grown = (_memory() - before) >> 20
        took = time.monotonic() - start
        return Failure(tuple(words), f"memory grew by {grown} MiB", f"{took:.1f} s")
    if (written := places.written()) > 4 * places.image.stat().st_size + OUTPUT_SLACK:
        return Failure(tuple(words), f"{written >> 20} MiB written")
    return _judged(words, said, places) if code != REFUSED else None


def _judged(words: list[str], said: str, places: Places) -> Failure | None:
    """What is wrong with the output itself; whatever cannot read it says so."""
    try:
        what = complaint_about(words, places.printed, said, places.out)
    except Exception as error:  # noqa: BLE001 -- see above
        what = f"output: {type(error).__name__}: {error}"
        return Failure(tuple(words), what, traceback.format_exc(limit=-4))
    return Failure(tuple(words), what) if what else None


def called(arguments: list[str], printed: Path | None = None) -> tuple[int, str]:
    """(exit code, standard error) of the program, run in this process.

    Args:
        arguments: of the program.
        printed: where standard output goes; thrown away without it, and where it is a file's
            bytes.

    Raises:
        TooSlowError: it took too long.
        Exception: one that ext4kit does not raise on purpose.
    """
    out = Path(os.devnull) if printed is None or arguments[0] == "cat" else printed
    with _captured(out) as said, _limited(SECONDS), mock.patch.dict(os.environ, EXT4KIT_DEBUG="1"):
        try:
            return main.run(arguments), said.getvalue()
        except (Ext4kitError, BrokenPipeError) as error:
            return exits.end_of(error), said.getvalue()
        except OSError as error:
            if error.filename is None:
                raise
            return exits.end_of(error), said.getvalue()


@contextlib.contextmanager
def _captured(out: Path) -> Iterator[io.StringIO]:
    """Standard error kept, standard output in a file, also what goes to its descriptor."""
    said = io.StringIO()
    with out.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
        kept = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = stream, said
        try:
            yield said
        finally:
            sys.stdout, sys.stderr = kept


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Stop what takes longer, by the processor's time: what else the machine does is no matter."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _memory() -> int:
    """Bytes of this process's largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
