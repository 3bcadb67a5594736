"""Runs a container's library in a process that can only read the container's folder.

The library parses bytes that may be hostile. If its process crashes or hangs, the process is
killed, the requested range is lost, and the next read starts a new process.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from ext4kit.errors import AccessError, Ext4kitError, UnsupportedError
from ext4kit.evidence.confinement import confine, python_folders
from ext4kit.evidence.containers.libraries import AT_ONCE, LIBRARIES, OPENERS, Files
from ext4kit.evidence.forked import Forked, Pipe

_PATIENCE = 60.0  # seconds for one answer
_MOST_DEATHS = 8  # processes that may fail; after that, none is started
_MOST_ANSWER = 4 << 20  # bytes
_MOST_SIZE = 1 << 60  # bytes of a disk
_LONG = 1 << 20  # bytes from which on a read may be part of a sequential pass
_REQUEST = struct.Struct("=QQQ")
_GOOD = b"\0"
Request = tuple[int, int, int]  # offset, length, slot in the shared memory


class ConfinedDisk:
    """A disk that a library reads in a confined process (see `libraries.Disk`).

    Args:
        paths: the container, or its segments.
        kind: format of the container, a key of `libraries.OPENERS`.

    Raises:
        AccessError: the library refuses the container, or its process crashed or took too long.
        UnsupportedError: the library does not read a feature.
    """

    def __init__(self, paths: Files, kind: str) -> None:
        self._paths, self._kind = paths, kind
        self._shared = mmap.mmap(-1, 2 * AT_ONCE)
        self._deaths = 0
        self._process: Forked | None = None
        self._owner = 0
        self._ahead: Request | None = None  # the request that is being answered
        self._end = -1  # end of the last range read
        try:
            found = self._started()
            self.size, self.sector_size = int(found["size"]), int(found["sector_size"])
            self.files = tuple(Path(str(name)) for name in found["files"])
            self.facts = {str(name): str(value) for name, value in found["facts"].items()}
            self.hashes = {str(name): str(value) for name, value in found["hashes"].items()}
            if not 0 <= self.size <= _MOST_SIZE:
                raise ValueError(self.size)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self.close()
            raise AccessError(f"{paths[0]}: its library gives no sense: {error}") from error

    def fetch(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes; in a sequential pass, the next range is requested ahead.

        Raises:
            AccessError: the library cannot read them, crashed, or took too long.
        """
        if self._owner != os.getpid():  # the process belongs to the parent of this one
            self._process, self._ahead = None, None
        if self._ahead is not None and self._ahead[:2] != (offset, length):
            with suppress(AccessError):  # discard the answer that is not needed
                self._answer()
            self._ahead = None
        if self._process is None:
            self._started()
        offset, length, slot = self._ahead or self._ask(offset, length, 0)
        answer = self._answer()
        self._ahead = None
        if answer != _GOOD:
            raise AccessError(answer.decode("utf-8", "backslashreplace"))
        following = min(length, self.size - offset - length)
        if offset == self._end and length >= _LONG and following > 0:
            with suppress(AccessError):  # an error in the range ahead is not reported yet
                self._ahead = self._ask(offset + length, following, 1 - slot)
        self._end = offset + length
        return self._shared[slot * AT_ONCE : slot * AT_ONCE + length]

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._owner == os.getpid():
            self._process.end()
        self._process = None
        self._shared.close()

    def _started(self) -> dict[str, Any]:
        """Start the process, and return its facts about the disk."""
        if self._deaths >= _MOST_DEATHS:
            raise AccessError(f"its library was given up after {self._deaths} processes")
        if self._owner not in (0, os.getpid()):  # the old memory is shared with the parent
            self._shared = mmap.mmap(-1, 2 * AT_ONCE)
        self._owner = os.getpid()
        self._process = Forked(_serve, self._paths, self._kind, self._shared)
        self._ahead, self._end = None, -1
        self._send(b"")
        facts: dict[str, Any] = json.loads(self._answer())
        if "error" in facts:
            self._process.end()
            kind = UnsupportedError if facts.get("unsupported") else AccessError
            raise kind(f"{facts['error']}")
        return facts

    def _ask(self, *request: int) -> Request:
        """Send a request (offset, length, slot in the shared memory)."""
        try:
            self._send(_REQUEST.pack(*request))
        except AccessError:  # the process had crashed before
            self._started()
            self._send(_REQUEST.pack(*request))
        return request[0], request[1], request[2]

    def _send(self, question: bytes) -> None:
        assert self._process is not None
        try:
            self._process.pipe.send(question)
        except OSError as error:
            raise self._dead("crashed") from error

    def _answer(self) -> bytes:
        assert self._process is not None
        try:
            if self._process.pipe.waits(_PATIENCE):
                return self._process.pipe.receive(_MOST_ANSWER)
        except (EOFError, OSError) as error:
            raise self._dead("crashed") from error
        except BaseException:  # an interrupt: the late answer would be taken for the next one
            self._drop()
            raise
        raise self._dead(f"took longer than {_PATIENCE:.0f} s")

    def _dead(self, why: str) -> AccessError:
        self._drop()
        self._deaths += 1
        return AccessError(f"{self._paths[0]}: its library {why}")

    def _drop(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._ahead = None, None


def _serve(pipe: Pipe, paths: Files, kind: str, shared: mmap.mmap) -> None:
    """Main function of the process: open the container, and answer until the pipe closes."""
    importlib.import_module(LIBRARIES[kind])  # before the process is confined
    confine([paths[0].parent, paths[0].resolve().parent, *python_folders()])
    pipe.receive(_REQUEST.size)
    try:
        disk = OPENERS[kind](paths)
    except Ext4kitError as error:
        refused = {"error": str(error), "unsupported": isinstance(error, UnsupportedError)}
        pipe.send(json.dumps(refused).encode())
        return
    facts = {"size": disk.size, "sector_size": disk.sector_size, "facts": disk.facts,
             "files": list(map(os.fspath, disk.files)), "hashes": disk.hashes}  # fmt: skip
    pipe.send(json.dumps(facts).encode())
    while True:
        offset, length, slot = _REQUEST.unpack(pipe.receive(_REQUEST.size))
        try:
            start = slot * AT_ONCE
            shared[start : start + length] = disk.fetch(offset, length)
            pipe.send(_GOOD)
        except AccessError as error:
            pipe.send(str(error).encode("utf-8", "backslashreplace") or b"?")
