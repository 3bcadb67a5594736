"""Bursts: changes of many files of one folder at once, found from times and paths alone.

Files of one folder whose times are close together form a burst. Bursts in a folder are joined if
the folder itself is one of the files, as when a tree is deleted. They are also joined if none of
them has most of the files, but near the root only if they happened at the same moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ext4kit.units import NANOSECONDS

GAP = 10 * NANOSECONDS  # largest time between two files of a burst
MOMENT = 2 * NANOSECONDS  # time in which one command does its work
_MOST = 0.8  # a subfolder with more than this share of the files stays separate
_PACKAGE_LISTS = (
    b"/var/lib/dpkg/", b"/var/lib/rpm/", b"/usr/lib/sysimage/rpm/", b"/lib/apk/db/",
    b"/var/lib/pacman/",
)  # fmt: skip
_SYSTEM = (
    b"/usr/", b"/etc/", b"/lib/", b"/bin/", b"/sbin/", b"/opt/", b"/var/lib/", b"/boot/",
    b"/lib64/", b"/var/cache/",
)  # fmt: skip
_CACHES = (
    b"cache", b".cache", b"caches", b"cache2", b"__pycache__", b"thumbnails", b"tmp", b".tmp",
    b"gpucache", b"code cache", b"shadercache",
)  # fmt: skip
_EDITORS = (b"~", b".swp", b".swo", b".swx", b".swpx", b".tmp", b".bak", b".part")
_ROTATED = (b".gz", b".xz", b".zst", b".1", b".2", b".old", b".journal")


class BurstCause(StrEnum):
    """The usual cause of such a burst, judged by names alone."""

    TREE = "a whole folder"
    PACKAGE = "package management"
    LOGS = "log rotation"
    CACHE = "caches and temporary files"
    EDITOR = "files of an editor"


@dataclass(frozen=True, slots=True)
class BurstItem:
    """A file to group.

    Attributes:
        row: row of the file in the caller's table.
        time: ns since 1970.
        path: full path, None if unknown.
        is_directory: whether the file is a directory.
        owner: user id, None if unknown.
    """

    row: int
    time: int
    path: bytes | None
    is_directory: bool = False
    owner: int | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """Files of one folder, close together in time.

    Attributes:
        folder: folder that contains all of them; None if no path is known.
        first, last: earliest and latest time, ns.
        rows: rows of the files, in the order of time.
        owner: user id of most of the files, None if unknown.
        cause: usual cause of such a burst; None if not recognised.
    """

    folder: bytes | None
    first: int
    last: int
    rows: tuple[int, ...]
    owner: int | None
    cause: BurstCause | None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that belong together so far.

    Attributes:
        folder: folder that contains all of them; b"" for a single file.
        items: the files, in the order of time.
        is_whole: whether the folder itself is one of the files.
    """

    folder: bytes
    items: tuple[BurstItem, ...]
    is_whole: bool = False

    @classmethod
    def of(cls, folder: bytes, groups: Iterable[_Group], is_whole: bool) -> _Group:
        """Join several groups into one."""
        items = (item for group in groups for item in group.items)
        return cls(folder, tuple(sorted(items, key=lambda item: item.time)), is_whole)

    @property
    def first(self) -> int:
        return self.items[0].time

    @property
    def last(self) -> int:
        return self.items[-1].time


def find_bursts(items: Iterable[BurstItem]) -> list[Burst]:
    """Group files into bursts; routine bursts come after others, and larger ones come first.

    Each item is in one burst. Items without a path are grouped by time alone.
    """
    by_folder: defaultdict[bytes, list[_Group]] = defaultdict(list)
    nameless, directories = [], defaultdict[bytes, list[int]](list)
    for item in sorted(items, key=lambda one: one.time):
        if item.path is None:
            nameless.append(item)
            continue
        by_folder[item.path.rpartition(b"/")[0]].append(_Group(b"", (item,)))
        if item.is_directory:
            directories[item.path].append(item.time)
    done = _joined_upwards(by_folder, directories)
    done = _with_packages(done)
    found = [_burst(group) for group in done]
    found += [_burst(_Group(b"", some), None) for some in _by_time(nameless)]
    return sorted(found, key=_weight)


def _joined_upwards(
    by_folder: defaultdict[bytes, list[_Group]], directories: dict[bytes, list[int]]
) -> list[_Group]:
    """Join the files of each folder, then folders with their parent, deepest folders first."""
    done, depths = list[_Group](), defaultdict[int, set[bytes]](set)
    for folder in by_folder:
        depths[folder.count(b"/")].add(folder)
    for depth in range(max(depths, default=0), -1, -1):
        above = depths[depth - 1]
        for folder in sorted(depths[depth]):
            groups = sorted(by_folder.pop(folder), key=lambda one: one.first)
            for cluster in _clusters(groups):
                found = list(_joined(folder, cluster, directories))
                if not folder:
                    done += found
                    continue
                by_folder[folder.rpartition(b"/")[0]] += found
                above.add(folder.rpartition(b"/")[0])
    return done


