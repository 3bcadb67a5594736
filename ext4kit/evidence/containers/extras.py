"""Libraries that few need and that weigh much: an extra of the package brings each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ext4kit.errors import UnsupportedError


@contextmanager
def extra(what: str, package: str, name: str) -> Iterator[None]:
    """Import such a library in this context.

    Args:
        what: what cannot be read without it.
        package: as pip calls it.
        name: the extra of ext4kit that brings it.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        text = f"{what} needs the package {package}: pip install 'ext4kit[{name}]'"
        raise UnsupportedError(text) from error
