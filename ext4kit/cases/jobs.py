"""One job: a command of this program in a process of its own, with limits of time and memory.

What it writes is in a folder named `*.incomplete`, which gets its name when the command has ended
well: a job whose folder is there is done, and is never run again.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from ext4kit import __version__
from ext4kit.errors import UnsupportedError
from ext4kit.output.new_file import whole_file
from ext4kit.output.pouring import write_all
from ext4kit.output.renaming import sync_folder
from ext4kit.report.safe import printable_text

UNFINISHED = ".incomplete"
RECORD = "job.json"
_DONE, _INCOMPLETE = 0, 1  # exit codes of commands that have ended: README, "Exit codes"
_OWNER, _ERRORS = ".owner", "messages.txt"
_MOST_MESSAGE = 2000  # characters of the messages that are kept
_TAIL = 1 << 20  # bytes at the end of the standard output; records of problems come last
_LOOKS = 0.02, 0.1  # seconds between two looks, at first and at most


@dataclass(frozen=True)
class JobOrder:
    """All that a process needs to do a job; it can be pickled, and has no keys.

    Attributes:
        folder: of the job, absolute.
        words: the command, from its name on.
        outputs: files in the folder that a complete result has.
        stdout: file in the folder for the standard output; "" for none.
        last: kind of the record that the standard output has at its end; "" for none.
        seconds: time after which it is stopped; None for no limit.
        memory: bytes of memory that it may use; None for no limit.
    """

    folder: str
    words: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    stdout: str = ""
    last: str = ""
    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    Attributes:
        is_done: whether its folder is complete.
        exit_code: of the command; negative for a signal; None if it was stopped.
        message: what it wrote to stderr at the end, or why it was stopped.
        started, ended: seconds since 1970.
        processor_seconds: of the command.
        memory: bytes, the most that it used at one time.
        host: name of the computer.
    """

    is_done: bool
    exit_code: int | None
    message: str
    started: float
    ended: float
    processor_seconds: float = 0.0
    memory: int = 0
    host: str = ""


class StoppedError(Exception):
    """The run of the case ends, and the job with it."""


class JobFileRecord(TypedDict):
    """How a job of a case ended (`job.json` in its folder)."""

    record: Literal["job"]
    version: str
    command: list[str]
    result: JobResult


def run_job(order: JobOrder, is_stopped: Callable[[], bool] = lambda: False) -> JobResult:
    """Do a job; a job whose folder is there is not done again.

    Args:
        order: the job.
        is_stopped: whether the run of the case ends.

    Raises:
        StoppedError: the run of the case ends.
    """
    folder = Path(order.folder)
    if (known := read_result(folder)) is not None:
        return known
    part = folder.with_name(folder.name + UNFINISHED)
    folder.parent.mkdir(parents=True, exist_ok=True)
    started = time.time()
    with _owned(part) as owner:
        _empty(part)
        code, used, why = _run(order, part, owner, is_stopped)
        said = _last_words(part / _ERRORS)
        is_done = code in (_DONE, _INCOMPLETE) and _is_complete(order, part)
        message = why or ("" if code == _DONE else said)
        result = JobResult(is_done, code, message, started, time.time(),
                           used.ru_utime + used.ru_stime, used.ru_maxrss << 10,
                           platform.node())  # fmt: skip
        if is_done:
            _complete(part, folder, order, result)
        else:
            shutil.rmtree(part)
    return result


def read_result(folder: Path) -> JobResult | None:
    """The result of a job whose folder is complete; None for other jobs."""
    found = _record_in(folder)
    return JobResult(**found["result"]) if "result" in found else None


def is_of_this_version(folder: Path) -> bool:
    """Whether this version of the program did a job."""
    return bool(_record_in(folder).get("version") == __version__)


