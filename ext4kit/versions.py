"""Versions of Python, of the system and of the libraries that are used."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from functools import cache

_OF_EXTRAS = (
    "artifacts", "cheroot", "cryptography", "dask-jobqueue", "distributed", "hyperscan", "mfusepy",
    "textual", "textual-serve", "wsgidav", "yara-x", "zstandard",
)  # fmt: skip


@cache
def library_versions() -> dict[str, str]:
    """The libraries that the package requires, and installed libraries of its extras.

    The result is empty if the package itself is not installed, because only its metadata names its
    libraries.
    """
    from importlib import metadata  # slow, and rarely needed

    found: dict[str, str] = {}
    with suppress(metadata.PackageNotFoundError):
        wanted = [each for each in metadata.requires("ext4kit") or () if "extra" not in each]
        for name in (re.split(r"[^\w.-]", each)[0] for each in wanted):
            found[name] = metadata.version(name)
    for name in _OF_EXTRAS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def version_lines() -> list[str]:
    """Python, the system and each library, with their versions."""
    return [
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        platform.platform(),
        *(f"{name} {version}" for name, version in library_versions().items()),
    ]
