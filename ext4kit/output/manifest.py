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

MANIFEST, CASE = "manifest.jsonl", "case.json"
README, REPORT = "README.txt", "report.html"  # beside them
PART = ".manifest.jsonl.part"  # the manifest of a run that goes on with an earlier one
RESERVED = ".reserve"  # keeps space for the last records
OWN = {MANIFEST, CASE, README, REPORT, PART, RESERVED}
OWN |= {f".{name}.part" for name in (CASE, README, REPORT)}
_LARGEST_CASE = 1 << 26  # bytes
RESERVE = 1 << 16  # bytes: several records with the longest paths
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def interruption(error: BaseException) -> Reason:
    """The reason of a file whose writing an error or an interrupt ended."""
    return WRITE_INTERRUPTED.filled(why=str(error) or "interrupted")


def encoded(values: Record) -> bytes:
    """A record as a line of a manifest, with the text beside each time."""
    return (_ENCODER.encode(with_iso(values)) + "\n").encode()


def settle_manifests(out: Path) -> None:
    """Of two manifests of runs that did not finish, keep the one that tells more.

    Both have the same records in the same order.

    Raises:
        OSError: the folder cannot be written.
    """
    part, before = out / PART, out / MANIFEST
    sizes = [path.lstat().st_size if is_regular(path) else -1 for path in (part, before)]
    if sizes[0] > sizes[1]:
        part.replace(before)
    else:
        part.unlink(missing_ok=True)
    (out / RESERVED).unlink(missing_ok=True)


def is_regular(path: Path) -> bool:
    """Whether a regular file stands there, and no link to one."""
    return path.is_file() and not path.is_symlink()


def read_case(out: Path) -> Record | None:
    """The case record of a folder as it stands there; None where there is none."""
    path, case = out / CASE, None
    with suppress(OSError, ValueError, RecursionError):
        if is_regular(path) and path.stat().st_size <= _LARGEST_CASE:
            case = json.loads(path.read_bytes())
    return case if isinstance(case, dict) else None


class Manifest:
    """The manifest of an output folder, which stays valid after any error or interrupt.

    Some disk space is reserved while the manifest is open. On a full disk the record of the
    unfinished file therefore still fits.

    Args:
        out: the output folder.
        is_resumed: keep an earlier manifest until this one is complete, or has more.
        publish: called after each record; gives its file the name that the record has.

    Attributes:
        count: number of records.
    """

    def __init__(
        self, out: Path, is_resumed: bool = False, publish: Callable[[], None] = lambda: None
    ) -> None:
        self._out, self._is_resumed, self._publish = out, is_resumed, publish
        self._reserve = out / RESERVED
        self._stream = (out / (PART if is_resumed else MANIFEST)).open("xb", buffering=0)
        with self._reserve.open("xb") as stream:
            stream.write(b"\xff" * RESERVE)
        self._end = 0
        self.count = 0

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with interrupts_wait():
            self.release()
            self._stream.close()
            if self._is_resumed and kind is None:
                (self._out / PART).replace(self._out / MANIFEST)
            elif self._is_resumed:
                settle_manifests(self._out)

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
        """Write one record, with the text beside each time; then its file gets its name.

        On a full disk it goes into the reserved space, before the error is raised.

        Raises:
            OSError: the disk is full, or the record could not be written.
            OutputError: the file did not get its name; there is no record then.
        """
        line, full = encoded(values), None
        try:
            self._write(line)
        except OSError as error:
            self.release()
            self._write(line)
            full = error
        try:
            self._publish()
        except BaseException:
            self._cut(self._end - len(line))
            self._end, self.count = self._end - len(line), self.count - 1
            raise
        if full is not None:
            raise full

    def _cut(self, end: int) -> None:
        self._stream.truncate(end)
        self._stream.seek(end)

    def _write(self, line: bytes) -> None:
        """Write all of a line or nothing."""
        written = 0
        try:
            while written < len(line):
                written += self._stream.write(line[written:] if written else line)
        except BaseException:
            self._cut(self._end)
            raise
        self._end, self.count = self._end + len(line), self.count + 1  # no interrupt in between
