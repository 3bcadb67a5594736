"""The paths that packages own, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, Rows, UInt8s
from ext4kit.errors import RequestError

MOST_PATHS = 2_000_000  # of all packages
MOST_PACKAGES = 200_000
_MOST_PATH = 4096  # bytes, as in the kernel
NOT_LISTED = -1  # a size, mode or owner that the list does not have
DigestName = Literal["", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
DIGESTS: tuple[DigestName, ...] = ("", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")


class PackageSystem(StrEnum):
    """What keeps a database of packages."""

    DPKG = "dpkg"
    RPM = "rpm"
    APK = "apk"
    PACMAN = "pacman"
    LIST = "list"  # a list from outside


class ListedKind(StrEnum):
    """What a list says of a path."""

    ANY = "any"  # dpkg lists paths alone
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


LISTED_KINDS = tuple(ListedKind)


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package.

    Attributes:
        system: whose database has it.
        architecture: b"" where the database has none.
        installed: time of the installation (ns); None where the database has none.
        has_digests: whether its list has a digest of any file.
    """

    system: PackageSystem
    name: str
    version: str
    architecture: str = ""
    installed: int | None = None
    has_digests: bool = True

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class OwnedPaths(Table):
    """Paths that packages own, as columns (n,).

    Attributes:
        package: row of the package.
        path: absolute, as in the list, after diversions.
        kind: index in `LISTED_KINDS`.
        algorithm: index in `DIGESTS`, 0 for no digest.
        digest: of the content; of the target of a symlink for apk.
        target: target of a symlink, b"" where the list has none.
        size: bytes; mode: permission bits; uid, gid: owner; `NOT_LISTED` for none.
        is_config: True for configuration files, which the administrator may change.
        may_miss: True where the file need not exist.
    """

    package: Rows
    path: list[bytes]
    kind: UInt8s
    algorithm: UInt8s
    digest: list[bytes]
    target: list[bytes]
    size: Int64s
    mode: Int64s
    uid: Int64s
    gid: Int64s
    is_config: Bools
    may_miss: Bools


class OwnedPath(NamedTuple):
    """One row of `OwnedPaths` without its package."""

    path: bytes
    kind: ListedKind = ListedKind.ANY
    algorithm: DigestName = ""
    digest: bytes = b""
    target: bytes = b""
    size: int = NOT_LISTED
    mode: int = NOT_LISTED
    uid: int = NOT_LISTED
    gid: int = NOT_LISTED
    is_config: bool = False
    may_miss: bool = False


@dataclass(slots=True)
class PackageRecords:
    """Collects packages and their paths within limits."""

    packages: list[Package] = field(default_factory=list)
    _owners: list[int] = field(default_factory=list)
    _paths: list[OwnedPath] = field(default_factory=list)

    def add(self, package: Package, paths: list[OwnedPath]) -> None:
        """Add a package.

        Raises:
            RequestError: there are more than any system has.
        """
        if len(self.packages) >= MOST_PACKAGES or len(self._paths) + len(paths) > MOST_PATHS:
            raise RequestError("more packages or paths than any system has; the rest is not read")
        self._owners += [len(self.packages)] * len(paths)
        self.packages.append(package)
        self._paths += paths

    def table(self) -> OwnedPaths:
        """All paths as columns."""
        if not self._paths:
            return OwnedPaths.empty()
        columns = zip(*self._paths, strict=True)
        path, kind, algorithm, digest, target, size, mode, uid, gid, is_config, may_miss = columns
        kinds = {kind: code for code, kind in enumerate(LISTED_KINDS)}
        codes = {name: code for code, name in enumerate(DIGESTS)}
        return OwnedPaths(
            np.array(self._owners, np.intp),
            list(path),
            np.array([kinds[each] for each in kind], np.uint8),
            np.array([codes[each] for each in algorithm], np.uint8),
            list(digest),
            list(target),
            np.array(size, np.int64),
            np.array(mode, np.int64),
            np.array(uid, np.int64),
            np.array(gid, np.int64),
            np.array(is_config, bool),
            np.array(may_miss, bool),
        )


def absolute(path: bytes) -> bytes:
    """A path of a list, from the root directory; b"" for the root directory or a bad path."""
    if b"\0" in path or len(path) > _MOST_PATH:
        return b""
    if path[:1] == b"/" and b"//" not in path and b"/." not in path and path[-1:] != b"/":
        return path
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    return b"" if b".." in parts or not parts else b"/" + b"/".join(parts)


def text_of(raw: bytes, most: int = 256) -> str:
    """A name or version as text of limited length."""
    return raw[:most].decode("utf-8", "backslashreplace")


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines of a file, one at a time."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1
