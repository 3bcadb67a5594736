"""The Sleuth Kit as the second reader, in a process of its own that may hang or die.

TSK is C code that reads evidence which may be hostile, and some of its work has no bound that
a caller could set: it walks every block of a sparse file that is mapped by indirect blocks, and
compares each entry of a directory with all before it. So each question has a time limit. When
it is over, or the process is gone, a new process takes the next question. All of them together
have a limit too; after it nothing is asked any more.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import numpy as np

from ext4kit.crosscheck.answers import COLUMNS, ComparisonRequest, ContentDigest, Hello, Rows
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.evidence.source import Source

_INTERRUPT = frozenset({signal.SIGINT})
_NO_TIME = "The Sleuth Kit has used all the time that it has"


class NoAnswerError(Ext4kitError):
    """TSK could not answer; the text is what it said, or that it was too slow or crashed."""


class TooSlowError(NoAnswerError):
    """It took longer than it may, or its process died."""


class NoTimeError(TooSlowError):
    """It was not asked, or not waited for: all the time that it has was used."""


class TskClient:
    """Questions to TSK about one volume.

    Args:
        source: the volume's bytes.
        patience: seconds that one answer may take.
        limit: seconds from question to answer that all of them together may take.

    Raises:
        NoAnswerError: TSK does not open the volume; the text is its reason.
        RequestError: the system can make no copy of a process.
    """

    def __init__(self, source: Source, patience: float, limit: float) -> None:
        self._source = source
        self._patience = patience
        self._left = limit
        self._asked = 0.0
        self._process: Any = None
        self._pipe: Any = None
        try:
            self.hello: Hello = self._ask("hello")
        except BaseException:
            self.close()
            raise

    def listing(self, number: int) -> Rows:
        """The entries of a directory, those that TSK takes for deleted included.

        Raises:
            NoAnswerError: it cannot be read; TooSlowError: not in time; NoTimeError: no time left.
        """
        names, data = self._ask("listing", number)
        return Rows(names, np.frombuffer(data, np.int64).reshape(-1, len(COLUMNS)))

    def ask_digests(self, wanted: list[ComparisonRequest]) -> None:
        """Let TSK work on contents; `digests` takes what comes of it.

        Raises:
            TooSlowError: its process died; NoTimeError: no time left.
        """
        self._send("digests", wanted)

    def digests(self) -> list[ContentDigest]:
        """What TSK reads of the contents that were asked for, in their order.

        Raises:
            TooSlowError: not in time; NoTimeError: no time left.
        """
        answer: list[ContentDigest] = self._answer()
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = None

    def __enter__(self) -> TskClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, *question: Any) -> Any:
        self._send(*question)
        return self._answer()

    def _send(self, *question: Any) -> None:
        if self._left <= 0:
            raise NoTimeError(_NO_TIME)
        if self._process is None:
            self._start()
        self._asked = time.monotonic()
        try:
            self._pipe.send(question)
        except ConnectionError as error:
            raise self._crashed() from error

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(max(min(self._patience, self._left), 0.0)):
                self.close()
                if self._left < self._patience:
                    raise NoTimeError(_NO_TIME)
                raise TooSlowError(f"The Sleuth Kit took longer than {self._patience:g} s")
            good, value = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise self._crashed() from error
        finally:
            self._left -= time.monotonic() - self._asked
        if not good:
            raise NoAnswerError(value)
        return value

    def _crashed(self) -> TooSlowError:
        self.close()
        return TooSlowError("The Sleuth Kit crashed")

    def _start(self) -> None:
        from ext4kit.crosscheck.worker import work

        if not hasattr(os, "fork"):
            raise RequestError("The Sleuth Kit is asked in a copy of this process, which Windows "
                               "cannot make; cross-check on Linux or macOS")  # fmt: skip
        context = multiprocessing.get_context("fork")  # the evidence stays open as it is
        self._pipe, theirs = context.Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = context.Process(target=work, args=(theirs, self._source), daemon=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)  # which that process never heeds
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
        theirs.close()
