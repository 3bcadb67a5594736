"""Whether the lists of a package database were changed by something else than its program.

dpkg and pacman write all files of a package's record in one run, so that their inodes change at
nearly the same time; the time of that change (ctime) is set by the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import Ext4kitError
from ext4kit.packages.apt_cache import digests_in_cache
from ext4kit.packages.database import PackageDatabase
from ext4kit.packages.dpkg import INFO, STATUS
from ext4kit.packages.owned import DIGESTS, Package, PackageSystem
from ext4kit.packages.pacman import FOLDER as PACMAN
from ext4kit.packages.roots import FoundFile, NodeRoot
from ext4kit.system_zone import zone_of_root
from ext4kit.units import NANOSECONDS
from ext4kit.zones import UTC

_SLACK = 120 * NANOSECONDS  # between the first and the last file that one run writes
_RUN_SLACK = 900 * NANOSECONDS  # between a line of dpkg.log and a file of that run
_COPIED = 0.2  # a larger part of all lists is not changed by hand, but copied
_LOGS = (b"var/log/dpkg.log", b"var/log/dpkg.log.1")
_LOG_LINE = re.compile(rb"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) ", re.MULTILINE)
_LISTS = (b".list", b".md5sums")


class ListDoubt(StrEnum):
    """Why a list cannot be trusted."""

    LATER_THAN_OTHERS = "changed later than the other files of the package's record"
    LATER_THAN_STATUS = "changed after dpkg last wrote its status"
    NOT_LOGGED = "changed at a time at which dpkg.log has no run"
    NO_LIST = "an installed package has no list of files"
    NO_DIGESTS = "a package with files has no digests"
    NOT_OF_ARCHIVE = "a digest differs from that in the package's archive in the cache of apt"
    NOT_AS_OUTSIDE = "a digest differs from the list from outside"


@dataclass(frozen=True, slots=True)
class DoubtfulList:
    """A list of a package database that something else than its program may have changed.

    Attributes:
        path: the list; for a digest, the path that it is of.
        inode: of the list; None for none.
        ctime: of the list (ns); None for none.
    """

    package: str
    path: bytes
    doubt: ListDoubt
    inode: int | None = None
    ctime: int | None = None


def doubtful_lists(root: NodeRoot, database: PackageDatabase) -> list[DoubtfulList]:
    """The lists that may have been changed; each is listed for its first reason only."""
    found = list[DoubtfulList]()
    if PackageSystem.DPKG in database.systems:
        found += _of_dpkg(root)
        found += _without_lists(database)
        found += _against_cache(root, database)
    if PackageSystem.PACMAN in database.systems:
        found += _of_pacman(root)
    first: dict[tuple[bytes, str], DoubtfulList] = {}
    for one in found:
        first.setdefault((one.path, one.package), one)
    return list(first.values())


# ------------------------------------------------------------------------------------- times


def _of_dpkg(root: NodeRoot) -> Iterator[DoubtfulList]:
    records: dict[bytes, list[FoundFile]] = {}
    for file in root.listing(INFO):
        if not file.is_directory and file.inode is not None:
            records.setdefault(file.name.rpartition(b".")[0], []).append(file)
    lists = {
        package: [one for one in files if one.name.endswith(_LISTS) and not one.is_unpacked]
        for package, files in records.items()
    }
    every = [(package, one) for package, some in lists.items() for one in some]
    ctimes = np.array([_ctime(one) for _, one in every], np.int64)
    later = {one.name for package, files in records.items() for one in _later(files, _LISTS)}
    for doubt, mask in (
        (ListDoubt.LATER_THAN_OTHERS, np.array([one.name in later for _, one in every], bool)),
        (ListDoubt.LATER_THAN_STATUS, _after_status(root, ctimes)),
        (ListDoubt.NOT_LOGGED, _not_logged(root, ctimes)),
    ):
        if 0 < mask.sum() <= max(_COPIED * len(every), 1):
            for row in np.flatnonzero(mask).tolist():
                package, one = every[row]
                number = None if one.inode is None else one.inode.number
                yield DoubtfulList(package.decode("utf-8", "backslashreplace"),
                                   b"/" + INFO + b"/" + one.name, doubt, number,
                                   int(ctimes[row]))  # fmt: skip


def _ctime(file: FoundFile) -> int:
    return 0 if file.inode is None else file.inode.ctime


def _later(files: Sequence[FoundFile], lists: tuple[bytes, ...]) -> Iterator[FoundFile]:
    """The lists that changed later than some other file of the record, which has a digest.

    dpkg itself writes `.list` again when another package takes over a file. So `.list` counts only
    together with further files.
    """
    for one in files:
        others = [_ctime(other) for other in files if other is not one]
        if one.is_unpacked or not one.name.endswith(lists) or not others:
            continue
        is_paths = one.name.endswith(b".list")
        if not is_paths and _ctime(one) > min(others) + _SLACK:
            yield one


def _after_status(root: NodeRoot, ctimes: Int64s) -> Bools:
    node = root.node(STATUS)
    if node is None or node.inode is None:
        return np.zeros(len(ctimes), bool)
    found: Bools = ctimes > node.inode.ctime + _SLACK
    return found


def _not_logged(root: NodeRoot, ctimes: Int64s) -> Bools:
    """True for times in the period of dpkg.log that are not near any of its lines."""
    runs = _runs(root)
    if not len(runs) or not len(ctimes):
        return np.zeros(len(ctimes), bool)
    place = np.searchsorted(runs, ctimes)
    before = ctimes - runs[np.maximum(place - 1, 0)]
    after = runs[np.minimum(place, len(runs) - 1)] - ctimes
    is_near = (before <= _RUN_SLACK) | ((after >= 0) & (after <= _RUN_SLACK))
    found: Bools = (ctimes > runs[0]) & ~is_near
    return found


def _runs(root: NodeRoot) -> Int64s:
    """The times of the lines of dpkg.log (ns), sorted."""
    clocks = {match for path in _LOGS for match in _LOG_LINE.findall(root.read(path) or b"")}
    if not clocks:
        return np.zeros(0, np.int64)
    texts = [f"{day.decode()}T{clock.decode()}" for day, clock in clocks]
    try:
        zone = zone_of_root(root.read_or_target) or UTC
        local = np.array(texts, "datetime64[s]").astype(np.int64)
        times = local - zone.offsets_at(local - zone.offsets_at(local))
    except (Ext4kitError, ValueError):
        return np.zeros(0, np.int64)
    found: Int64s = np.sort(times) * NANOSECONDS
    return found


def _of_pacman(root: NodeRoot) -> Iterator[DoubtfulList]:
    for folder in root.listing(PACMAN):
        if not folder.is_directory:
            continue
        place = PACMAN + b"/" + folder.name
        files = [one for one in root.listing(place) if one.inode is not None]
        for one in _later(files, (b"mtree", b"files")):
            number = None if one.inode is None else one.inode.number
            yield DoubtfulList(folder.name.decode("utf-8", "backslashreplace"),
                               b"/" + place + b"/" + one.name, ListDoubt.LATER_THAN_OTHERS,
                               number, _ctime(one))  # fmt: skip


# ----------------------------------------------------------------------------------- contents


def _without_lists(database: PackageDatabase) -> Iterator[DoubtfulList]:
    counts = np.bincount(database.paths.package, minlength=len(database.packages))
    plain = ~database.paths.is_config
    files = np.bincount(database.paths.package[plain], minlength=len(database.packages))
    for package, count, without_config in zip(database.packages, counts, files, strict=True):
        if package.system is PackageSystem.DPKG and (not count or not without_config):
            yield _doubt(package, ListDoubt.NO_LIST, b".list")


def _doubt(package: Package, doubt: ListDoubt, end: bytes) -> DoubtfulList:
    path = b"/" + INFO + b"/" + package.name.encode("utf-8", "surrogateescape") + end
    return DoubtfulList(package.title, path, doubt)


def without_digests(database: PackageDatabase, rows: Sequence[int]) -> Iterator[DoubtfulList]:
    """The packages of dpkg that have no digests although they own regular files.

    Args:
        database: the packages.
        rows: of the owned paths that are regular files without a digest.
    """
    owners = {int(database.paths.package[row]) for row in rows}
    for row in sorted(owners):
        package = database.packages[row]
        if package.system is PackageSystem.DPKG and not package.has_digests:
            yield _doubt(package, ListDoubt.NO_DIGESTS, b".md5sums")


def _against_cache(root: NodeRoot, database: PackageDatabase) -> Iterator[DoubtfulList]:
    """Digests that differ from those in the archives of the same version."""
    by_title = {(one.name, one.version): row for row, one in enumerate(database.packages)}
    for name, version, digests in digests_in_cache(root):
        row = by_title.get((name, version))
        if row is None:
            continue
        for at in np.flatnonzero(database.paths.package == row).tolist():
            path, mine = database.paths.path[at], database.paths.digest[at]
            is_md5 = DIGESTS[int(database.paths.algorithm[at])] == "md5"
            is_compared = is_md5 and not database.paths.is_config[at]
            if is_compared and digests.get(path, mine) != mine:
                yield DoubtfulList(database.packages[row].title, path, ListDoubt.NOT_OF_ARCHIVE)


def compared_with(database: PackageDatabase, outside: PackageDatabase) -> Iterator[DoubtfulList]:
    """The digests of a database that differ from those of a list from outside."""
    mine, theirs = database.paths, outside.paths
    for row, path in enumerate(mine.path):
        if not mine.algorithm[row] or mine.is_config[row]:
            continue
        same = [
            other for other in outside.rows_of.get(path, ())
            if theirs.algorithm[other] == mine.algorithm[row]
        ]  # fmt: skip
        if same and all(theirs.digest[other] != mine.digest[row] for other in same):
            title = database.packages[int(mine.package[row])].title
            yield DoubtfulList(title, path, ListDoubt.NOT_AS_OUTSIDE)
