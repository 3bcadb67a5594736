"""Large libraries that few users need; each is installed by an extra of the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ext4kit.errors import UnsupportedError


@contextmanager
def extra(what: str, package: str, name: str) -> Iterator[None]:
    """Context manager in which such a library is imported.

    Args:
        what: the format that cannot be read without it.
        package: name of the library for pip.
        name: the extra of ext4kit that installs it.

    Raises:
        UnsupportedError: the library is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        text = f"{what} needs the package {package}: pip install 'ext4kit[{name}]'"
        raise UnsupportedError(text) from error