def _record_in(folder: Path) -> dict[str, Any]:
    """The record of a job whose folder is complete; empty for other jobs."""
    try:
        found: dict[str, Any] = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _is_complete(order: JobOrder, part: Path) -> bool:
    """Whether all is there: the code 1 also stands for an output that could not be written."""
    if not all((part / name).exists() for name in order.outputs):
        return False
    if not order.last:
        return True
    with (part / order.stdout).open("rb") as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - _TAIL, 0))
        tail = stream.read()
    start = b'{"record": "' + order.last.encode() + b'"'
    return tail.endswith(b"\n") and any(line.startswith(start) for line in tail.splitlines())


def _complete(part: Path, folder: Path, order: JobOrder, result: JobResult) -> None:
    record: JobFileRecord = {
        "record": "job", "version": __version__, "command": ["ext4kit", *order.words],
        "result": result,
    }  # fmt: skip
    if not (part / _ERRORS).stat().st_size:
        (part / _ERRORS).unlink()
    with whole_file(part / RECORD) as handle:
        write_all(handle, json.dumps(record, indent=1, default=asdict).encode() + b"\n")
    (part / _OWNER).unlink()
    part.rename(folder)
    handle = os.open(folder.parent, os.O_RDONLY)
    try:
        sync_folder(handle)
    finally:
        os.close(handle)


def _run(
    order: JobOrder, part: Path, owner: int, is_stopped: Callable[[], bool]
) -> tuple[int | None, Any, str]:
    """(exit code, use of resources, why it was stopped) of the command."""
    words = [sys.executable, "-m", "ext4kit", *order.words]
    out = part / order.stdout if order.stdout else Path(os.devnull)
    with out.open("wb") as stdout, (part / _ERRORS).open("wb") as errors:
        process = subprocess.Popen(
            words, cwd=part, stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors,
            start_new_session=True, pass_fds=(owner,),
            env=os.environ | {"NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        os.pwrite(owner, f"{process.pid} {platform.node()}\n".encode(), 0)
        _limit(process.pid, order.memory)
        try:
            return _awaited(process, order, is_stopped)
        except BaseException:
            _kill(process.pid)
            process.wait()
            raise


def _awaited(
    process: subprocess.Popen[bytes], order: JobOrder, is_stopped: Callable[[], bool]
) -> tuple[int | None, Any, str]:
    end = None if order.seconds is None else time.monotonic() + order.seconds
    pause, longest = _LOOKS
    while True:
        number, status, used = os.wait4(process.pid, os.WNOHANG)
        if number:
            code = process.returncode = os.waitstatus_to_exitcode(status)
            return code, used, "" if code >= 0 else f"ended by signal {-code}"
        if is_stopped():
            raise StoppedError
        if end is not None and time.monotonic() > end:
            _kill(process.pid)
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
            return None, used, f"stopped after {order.seconds:g} seconds"
        time.sleep(pause)
        pause = min(pause * 1.5, longest)


def _limit(process: int, memory: int | None) -> None:
    """Limit the memory of a process, where the system can do it for another one."""
    if memory is None:
        return
    with suppress(ImportError, AttributeError, OSError):
        import resource

        resource.prlimit(process, resource.RLIMIT_DATA, (memory, memory))


@contextmanager
def _owned(part: Path) -> Iterator[int]:
    """The lock of an unfinished job, held until its process has ended.

    A run of a case that was killed may have left the process of a job: it still holds the lock, and
    is ended.

    Yields:
        the descriptor, which the process of the job inherits.

    Raises:
        UnsupportedError: this system has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        text = "jobs need file locks, which this system lacks; run the commands one by one"
        raise UnsupportedError(text) from error
    part.mkdir(exist_ok=True)
    handle = os.open(part / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            number, _, host = os.pread(handle, 200, 0).decode("utf-8", "replace").partition(" ")
            if number.isdecimal() and host.strip() == platform.node():
                _kill(int(number))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _kill(process: int) -> None:
    """End a process and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _empty(part: Path) -> None:
    """Remove what an earlier try left."""
    for path in part.iterdir():
        if path.name == _OWNER:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _last_words(path: Path) -> str:
    text = path.read_bytes()[-_MOST_MESSAGE:].decode("utf-8", "replace")
    return printable_text("; ".join(line for line in text.splitlines() if line))
