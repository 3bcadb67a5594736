"""The Sleuth Kit as the second reader, in a separate process that may hang or crash.

TSK is C code that reads possibly hostile evidence, and a caller cannot limit all of its work. For
example, it reads every block of a sparse file that is mapped by indirect blocks, and compares each
entry of a directory with all previous ones. Each question therefore has a time limit. After a
timeout or a crash, a new process answers the next question. All questions together have a time
limit as well, after which no more are sent.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ext4kit.crosscheck.answers import (
    MOST_BYTES,
    REFUSED,
    ContentDigest,
    Hello,
    Listing,
    Ranges,
    unpack_digests,
    unpack_hello,
    unpack_listing,
)
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.evidence.forked import Forked, can_fork
from ext4kit.evidence.source import Source

Answer = TypeVar("Answer")
_NO_TIME = "The Sleuth Kit reached its time limit"


class NoAnswerError(Ext4kitError):
    """TSK could not answer; the text is its message, or reports a timeout or a crash."""


class TooSlowError(NoAnswerError):
    """TSK exceeded its time limit, or its process crashed."""


class NoTimeError(TooSlowError):
    """TSK was not asked or not waited for, because the total time was used up."""


class TskClient:
    """Questions to TSK about one volume.

    Args:
        source: the bytes of the volume.
        patience: maximum seconds for one answer.
        limit: maximum seconds for all questions and answers together.
        folders: directories in which TSK's process may open files, to read the evidence.

    Raises:
        NoAnswerError: TSK does not open the volume; the text is its reason.
        RequestError: the system cannot fork a process.
    """

    def __init__(
        self, source: Source, patience: float, limit: float, folders: Sequence[Path] = ()
    ) -> None:
        self._source, self._folders = source, folders
        self._patience = patience
        self._left = limit
        self._asked = 0.0
        self._process: Forked | None = None
        try:
            self._send("hello")
            self.hello: Hello = self._unpacked(unpack_hello)
        except BaseException:
            self.close()
            raise

    def listing(self, number: int) -> Listing:
        """The entries of a directory, including those that TSK marks as deleted.

        Raises:
            NoAnswerError: TSK cannot read the directory; TooSlowError: it did not answer in time;
                NoTimeError: no time is left.
        """
        self._send("listing", number)
        return self._unpacked(unpack_listing)

    def ask_digests(self, wanted: list[tuple[int, Ranges]]) -> None:
        """Let TSK hash contents (inode number, ranges); `digests` returns the results.

        Raises:
            TooSlowError: TSK's process crashed; NoTimeError: no time is left.
        """
        self._send("digests", wanted)

    def digests(self) -> list[ContentDigest]:
        """TSK's digests of the requested contents, in their order.

        Raises:
            TooSlowError: TSK did not answer in time; NoTimeError: no time is left.
        """
        return self._unpacked(unpack_digests)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
        self._process = None

    def _send(self, *question: object) -> None:
        if self._left <= 0:
            raise NoTimeError(_NO_TIME)
        process = self._process = self._process or self._started()
        self._asked = time.monotonic()
        try:
            process.pipe.send(json.dumps(question).encode())
        except OSError as error:
            raise self._crashed() from error

    def _unpacked(self, unpack: Callable[[bytes], Answer]) -> Answer:
        """Unpack an answer; if it makes no sense, the process counts as crashed."""
        data = self._answer()
        try:
            return unpack(data)
        except (ValueError, LookupError, TypeError, struct.error) as error:
            raise self._crashed() from error

    def _answer(self) -> bytes:
        process = self._process
        assert process is not None
        try:
            if not process.pipe.waits(min(self._patience, self._left)):
                self.close()
                if self._left < self._patience:
                    raise NoTimeError(_NO_TIME)
                raise TooSlowError(f"The Sleuth Kit took longer than {self._patience:g} s")
            answer = process.pipe.receive(MOST_BYTES)
        except (EOFError, OSError) as error:
            raise self._crashed() from error
        finally:
            self._left -= time.monotonic() - self._asked
        if answer[:1] == REFUSED:
            raise NoAnswerError(answer[1:].decode("utf-8", "replace"))
        return answer[1:]

    def _crashed(self) -> TooSlowError:
        self.close()
        return TooSlowError("The Sleuth Kit crashed")

    def _started(self) -> Forked:
        from ext4kit.crosscheck.worker import work

        if not can_fork():
            raise RequestError("The Sleuth Kit runs in a forked process, which Windows does not "
                               "support; run crosscheck on Linux or macOS")  # fmt: skip
        return Forked(work, self._source, self._folders)  # inherits the open evidence
