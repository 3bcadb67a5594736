"""Sightings of files that differ from what the packages of the system installed."""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ext4kit.errors import NotFoundError
from ext4kit.packages.checking import PackageCheck, check_some
from ext4kit.packages.database import package_places, read_packages
from ext4kit.packages.findings import (
    PackageComparison,
    PackageFinding,
    PackageFindingKind,
    packaged_unchanged,
)
from ext4kit.packages.systems import PackagedSystem, packaged_systems, system_of
from ext4kit.roots import LinuxRoot, find_roots
from ext4kit.roots.layers import paths_in_root
from ext4kit.timeline import EventKind
from ext4kit.triage.rules.patterns import PathPatterns
from ext4kit.triage.rules.rule import OF_RIGHTS, Rule, Trait
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

_BY_BYTES = frozenset(  # evidence for the content of a file that is there
    ("there", *map(str, (
        EventKind.CREATED, EventKind.LINKED, EventKind.RENAMED, EventKind.MOVED, EventKind.SIZE,
        EventKind.TRUNCATED, EventKind.CONTENT, EventKind.STATUS,
    )))
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PackagedFiles:
    """What the packages of a system, and of the Linux roots in it, tell of its files.

    Attributes:
        sightings: (code of the rule, sighting) of each file that differs, configuration files left
            out.
        unchanged: gives those of some paths at which a packaged file of the system or of a root is
            as it was installed.
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
        return PackagedFiles([], partial(_unchanged, workspace, None, None))
    sightings, own = list[tuple[str, Sighting]](), list[PackageCheck]()
    roots = find_roots(workspace)
    comparison = PackageComparison(workspace, is_quick=True)
    with suppress(NotFoundError):
        for system in packaged_systems(workspace.fs, roots):
            found = comparison.findings(system, progress=progress)
            coded = ((_code(one), one) for one in found.each)
            sightings += [(code, _sighting(system, one)) for code, one in coded if code is not None]
            own += [found.check] if system.root is None else []
    return PackagedFiles(sightings, partial(_unchanged, workspace, own, roots))


def shown_as_installed(rule: Rule) -> frozenset[str]:
    """Evidence that means nothing of a file that is as its package installed it.

    Whether a program may be setuid is compared with its package; other rights are not.
    """
    if not rule.is_of_rights:
        return _BY_BYTES
    rights = rule.needs & (OF_RIGHTS | {Trait.ATTRIBUTED})
    is_setuid = not rule.attributes and rights <= {Trait.SETUID, Trait.GAINED_SETUID}
    return _BY_BYTES | {str(EventKind.MODE)} if is_setuid else frozenset()


def _sighting(system: PackagedSystem, one: PackageFinding) -> Sighting:
    said = " -> ".join(filter(None, (one.expected, one.found)))
    where = f"in {system.root.kind} {system.name}" if system.root is not None else ""
    note = "; ".join(filter(None, (one.package, f"{one.kind} {said}".strip(), where)))
    return Sighting(system.place(one.path), one.inode, None, one.ctime, ["there"], note=note)


def _unchanged(
    workspace: Workspace,
    own: Collection[PackageCheck] | None,
    roots: Collection[LinuxRoot] | None,
    paths: Collection[bytes],
) -> set[bytes]:
    """Those of some paths at which a packaged file is as it was installed.

    Args:
        workspace: of the file system.
        own: comparisons of its own system; None if none was made.
        roots: its Linux roots; None if they were not looked for.
        paths: paths in the file system.
    """
    found = set[bytes]()
    if own is None:
        with suppress(NotFoundError):
            found |= packaged_unchanged(workspace, paths)
    else:
        found |= {path for path in paths if any(one.is_packaged_unchanged(path) for one in own)}
    left = set(paths) - found
    every = (find_roots(workspace) if roots is None else roots) if left else ()
    for root in every:
        if not root.is_own and left:
            installed = _unchanged_in(workspace, root, left)
            found |= installed
            left -= installed
    return found


def _unchanged_in(workspace: Workspace, root: LinuxRoot, paths: Collection[bytes]) -> set[bytes]:
    """The same for an inner root, of the files that the system in it sees."""
    in_root = paths_in_root(root, ())
    inner = {path: inside for path in paths if (inside := in_root(path)) is not None}
    try:
        system = system_of(workspace.fs, root) if inner else None
    except NotFoundError:
        return set()
    if system is None or not _is_of_root(system):
        return set()
    inner = {path: inside for path, inside in inner.items() if system.place(inside) == path}
    if not inner:
        return set()
    check = check_some(
        system.fs, system.node, read_packages(system.files), inner.values(), system.is_partial
    )
    return {path for path, inside in inner.items() if check.is_packaged_unchanged(inside)}


def _is_of_root(system: PackagedSystem) -> bool:
    """Whether a system has a database of packages that only the user 0 of the image can write.

    Whoever may write somewhere could otherwise put a database there that vouches for any file.
    """
    places = package_places(system.files)
    return bool(places) and not any(
        one is None or one.uid or one.mode & stat.S_IWOTH for one in places
    )


def _code(one: PackageFinding) -> str | None:
    if one.kind in _CONTENT:
        return DATA_CHANGED if _DATA.of_path(one.path) else CHANGED
    return _CODES.get(one.kind)
