"""All packages of a system, from whatever keeps its packages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ext4kit.errors import RequestError
from ext4kit.packages import apk, dpkg, pacman, rpm
from ext4kit.packages.owned import OwnedPaths, Package, PackageRecords, PackageSystem
from ext4kit.packages.roots import NodeRoot, SystemRoot
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Severity

_READERS = {
    PackageSystem.DPKG: dpkg.read_dpkg,
    PackageSystem.RPM: rpm.read_rpm,
    PackageSystem.APK: apk.read_apk,
    PackageSystem.PACMAN: pacman.read_pacman,
}
_PLACES = (*dpkg.PLACES, *rpm.PLACES, *apk.DATABASES, pacman.FOLDER)
_MOST_NAME = 200
_MOST_POINTS = 100


@dataclass(frozen=True)
class PackageDatabase:
    """The packages of a system.

    Attributes:
        distribution: as the system names itself, "" for unknown.
        systems: what keeps databases of packages on it.
        packages: the packages.
        paths: what they own.
        mount_points: directories at which the system mounts other file systems.
    """

    distribution: str
    systems: tuple[PackageSystem, ...]
    packages: list[Package]
    paths: OwnedPaths
    mount_points: tuple[bytes, ...] = ()

    @cached_property
    def rows_of(self) -> dict[bytes, list[int]]:
        """Rows of `paths` by path, as in the lists."""
        found: dict[bytes, list[int]] = {}
        for row, path in enumerate(self.paths.path):
            found.setdefault(path, []).append(row)
        return found


def read_packages(root: SystemRoot) -> PackageDatabase:
    """Read all databases of packages below a root directory.

    Damage is a problem of the root.
    """
    records, systems = PackageRecords(), list[PackageSystem]()
    for system, read in _READERS.items():
        before = len(records.packages)
        try:
            is_there = read(root, records)
        except RequestError as error:
            root.problems.add(f"packages of {system}", str(error), Severity.ERROR)
            is_there = True
        if is_there or len(records.packages) > before:
            systems.append(system)
    return PackageDatabase(
        _distribution(root), tuple(systems), records.packages, records.table(), _mount_points(root)
    )


def has_packages(root: NodeRoot) -> bool:
    """Whether a root directory has a database of packages; none is read."""
    return any(map(root.has, _PLACES))


def package_places(root: NodeRoot) -> list[Inode | None]:
    """The inodes of the databases of packages and of the directories that they are in."""
    found = [place for place in _PLACES if root.has(place)]
    above = [place.rpartition(b"/")[0] for place in found]
    return [None if node is None else node.inode for node in map(root.node, [*found, *above])]


def _distribution(root: SystemRoot) -> str:
    """The name in os-release."""
    data = root.read(b"etc/os-release") or root.read(b"usr/lib/os-release") or b""
    for line in data.split(b"\n"):
        if line.startswith(b"PRETTY_NAME="):
            value = line.partition(b"=")[2].strip().strip(b"\"'")
            return value[:_MOST_NAME].decode("utf-8", "backslashreplace")
    return ""


def _mount_points(root: SystemRoot) -> tuple[bytes, ...]:
    """The directories in fstab, without the root directory."""
    lines = (line.split() for line in (root.read(b"etc/fstab") or b"").split(b"\n"))
    points = (words[1] for words in lines if len(words) > 2 and not words[0].startswith(b"#"))
    found = dict.fromkeys(each for each in points if each[:1] == b"/" and each.strip(b"/"))
    return tuple(found)[:_MOST_POINTS]
