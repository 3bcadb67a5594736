"""The manifest of an output folder: one JSON record per line."""

from __future__ import annotations

import json
import time
from pathlib import Path

from ext4kit.fields import Record
from ext4kit.output.interrupts import interrupts_wait

MANIFEST = "manifest.jsonl"
RESERVE = 1 << 16  # bytes: waiting records, and several records with the longest paths
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_AT_ONCE = 1 << 14  # bytes of records that may wait
_AT_LATEST = 0.25  # seconds


class Manifest:
    """The manifest of an output folder, which stays valid after any error or interrupt.

    Records are collected for a short time and written together. An error or an interrupt writes all
    waiting records. Some disk space is reserved while the manifest is open. On a full disk the
    waiting records and the record of the unfinished file therefore still fit.

    Args:
        out: the output folder.
    """

    def __init__(self, out: Path) -> None:
        self._reserve = out / ".reserve"
        self._stream = (out / MANIFEST).open("xb", buffering=0)
        self._reserve.write_bytes(b"\xff" * RESERVE)
        self._end = 0
        self._written = 0
        self._waiting: list[bytes] = []
        self._room = _AT_ONCE
        self._since = 0.0

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *error: object) -> None:
        with interrupts_wait():
            self.release()
            try:
                self.flush()
            finally:
                self._stream.close()

    def release(self) -> None:
        """Release the space reserved for the last records."""
        self._reserve.unlink(missing_ok=True)

    @property
    def count(self) -> int:
        """Number of records."""
        return self._written + len(self._waiting)

    def append(self, values: Record) -> None:
        """Add one record; it is written together with others after a short time."""
        line = (_ENCODER.encode(values) + "\n").encode()
        self._waiting.append(line)
        self._room -= len(line)
        if self._room <= 0 or time.monotonic() - self._since > _AT_LATEST:
            self.flush()

    def flush(self) -> None:
        """Write the waiting records, all or none.

        Raises:
            OSError: they could not be written and still wait.
        """
        waiting = self._waiting
        lines = b"".join(waiting)
        rest = memoryview(lines)
        try:
            self._stream.seek(self._end)
            while rest:
                rest = rest[self._stream.write(rest) :]
        except BaseException:
            self._stream.truncate(self._end)
            raise
        end, written = self._end + len(lines), self._written + len(waiting)
        self._end, self._written, self._waiting = end, written, []  # no interrupt in between
        self._room, self._since = _AT_ONCE, time.monotonic()
