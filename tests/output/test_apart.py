"""What a process of its own makes arrives as if it had been made here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from ext4kit.errors import CorruptError, OutputError
from ext4kit.output import UnwritableError, apart

COUNT = 1000


@pytest.fixture
def heeding() -> Iterator[None]:
    """Interrupts as a program has them; test runners may ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _numbers(count: int, failure: BaseException | None = None) -> Iterator[tuple[int, int]]:
    """(number, process that made it); then the failure."""
    for number in range(count):
        yield number, os.getpid()
    if failure is not None:
        raise failure


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, COUNT])
def test_all_items_come_in_order_from_another_process(count: int) -> None:
    found = list(apart(_numbers(count)))
    assert [number for number, _ in found] == list(range(count))
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.parametrize("failure", [UnwritableError("no"), OutputError("full"), ValueError("x")])
def test_what_is_raised_comes_behind_the_items_before_it(failure: Exception) -> None:
    found: list[int] = []
    with pytest.raises(type(failure), match=str(failure)):
        for number, _ in apart(_numbers(70, failure)):
            found.append(number)  # noqa: PERF401 -- what came before is looked at
    assert found == list(range(70))


def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    with pytest.raises(OutputError, match="CorruptError: inode: broken"):
        list(apart(_numbers(3, CorruptError("inode", None, "broken"))))


def test_a_process_that_is_gone_is_an_error() -> None:
    def dying() -> Iterator[int]:
        yield from range(40)
        os.kill(os.getpid(), signal.SIGKILL)

    found: list[int] = []
    with pytest.raises(OutputError, match="has ended"):
        for number in apart(dying()):
            found.append(number)
    assert found == list(range(32))


@pytest.mark.usefixtures("heeding")
@pytest.mark.parametrize("whole_group", [False, True])
def test_an_interrupt_comes_behind_what_was_made(whole_group: bool) -> None:
    def slow() -> Iterator[int]:
        for number in range(COUNT):
            yield number
            time.sleep(0.01)

    found: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        for number in apart(slow()):
            found.append(number)
            if number == 20:
                _interrupt(whole_group)
    assert found == list(range(len(found)))
    assert 20 < len(found) < COUNT


def _interrupt(whole_group: bool) -> None:
    """As `kill -INT` does, or as a terminal does to all processes that belong together."""
    os.kill(os.getpid(), signal.SIGINT)
    if whole_group:
        me = os.getpid()
        for child in _children(me):
            os.kill(child, signal.SIGINT)


def _children(process: int) -> list[int]:
    path = f"/proc/{process}/task/{process}/children"
    with open(path, encoding="ascii") as stream:  # noqa: PTH123
        return [int(number) for number in stream.read().split()]


def test_closing_it_early_ends_the_process() -> None:
    with closing(apart(_numbers(10_000_000))) as items:
        assert next(items)[0] == 0
    assert not _children(os.getpid())
