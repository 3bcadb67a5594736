"""Drives the browser by its keys, without a terminal, and reads what is on its screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from textual.pilot import Pilot

from ext4kit.browse.actions import BrowsedEvidence, FoundLine
from ext4kit.browse.app import Browser
from ext4kit.browse.commands import ShellCommands
from ext4kit.browse.screens import ListScreen
from ext4kit.browse.shell import BrowseOptions
from ext4kit.browse.tree import NOTE
from ext4kit.known.opening import open_list
from ext4kit.opening import open_image
from ext4kit.zones import UTC, times_in

Result = TypeVar("Result")
PATIENCE = 60.0  # seconds; a machine may be slow
NAMES = {"[": "left_square_bracket", "]": "right_square_bracket", "/": "slash",
         "?": "question_mark",
         ">": "greater_than_sign", "<": "less_than_sign", " ": "space", ".": "full_stop",
         "-": "minus", ":": "colon", "_": "underscore", ",": "comma", "*": "asterisk",
         "\\": "backslash", "+": "plus", "'": "apostrophe", "~": "tilde"}  # fmt: skip


@dataclass
class Driver:
    """A running browser."""

    app: Browser
    pilot: Pilot[int]

    async def press(self, *keys: str) -> None:
        """Press keys, each after the one before was handled."""
        for key in keys:
            await self.pilot.press(NAMES.get(key, key))

    async def enter(self, key: str, text: str) -> None:
        """Press a key that asks for a text, and give the text."""
        await self.press(key)
        answer = self.app.query_one("#answer")
        answer.value = text  # type: ignore[attr-defined]
        await self.press("enter")

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for a condition."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what}\n{self.screen}"
            await self.pilot.pause(0.01)
        await self.pilot.pause()

    async def found(self) -> None:
        """Wait until all that is found by itself is there: deleted files, events, versions."""
        await self.until(lambda: self.app.sources.has_deleted and not self.app.tasks)
        await self.settled()

    async def reset(self) -> None:
        """As after the start, but that all is found."""
        app = self.app
        while self.has_list:
            await self.press("escape")
        if app._submit is not None:
            await self.press("escape")
        await self.settled()
        app.marks.clear()
        app.set_filter("")
        await self.settled()
        await self.press("end")
        await self.settled()
        for branch in app.rows.top.opened.values():
            branch.opened.clear()
            branch.changed()
        app.message = app.last_command = ""
        app.commands_shown.clear()
        app.tree_pane.lines_changed()
        await self.press("g")
        await self.settled()

    async def settled(self) -> None:
        """Wait until nothing runs but what waits for a choice."""
        await asyncio.sleep(0.05)
        await self.until(lambda: not self.app.tasks and not self._running())

    def _running(self) -> bool:
        waits = 1 if self.has_list else 0
        return sum(worker.is_running for worker in self.app.workers) > waits

    @property
    def has_list(self) -> bool:
        """Whether a list is open."""
        return isinstance(self.app.screen, ListScreen)

    async def list_opened(self) -> list[str]:
        """The lines of the list that is opened next."""
        await self.until(lambda: self.has_list, "no list")
        screen = self.app.screen
        assert isinstance(screen, ListScreen)
        return [one.text for one in screen.found]

    async def go(self, found: FoundLine) -> None:
        """Go to a file."""
        self.app.run_worker(self.app.jump(found))
        await self.settled()

    async def open_all(self) -> None:
        """Open all directories below the first root, without the keys."""
        line = 0
        while (row := self.app.rows.row(line)) is not None:
            root = row.root
            if root is not None and root.key != "/":
                break
            if row.is_directory and not row.is_open:
                await self.app._open(row)
            line += 1

    def paths(self) -> dict[str, str]:
        """The letter of each file of the first tree that is open, by path."""
        found = {}
        for line in range(len(self.app.rows)):
            row = self.app.rows.row(line)
            assert row is not None
            node = row.node
            if row.at == NOTE or row.branch.parent is None or node is None:
                continue
            if row.branch.root is not None and row.branch.root.key == "/":
                text = "".join(part for part, _ in self.app.tree_pane.parts(line))
                found[node.path.decode("utf-8", "replace")] = text[1]
        return found

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    @property
    def screen(self) -> str:
        """All that is on the screen."""
        return "\n".join(self.lines)

    @property
    def details(self) -> list[str]:
        """The lines of the lower pane on the right."""
        pane = self.app.details_pane
        each = (pane.parts(line) for line in range(pane.line_count()))
        return ["".join(text for text, _ in parts) for parts in each]

    @property
    def command(self) -> str:
        """The command that is shown for the last action."""
        return self.app.last_command


@asynccontextmanager
async def browsing(
    image: Path,
    size: tuple[int, int] = (80, 24),
    case: Path | None = None,
    known: tuple[Path, ...] = (),
) -> AsyncIterator[Driver]:
    """The browser of an image, with its first tree."""
    with times_in(UTC), open_image(image) as opened:
        volume = opened.volume()
        locator = opened.locator_of(volume)
        evidence = opened.evidence
        facts = BrowsedEvidence(evidence, evidence.files, volume.facts.index, str(locator))
        options = BrowseOptions(
            lambda: opened.filesystem(locator),
            ShellCommands(str(image)),
            facts,
            volume.facts,
            lambda _out: None,
            [open_list(path) for path in known],
            [str(path) for path in known],
            case,
        )
        app = Browser(options)
        try:
            async with app.run_test(size=size) as pilot:
                driver = Driver(app, pilot)
                await driver.until(app.is_first_tree_there.is_set, "no tree")
                yield driver
        finally:
            app.sources.close()


def run(flow: Coroutine[Any, Any, None]) -> None:
    """Run a flow to its end."""
    asyncio.run(flow)


class Kept:
    """A browser that several tests use, one after the other.

    Args:
        image: the image.
        size: of the screen.
    """

    def __init__(self, image: Path, size: tuple[int, int]) -> None:
        self._loop, self._context = asyncio.new_event_loop(), copy_context()
        self._open = browsing(image, size)
        self.driver = self._run(self._open.__aenter__())
        self._run(self.driver.found())

    def _run(self, flow: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(self._loop.create_task(flow, context=self._context))

    def run(self, flow: Callable[[Driver], Coroutine[Any, Any, None]]) -> None:
        """Run a flow."""
        self._run(self.driver.reset())
        self._run(flow(self.driver))

    def close(self) -> None:
        """Leave the browser."""
        self._run(self._open.__aexit__(None, None, None))
        self._loop.close()
