"""Sightings of files that differ from what the packages of the system installed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ext4kit.errors import NotFoundError
from ext4kit.packages.checking import PackageCheck
from ext4kit.packages.findings import (
    PackageComparison,
    PackageFinding,
    PackageFindingKind,
    packaged_unchanged,
)
from ext4kit.packages.systems import PackagedSystem, packaged_systems
from ext4kit.roots import find_roots
from ext4kit.triage.rules.patterns import PathPatterns
from ext4kit.triage.suspicions.sighting import Sighting
from ext4kit.units import Progress
from ext4kit.workspace import Workspace

CHANGED, DATA_CHANGED = "packaged-changed", "packaged-data-changed"  # codes of the rules
RIGHTS, FOREIGN, LIST = "packaged-rights", "foreign-program", "package-list"
_DATA = PathPatterns([["{/usr/share,/etc,/var,/opt,/srv}/**"]])
_CODES = {
    PackageFindingKind.MODE: RIGHTS,
    PackageFindingKind.OWNER: RIGHTS,
    PackageFindingKind.FOREIGN: FOREIGN,
    PackageFindingKind.LIST: LIST,
}
_CONTENT = (PackageFindingKind.CHANGED, PackageFindingKind.REPLACED)


@dataclass(frozen=True, slots=True)
class PackagedFiles:
    """What the packages of a system tell of its files.

    Attributes:
        sightings: (code of the rule, sighting) of each file that differs, configuration files left
            out.
        unchanged: gives those of some paths at which a packaged file is as it was installed.
    """

    sightings: list[tuple[str, Sighting]]
    unchanged: Callable[[Collection[bytes]], set[bytes]]


def compare_packages(
    workspace: Workspace, is_whole: bool, progress: Progress | None = None
) -> PackagedFiles:
    """Compare the files of a system with its database of packages; nothing differs without one.

    Args:
        workspace: of the file system.
        is_whole: compare all files; otherwise only those of which `unchanged` is asked.
        progress: called with (files read, files to read).
    """
    if not is_whole:
        return PackagedFiles([], partial(_unchanged_of, workspace))
    sightings, own = list[tuple[str, Sighting]](), list[PackageCheck]()
    comparison = PackageComparison(workspace, is_quick=True)
    with suppress(NotFoundError):
        for system in packaged_systems(workspace.fs, find_roots(workspace)):
            found = comparison.findings(system, progress=progress)
            coded = ((_code(one), one) for one in found.each)
            sightings += [(code, _sighting(system, one)) for code, one in coded if code is not None]
            own += [found.check] if system.root is None else []
    return PackagedFiles(
        sightings,
        lambda paths: {
            path for path in paths if any(one.is_packaged_unchanged(path) for one in own)
        },
    )


def _sighting(system: PackagedSystem, one: PackageFinding) -> Sighting:
    said = " -> ".join(filter(None, (one.expected, one.found)))
    where = f"in {system.root.kind} {system.name}" if system.root is not None else ""
    note = "; ".join(filter(None, (one.package, f"{one.kind} {said}".strip(), where)))
    return Sighting(system.place(one.path), one.inode, None, one.ctime, ["there"], note=note)


def _unchanged_of(workspace: Workspace, paths: Collection[bytes]) -> set[bytes]:
    try:
        return packaged_unchanged(workspace, paths)
    except NotFoundError:
        return set()


def _code(one: PackageFinding) -> str | None:
    if one.kind in _CONTENT:
        return DATA_CHANGED if _DATA.of_path(one.path) else CHANGED
    return _CODES.get(one.kind)
