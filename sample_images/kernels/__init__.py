"""Linux kernels that run as ordinary programs, on the host's own files and without root.

Debian's package `user-mode-linux` holds one for each of its suites. `fetching` brings them into the
cache, `guest` boots one and runs a command in it. `python -m sample_images.kernels` does both.

Attributes:
    SUITES: the name that each kernel had when it was last looked up -> Debian's suite. Unstable
        moves on: what is in the cache is named by what it is.
    HOST: the name of the running kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sample_images.cache import cache_folder

SUITES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie", "7.2": "sid"}
HOST = "host"


class KernelError(RuntimeError):
    """A kernel cannot be had, does not start, or ended too early; the text is one line."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A user-mode kernel in the cache.

    Attributes:
        release: what `uname -r` says in it.
        folder: holds `linux`, its libraries in `lib` and its modules in `modules/RELEASE`.
    """

    release: str
    folder: Path

    @property
    def name(self) -> str:
        """Its version, as "6.12"."""
        return name_of(self.release)

    @property
    def suite(self) -> str:
        """Debian's suite that it is from."""
        return self.folder.name

    @property
    def modules(self) -> Path:
        """The folder with modules.dep."""
        return self.folder / "modules" / self.release


def name_of(release: str) -> str:
    """The version in what `uname -r` says: "6.12" of "6.12.101"."""
    return ".".join(re.findall(r"\d+", release)[:2])


def version_of(release: str) -> tuple[int, ...]:
    """The same as numbers that can be compared."""
    return tuple(map(int, name_of(release).split(".")))


def kernels_folder() -> Path:
    """The place in the cache; each suite's kernel in a folder of its own."""
    return cache_folder() / "kernels"


def kernels_here() -> dict[str, Kernel]:
    """Name -> kernel of all that are in the cache, the oldest first."""
    found = (path.parents[1] for path in kernels_folder().glob("[!.]*/modules/*"))
    kernels = [Kernel(next((place / "modules").iterdir()).name, place) for place in found]
    kernels.sort(key=lambda kernel: version_of(kernel.release))
    return {kernel.name: kernel for kernel in kernels}


def kernel(name: str) -> Kernel:
    """The kernel of that name.

    Raises:
        KernelError: it is not in the cache.
    """
    here = kernels_here()
    if name not in here:
        known = ", ".join(here) or "none"
        raise KernelError(
            f"no kernel {name} here ({known}): python -m sample_images.kernels --fetch"
        )
    return here[name]
