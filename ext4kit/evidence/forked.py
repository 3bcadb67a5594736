"""A forked process in which C code runs, and which can be killed at any moment.

Messages are bytes and are never unpickled, because the process may be compromised. The module
`multiprocessing` is not used: importing it would take longer than starting such a process.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

from ext4kit.signals import INTERRUPTING


def can_fork() -> bool:
    """Whether this system can fork a process, which Windows cannot."""
    return hasattr(os, "fork")


_BROKEN = frozenset({signal.SIGPIPE}) if can_fork() else frozenset()
_LENGTH = struct.Struct("=Q")


class Pipe:
    """One end of a bidirectional pipe."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        """Send a message.

        Raises:
            OSError: the other side is closed.
        """
        rest = memoryview(_LENGTH.pack(len(data)) + data)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BROKEN)  # SIGPIPE would end the program
        try:
            while rest:
                rest = rest[os.write(self._writer, rest) :]
        except BrokenPipeError:
            if _BROKEN & signal.sigpending():
                signal.sigwait(_BROKEN)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def receive(self, most: int) -> bytes:
        """Wait for the next message and return it.

        Raises:
            EOFError: the other side is closed.
            OSError: the message is longer than `most` bytes.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > most:
            raise OSError(f"a message of {length:,} bytes")
        return self._exactly(length)

    def waits(self, seconds: float) -> bool:
        """Whether a message begins, or the pipe is closed, within `seconds`."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        return bool(poll.poll(max(seconds, 0.0) * 1000))

    def close(self) -> None:
        """Close this end."""
        os.close(self._reader)
        os.close(self._writer)

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            part = os.read(self._reader, min(length, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _pipes() -> tuple[Pipe, Pipe]:
    first, second = os.pipe(), os.pipe()
    return Pipe(first[0], second[1]), Pipe(second[0], first[1])


class Forked:
    """A forked process that runs `work(pipe, *arguments)`; it inherits everything open here.

    It ignores interrupts, because its parent ends it. It ends itself when its pipe is closed.

    Attributes:
        pipe: the parent's end of the pipe.
    """

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self.pipe, theirs = _pipes()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTING)
        try:
            self._pid = os.fork()
            if not self._pid:
                _run(work, self.pipe, theirs, arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTING)
        theirs.close()

    def end(self) -> None:
        """Kill the process."""
        if self._pid:
            self.pipe.close()
            with suppress(PermissionError):  # in a confined process; the child ends when it reads
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        self._pid = 0


def _run(
    work: Callable[..., None], ours: Pipe, theirs: Pipe, arguments: tuple[object, ...]
) -> None:
    """Main function of the child: work, then exit without running the parent's cleanup code."""
    code = 1
    try:
        ours.close()
        work(theirs, *arguments)
        code = 0
    except (EOFError, OSError, MemoryError):
        pass  # the parent has ended, or will notice that this process has
    finally:
        os._exit(code)
