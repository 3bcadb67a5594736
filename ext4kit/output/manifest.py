"""The manifest of an output folder: one JSON record per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ext4kit.errors import OutputError
from ext4kit.fields import Record
from ext4kit.output.interrupts import interrupts_wait
from ext4kit.reasons import WRITE_INTERRUPTED, Reason
from ext4kit.times import with_iso

MANIFEST = "manifest.jsonl"
RESERVE = 1 << 16  # bytes: several records with the longest paths
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def interruption(error: BaseException) -> Reason:
    """The reason of a file whose writing an error or an interrupt ended."""
    return WRITE_INTERRUPTED.filled(why=str(error) or "interrupted")


class Manifest:
    """The manifest of an output folder, which stays valid after any error or interrupt.

    Some disk space is reserved while the manifest is open. On a full disk the record of the
    unfinished file therefore still fits.

    Args:
        out: the output folder.

    Attributes:
        count: number of records.
    """

    def __init__(self, out: Path) -> None:
        self._reserve = out / ".reserve"
        self._stream = (out / MANIFEST).open("xb", buffering=0)
        self._reserve.write_bytes(b"\xff" * RESERVE)
        self._end = 0
        self.count = 0

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *error: object) -> None:
        with interrupts_wait():
            self.release()
            self._stream.close()

    @contextmanager
    def completed_by(self, waiting: Callable[[Reason], Iterable[Record]]) -> Iterator[None]:
        """A context after which each file that was taken has a record, whatever ends it.

        Args:
            waiting: records of the files that wait to be written, with the reason why they are not.
        """
        try:
            yield
        except (OutputError, KeyboardInterrupt) as error:
            with interrupts_wait(), suppress(OSError):
                for record in waiting(interruption(error)):
                    self.append(record)
            raise

    def release(self) -> None:
        """Release the space reserved for the last records."""
        self._reserve.unlink(missing_ok=True)

    def append(self, values: Record) -> None:
        """Write one record, with the text beside each time.

        On a full disk it goes into the reserved space, before the error is raised.

        Raises:
            OSError: the disk is full, or the record could not be written.
        """
        line = (_ENCODER.encode(with_iso(values)) + "\n").encode()
        try:
            self._write(line)
        except OSError:
            self.release()
            self._write(line)
            raise

    def _write(self, line: bytes) -> None:
        """Write all of a line or nothing."""
        rest = memoryview(line)
        try:
            self._stream.seek(self._end)
            while rest:
                rest = rest[self._stream.write(rest) :]
        except BaseException:
            self._stream.truncate(self._end)
            raise
        self._end, self.count = self._end + len(line), self.count + 1  # no interrupt in between