def _joined(
    folder: bytes, cluster: list[_Group], directories: dict[bytes, list[int]]
) -> Iterable[_Group]:
    """Groups in or below a folder that are close together in time, joined or kept separate."""
    end = max(group.last for group in cluster)
    if _is_within(directories.get(folder, ()), cluster[0].first, end):
        yield _Group.of(folder, cluster, True)
        return
    trees = {group.folder: group for group in cluster if group.folder}
    own = [group for group in cluster if not group.folder]
    for group in own:  # the entry of a folder belongs to the tree of the folder
        path = group.items[0].path or b""
        if path in trees and trees[path].is_whole:
            trees[path] = _Group.of(path, (trees[path], group), True)
    own = [one for one in own if one.items[0].path not in trees or not
           trees[one.items[0].path or b""].is_whole]  # fmt: skip
    parts = [*trees.values(), *([_Group.of(folder, own, False)] if own else ())]
    largest, total = (of(len(part.items) for part in parts) for of in (max, sum))
    top = 1 if all(part.is_whole or part.folder == folder for part in parts) else 2
    is_near = end - cluster[0].first <= MOMENT and bool(folder)
    is_near |= folder.count(b"/") > top
    if len(parts) > 1 and is_near and largest < _MOST * total:
        yield _Group.of(folder, parts, False)
    else:
        yield from parts


def _is_within(times: Iterable[int], first: int, last: int) -> bool:
    return any(first - GAP <= time <= last + GAP for time in times)


def _clusters(groups: list[_Group]) -> Iterable[list[_Group]]:
    """Lists of groups that are close together in time; the groups are sorted by their start."""
    some: list[_Group] = []
    end = 0
    for group in groups:
        if some and group.first > end + GAP:
            yield some
            some = []
        end = max(end, group.last) if some else group.last
        some.append(group)
    if some:
        yield some


def _by_time(items: Sequence[BurstItem]) -> Iterable[tuple[BurstItem, ...]]:
    start = 0
    for at in range(1, len(items) + 1):
        if at == len(items) or items[at].time > items[at - 1].time + GAP:
            yield tuple(items[start:at])
            start = at


def _with_packages(groups: list[_Group]) -> list[_Group]:
    """Join the groups of a package manager: those in system folders at the time of its lists."""
    lists = [one for one in groups if any(_is_below(one, place) for place in _PACKAGE_LISTS)]
    if not lists:
        return groups
    starts = sorted((one.first - 6 * GAP, one.last + 6 * GAP) for one in lists)
    spans: list[tuple[int, int]] = []
    for first, last in starts:
        if spans and first <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
        else:
            spans.append((first, last))
    taken: defaultdict[int, list[BurstItem]] = defaultdict(list)
    left = []
    for group in groups:
        at = next((row for row, (first, last) in enumerate(spans)
                   if first <= group.first and group.last <= last), None)  # fmt: skip
        if at is not None and any(_is_below(group, place) for place in _SYSTEM):
            taken[at] += group.items
        else:
            left.append(group)
    packages = [_Group(b"/", tuple(sorted(items, key=lambda one: one.time)))
                for items in taken.values()]  # fmt: skip
    return left + packages


def _is_below(group: _Group, place: bytes) -> bool:
    return (group.folder + b"/").startswith(place)


def _burst(group: _Group, folder: bytes | None = b"") -> Burst:
    owners = Counter(item.owner for item in group.items if item.owner is not None)
    return Burst(
        folder=None if folder is None else group.folder or b"/",
        first=group.first,
        last=group.last,
        rows=tuple(item.row for item in group.items),
        owner=owners.most_common(1)[0][0] if owners else None,
        cause=None if folder is None else _cause(group),
    )


def _cause(group: _Group) -> BurstCause | None:
    paths = [item.path or b"" for item in group.items]
    if group.folder == b"/" and any(path.startswith(_PACKAGE_LISTS) for path in paths):
        return BurstCause.PACKAGE
    parts = group.folder.lower().split(b"/")
    if any(part in _CACHES for part in parts):
        return BurstCause.CACHE
    files = [item.path or b"" for item in group.items if not item.is_directory]
    if _is_below(group, b"/var/log/") and _share(files, _ROTATED) > 1 / 2:
        return BurstCause.LOGS
    if files and _share(files, _EDITORS) > 1 / 2:
        return BurstCause.EDITOR
    return BurstCause.TREE if group.is_whole else None


def _share(paths: list[bytes], ends: tuple[bytes, ...]) -> float:
    hits = sum(path.endswith(ends) or path.rpartition(b"/")[2].startswith(b".#") for path in paths)
    return hits / max(len(paths), 1)


def _weight(burst: Burst) -> tuple[bool, bool, int, int]:
    """Sort key: bursts with a known folder first, routine ones last, then by number and time."""
    is_churn = burst.cause in (BurstCause.CACHE, BurstCause.LOGS, BurstCause.EDITOR)
    return burst.folder is None, is_churn, -len(burst), -burst.last
