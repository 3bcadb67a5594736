"""Times of the browser in a real terminal: start to the first tree, key to screen.

    PYTHONPATH=. .venv/bin/python -m benchmarks.browse IMAGE [DIRECTORY] --last NAME

The program runs in a pseudoterminal of 80x24. The start counts from the start of the process until
NAME, an entry of the root directory, was written. A key counts from the moment at which it was
written until the program writes what it changes on the screen. Keys, every tenth of them Page Down,
are sent while the deleted files are searched, and again when nothing runs, in DIRECTORY (by default
the root). `image.build` makes an image of 400,000 files.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_QUIET = 3.0  # seconds without output, after which nothing runs
_KEYS = 40


@dataclass
class Terminal:
    """The program in a pseudoterminal.

    Attributes:
        pid: of the process.
        handle: our end.
        started: when it was started.
    """

    pid: int
    handle: int
    started: float

    @classmethod
    def start(cls, *words: str) -> Terminal:
        """Start the program."""
        started = time.perf_counter()
        pid, handle = pty.fork()
        if not pid:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.execv(sys.executable, [sys.executable, "-m", "ext4kit", "browse", *words])
        fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        return cls(pid, handle, started)

    def read(self, seconds: float) -> bytes:
        """What it writes next, b"" for nothing in that time."""
        if not select.select([self.handle], [], [], seconds)[0]:
            return b""
        try:
            return os.read(self.handle, 1 << 16)
        except OSError:  # it has ended
            return b""

    def until(self, text: bytes, seconds: float = 60) -> float:
        """Seconds since the start until a text was written."""
        seen, end = b"", time.perf_counter() + seconds
        while text not in seen:
            if time.perf_counter() > end:
                raise TimeoutError(f"no {text!r} on the screen")
            seen = seen[-4096:] + self.read(0.1)
        return time.perf_counter() - self.started

    def read_waiting(self) -> None:
        """Read what is there already."""
        while self.read(0.01):
            pass

    def drain(self) -> None:
        """Read until it is quiet."""
        while self.read(_QUIET):
            pass

    def key(self, key: bytes) -> float:
        """Seconds from a key to the first change of the screen."""
        before = time.perf_counter()
        os.write(self.handle, key)
        if not self.read(2):
            raise TimeoutError("the key changes nothing")
        return time.perf_counter() - before

    @property
    def cpu(self) -> float:
        """Seconds of processor time that the program has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Quit."""
        os.write(self.handle, b"q")
        end = time.perf_counter() + 5
        while time.perf_counter() < end:
            self.read(0.05)
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("image", type=Path)
    parser.add_argument("directory", nargs="?", default="")
    parser.add_argument("--last", default="unallocated", help="text that ends the first tree")
    given = parser.parse_args()
    terminal = Terminal.start(str(given.image))
    first = terminal.until(b"/", 20)
    print(f"start to first characters: {first:.2f} s")
    seconds = terminal.until(given.last.encode())
    print(f"start to first tree: {seconds:.2f} s, {terminal.cpu:.2f} s of processor time")
    if given.directory:
        os.write(terminal.handle, b"s" + given.directory.encode() + b"\r")
        time.sleep(1)
        os.write(terminal.handle, b"l")
    _report("while it searches", terminal)
    terminal.drain()
    _report("when nothing runs", terminal)
    terminal.end()


def _report(when: str, terminal: Terminal) -> None:
    times, cpu = [], terminal.cpu
    for number in range(_KEYS):
        terminal.read_waiting()
        times.append(terminal.key(b"j" if number % 10 else b"\x1b[6~"))
        time.sleep(0.03)
    times.sort()
    worst, usual = times[-1] * 1000, median(times) * 1000
    each = (terminal.cpu - cpu) / _KEYS * 1000
    print(
        f"key to screen, {when}: median {usual:.0f} ms, worst {worst:.0f} ms of {_KEYS};"
        f" {each:.0f} ms of processor time each"
    )


if __name__ == "__main__":
    main()
