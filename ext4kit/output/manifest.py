"""The manifest of an output folder: one JSON record a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MANIFEST = "manifest.jsonl"
_ENCODER = json.JSONEncoder(ensure_ascii=False)
RESERVE = 1 << 16  # bytes: several records of the longest paths


class Manifest:
    """The manifest of an output folder: valid after every record, whatever stops the work.

    Some space is kept back while it is open, so that on a full disk the record of the file
    that could not be finished still finds room.
    """

    def __init__(self, out: Path) -> None:
        self._reserve = out / ".reserve"
        self._stream = (out / MANIFEST).open("xb", buffering=0)
        self._reserve.write_bytes(b"\xff" * RESERVE)

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
        self._stream.close()

    def release(self) -> None:
        """Give the space back that was kept for the last record."""
        self._reserve.unlink(missing_ok=True)

    def append(self, values: dict[str, Any]) -> None:
        """One record, handed to the system before the next file is begun; whole or not at all."""
        start = self._stream.tell()
        line = memoryview(_ENCODER.encode(values).encode() + b"\n")
        try:
            while line:
                line = line[self._stream.write(line) :]
        except BaseException:
            self._stream.truncate(start)
            raise
