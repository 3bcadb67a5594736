"""A forked process in which C code works, and which can be ended at any moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

_INTERRUPT = frozenset({signal.SIGINT})


def can_fork() -> bool:
    """Whether this system has forked processes, which Windows has not."""
    return hasattr(os, "fork")


def start_forked(work: Callable[..., None], *arguments: object) -> tuple[BaseProcess, Connection]:
    """Start `work(pipe, *arguments)` in a forked process, which has all that is open here.

    The process hears no interrupts: who started it ends it.

    Returns:
        (the process, this side of the pipe).
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
    theirs.close()
    return process, ours
