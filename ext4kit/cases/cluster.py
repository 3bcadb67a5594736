"""Runs jobs on the workers of a Dask scheduler (extra `cluster`)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from ext4kit.errors import AccessError
from ext4kit.evidence.containers.extras import extra

_PATIENCE = "20s"  # for the scheduler to answer
_TRIES = 3  # of a job whose worker is lost


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers of a scheduler.

    Args:
        address: of the scheduler, such as "tcp://10.0.0.5:8786".

    Raises:
        UnsupportedError: the extra is not installed.
        AccessError: the scheduler does not answer.
    """
    with extra("a cluster", "distributed", "cluster"):
        import distributed
    connect: Any = distributed.Client  # it has no types
    try:
        client = connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise AccessError(f"{address}: no Dask scheduler answers ({error})") from error
    try:
        executor: Executor = client.get_executor(pure=False, retries=_TRIES)
        yield executor
    finally:
        client.close()
