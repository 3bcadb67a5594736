"""Which tests run: a part of all, a fair part of the slow ones; which share a process."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

# Modules with an image for each parameter, whose tests it would be long to run one after the other.
BY_PARAMETER = {
    "tests/filesystem/test_info_oracle.py",
    "tests/filesystem/test_reading_matrix.py",
    "tests/recovery/forgotten/test_forgotten.py",
    "tests/lost/test_remade.py",
    "tests/recovery/test_nist.py",
    "tests/recovery/test_undelete.py",
    "tests/verify/test_healthy.py",
}


SPREAD = BY_PARAMETER | {"tests/fuzz/test_slice.py"}  # of the others no part is chosen


def group(nodeid: str) -> str:
    """What stays in one process: a module, or one parameter of it."""
    module = _module(nodeid)
    return f"{module}[{_parameter(nodeid)}]" if module in SPREAD else module


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands each group of tests to one of the run's processes."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def in_part(items: Iterable[pytest.Item], part: str) -> list[pytest.Item]:
    """The items of a part, "2/3" for the second of three; a group stays whole."""
    return [item for item in items if _is_in_part(group(item.nodeid), part)]


def is_elsewhere(module: str, part: str) -> bool:
    """Whether all items of a module are in other parts, so that it need not be imported."""
    return module not in SPREAD and not _is_in_part(module, part)


def _is_in_part(one: str, part: str) -> bool:
    """Whether a group is in a part."""
    number, parts = map(int, part.split("/"))
    if not 1 <= number <= parts:
        raise pytest.UsageError(f"--part {part}: the first number is from 1 to the second")
    return zlib.crc32(one.encode()) % parts == number - 1


def left_for_later(items: Iterable[pytest.Item], seed: int, mark: str) -> list[pytest.Item]:
    """The marked items that this seed does not choose.

    It takes one parameter of each test, the same for the tests of one module, and one of all the
    tests that have none.
    """
    marked = [item for item in items if item.get_closest_marker(mark)]
    return _not_chosen(marked, lambda one: _rank(one, seed), lambda _: 1)


def heavy_for_later(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """Five sixths of the parameters of each heavy test, and of the modules with many images.

    They are the same for all modules, which share many of the images. Of the heavy tests without
    parameters, five sixths too.
    """
    heavy = [
        item
        for item in items
        if item.get_closest_marker("heavy")
        or (_module(item.nodeid) in BY_PARAMETER and _parameter(item.nodeid))
    ]

    def rank(item: pytest.Item) -> int:
        chosen_by = _parameter(item.nodeid) or item.nodeid
        return zlib.crc32(f"{seed} {chosen_by}".encode())

    return _not_chosen(heavy, rank, lambda count: -(-count // 6))


def _not_chosen(
    items: Iterable[pytest.Item],
    rank: Callable[[pytest.Item], int],
    share: Callable[[int], int],
) -> list[pytest.Item]:
    """Of each test's parameters, and of the tests without, those behind the first `share`."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, bracket, _ = item.nodeid.partition("[")
        tests.setdefault(name if bracket else "", []).append(item)
    return [
        item
        for of_test in tests.values()
        for item in sorted(of_test, key=rank)[share(len(of_test)) :]
    ]


def _rank(item: pytest.Item, seed: int) -> int:
    module, _, test = item.nodeid.partition("::")
    return zlib.crc32(f"{seed} {module} {_parameter(item.nodeid) or test}".encode())


def _module(nodeid: str) -> str:
    return nodeid.split("::")[0]


def _parameter(nodeid: str) -> str:
    return nodeid.partition("[")[2].rstrip("]")
