"""Files are grouped by folder and time as a person would tell it."""

from __future__ import annotations

import random

from ext4kit.bursts import Burst, BurstCause, BurstItem, find_bursts
from ext4kit.units import NANOSECONDS

HOUR = 3600 * NANOSECONDS


def _found(*paths: tuple[str, float], directories: tuple[str, ...] = ()) -> list[Burst]:
    items = [
        BurstItem(row, int(seconds * NANOSECONDS), path.encode(), path in directories, 1000)
        for row, (path, seconds) in enumerate(paths)
    ]
    return find_bursts(items)


def _folders(found: list[Burst]) -> list[tuple[bytes | None, int]]:
    return [(burst.folder, len(burst)) for burst in found]


def test_a_removed_tree_is_one_burst() -> None:
    paths = [(f"/home/anna/Documents/{kind}/{n}.odt", 10.0) for kind in "abc" for n in range(20)]
    folders = ("/home/anna/Documents", *(f"/home/anna/Documents/{kind}" for kind in "abc"))
    found = _found(*paths, *((folder, 10.5) for folder in folders), directories=folders)
    assert _folders(found) == [(b"/home/anna/Documents", 64)]
    assert found[0].cause is BurstCause.TREE
    assert found[0].owner == 1000


def test_churn_beside_a_removed_tree_stands_apart() -> None:
    tree = [(f"/home/anna/Documents/{n}.odt", 10.0) for n in range(50)]
    cache = [(f"/home/anna/.cache/app/{n}", 10.0) for n in range(5)]
    found = _found(*tree, ("/home/anna/Documents", 10.0), *cache,
                   directories=("/home/anna/Documents",))  # fmt: skip
    assert _folders(found) == [(b"/home/anna/Documents", 51), (b"/home/anna/.cache/app", 5)]
    assert found[1].cause is BurstCause.CACHE


def test_what_lies_apart_in_time_is_no_burst() -> None:
    found = _found(*((f"/a/b/{n}", n * 3600.0) for n in range(5)))
    assert [len(burst) for burst in found] == [1] * 5


def test_package_management_is_one_burst_and_a_home_is_none_of_it() -> None:
    files = [(f"/usr/share/doc/foo/{n}", 20.0) for n in range(9)] + [("/usr/bin/foo", 21.0)]
    lists = [("/var/lib/dpkg/info/foo.list", 25.0), ("/var/lib/dpkg/info/foo.md5sums", 25.0)]
    home = [(f"/home/anna/Pictures/{n}.jpg", 22.0) for n in range(4)]
    found = _found(*files, *lists, *home)
    assert _folders(found) == [(b"/", 12), (b"/home/anna/Pictures", 4)]
    assert found[0].cause is BurstCause.PACKAGE


def test_rotated_logs_and_editors_are_named() -> None:
    logs = _found(*((f"/var/log/syslog.{n}.gz", 5.0) for n in range(2, 6)))
    assert [burst.cause for burst in logs] == [BurstCause.LOGS]
    editor = _found(*((f"/home/a/src/x{n}.c~", 5.0) for n in range(4)))
    assert [burst.cause for burst in editor] == [BurstCause.EDITOR]


def test_files_without_a_path_are_grouped_by_time() -> None:
    items = [BurstItem(row, (row // 3) * HOUR, None) for row in range(9)]
    found = find_bursts(items)
    assert sorted(_folders(found)) == [(None, 3)] * 3
    assert all(burst.cause is None for burst in found)


def test_each_item_is_in_one_burst_whose_folder_has_it() -> None:
    chance = random.Random(7)
    names = ["a", "b", "cache", "log", "..", "", "x" * 200, "é"]
    for _ in range(200):
        items = []
        for row in range(chance.randrange(60)):
            parts = [chance.choice(names) for _ in range(chance.randrange(1, 9))]
            path = None if chance.random() < 0.1 else ("/" + "/".join(parts)).encode()
            time = chance.choice((0, 5, 6, 100, 10_000)) * NANOSECONDS
            items.append(BurstItem(row, time, path, chance.random() < 0.3, chance.randrange(3)))
        found = find_bursts(items)
        assert sorted(row for burst in found for row in burst.rows) == list(range(len(items)))
        for burst in found:
            times = [items[row].time for row in burst.rows]
            assert (burst.first, burst.last) == (min(times), max(times))
            for row in burst.rows:
                path = items[row].path
                assert (path is None) == (burst.folder is None)
                above = (burst.folder or b"").rstrip(b"/")
                assert path is None or path == above or path.startswith(above + b"/")
