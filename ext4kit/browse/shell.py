"""The screen, and work that waits for a reader."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from rich.cells import cell_len, set_cell_size
from textual import events, on
from textual.app import App
from textual.content import Content
from textual.widgets import Input, Static

from ext4kit.browse.actions import (
    BrowsedEvidence,
    CheckOutput,
    FoundLine,
)
from ext4kit.browse.background import Cancelled, ReaderThread, Task
from ext4kit.browse.commands import ShellCommands
from ext4kit.browse.screens import KEYS, ListScreen
from ext4kit.browse.sources import Sources
from ext4kit.errors import Ext4kitError
from ext4kit.evidence import Volume
from ext4kit.filesystem import FileSystem
from ext4kit.known.lists import KnownList
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable_text
from ext4kit.signals import INTERRUPTING
from ext4kit.workspace import Workspace

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")
SOON = 0.04  # seconds after the last key until something is read
TICK = 0.25  # seconds between two states of the progress
_NARROW = 56  # columns below which the tree has the screen for itself


@dataclass(frozen=True)
class BrowseOptions:
    """What is browsed, and where anything may be written.

    Attributes:
        open_fs: opens the file system once more.
        commands: commands for the image.
        facts: of the evidence.
        volume: the volume.
        check_output: refuses a folder that must not be written to.
        lists: lists of known files, and their paths.
        case: file of the bookmarks; None for none.
    """

    open_fs: Callable[[], FileSystem]
    commands: ShellCommands
    facts: BrowsedEvidence
    volume: Volume
    check_output: CheckOutput
    lists: Sequence[KnownList] = ()
    list_paths: Sequence[str] = ()
    case: Path | None = None


class ShellApp(App[int]):
    """The screen without its panes: state of the work, messages, prompts and lists.

    Args:
        options: what is browsed.

    Attributes:
        sources: the readers.
        tasks: what runs.
        signal: the signal that ended the program.
        last_command: what does the same as the last action.
        commands_shown: those of all actions, the last first.
        failures: errors of the program itself.
        found: title and lines of the last list.
    """

    def __init__(self, options: BrowseOptions) -> None:
        super().__init__()
        self.options = options
        self.sources = Sources(options.open_fs, options.lists)
        self.tasks: list[Task] = []
        self.message = ""
        self._put_last: dict[str, str] = {}
        self.signal: int | None = None
        self.found: tuple[str, Sequence[FoundLine]] = ("", ())
        self.last_command = ""
        self.failures: list[Exception] = []
        self._line = self._hint = ""
        self.commands_shown: list[str] = []
        self._submit: Callable[[str], None] | None = None
        self._typed: Callable[[str], None] | None = None

    def head_text(self) -> str:
        """What the first line says."""
        return printable_text(Path(self.options.commands.image).name)

    async def jump(self, found: FoundLine) -> None:
        """Go to the file of a result."""

    def go_back(self) -> None:
        """Go to the pane that has the keys when there is no prompt."""

    def prompt_ended(self, submit: Callable[[str], None], text: str) -> None:
        """Give a text to the one who asked."""
        if text.strip():
            submit(text)

    def on_resize(self, event: events.Resize) -> None:
        """On a narrow screen the tree is alone."""
        self.screen.set_class(event.size.width < _NARROW, "narrow")
        self._tell()

    def _heed_signals(self) -> None:
        """End in order when a signal comes, so that the terminal is as before."""
        loop = asyncio.get_running_loop()
        for number in INTERRUPTING:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    loop.add_signal_handler(number, self._interrupted, number)

    def _interrupted(self, number: int) -> None:
        self.signal = number
        self.exit(0)

    def _tell(self) -> None:
        """Show the state of everything: moment, filter, marks, tasks."""
        if not self.is_running or not self.screen_stack:
            return
        parts = [self.message] if self.message else []
        parts += [task.text for task in self.tasks]
        self._put("head", f" {self.head_text()}")
        width = self.size.width - 1
        text, hint = "  ".join(parts), "? for keys"
        text = cut_words(text, max(width - len(hint) - 2, 0))
        self._put("status", text + " " * (width - cell_len(text) - len(hint)) + hint)
        self._put("command", cut_words(self._line, width) if self._line else "")

    def _put(self, name: str, text: str) -> None:
        """Show a line, if it is another one than before."""
        if self._put_last.get(name) != text:
            self._put_last[name] = text
            self.screen_stack[0].query_one(f"#{name}", Static).update(Content(text))

    def say(self, text: str) -> None:
        """Show a message until the next one."""
        self.message = printable_text(text)
        self._tell()

    def show_command(self, line: str) -> None:
        """Show the command that does the same as an action; the list of commands has it first."""
        self.last_command = line
        self.commands_shown = [line, *(one for one in self.commands_shown if one != line)]
        self.show_line(line)

    def show_line(self, line: str) -> None:
        """Show a command."""
        self._line = f"$ {line}"
        self._tell()

    def _start(
        self, group: str, work: Callable[_Given, Coroutine[Any, Any, None]],
        *given: _Given.args, **named: _Given.kwargs,
    ) -> None:  # fmt: skip
        """Do something that waits for a reader; a later one of a group takes its place."""

        async def call() -> None:
            await self._guarded(lambda: work(*given, **named))

        self._begin(call, group, is_only=True)

    def _begin(
        self, call: Callable[[], Coroutine[Any, Any, None]], group: str, is_only: bool
    ) -> None:
        """Begin work; the function is called only if it is not cancelled before."""
        work: Any = call  # of the kinds of work of `run_worker`, mypy finds none
        self.run_worker(work, group=group, exclusive=is_only, exit_on_error=False)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The one boundary at which errors become messages: no image ends the program."""
        try:
            await work()
        except Ext4kitError as error:
            self.say(str(error))
        except Cancelled:
            self.say("cancelled")
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- the boundary
            self.note_failure(error)
            self.say(f"failed: {type(error).__name__}: {error}")

    def note_failure(self, error: Exception) -> None:
        """Keep an error of the program itself, for those who test it."""
        self.failures.append(error)
        if os.environ.get("EXT4KIT_DEBUG"):
            raise error

    async def _ask(
        self, reader: ReaderThread, work: Callable[[Workspace], _Result], task: Task | None = None
    ) -> _Result:
        if task is not None:
            self.tasks.append(task)
        try:
            return await asyncio.wrap_future(reader.ask(work, task))
        finally:
            if task is not None:
                self.tasks.remove(task)
            self._tell()

    def _prompt(
        self,
        question: str,
        submit: Callable[[str], None],
        typed: Callable[[str], None] | None = None,
        text: str = "",
        hint: str = "",
    ) -> None:
        """Ask for a line of text; the hint is in the line of messages meanwhile."""
        self._hint = hint
        if hint:
            self.say(hint)
        self._submit, self._typed = submit, None
        self.query_one("#question", Static).update(Content(question))
        answer = self.query_one("#answer", Input)
        answer.value = text
        answer.cursor_position = len(text)
        self.query_one("#prompt").display = True
        self.screen.set_focus(answer)  # at once: the next key is part of the answer
        self._typed = typed

    def _close_prompt(self) -> None:
        if self.message == self._hint:
            self.message = ""
            self._tell()
        self._hint = ""
        self._submit = self._typed = None
        self.query_one("#prompt").display = False
        self.go_back()

    @on(Input.Submitted, "#answer")
    def submitted(self, message: Input.Submitted) -> None:
        """Give the text to the one who asked."""
        submit, text = self._submit, message.value
        self._close_prompt()
        if submit is not None:
            self.prompt_ended(submit, text)

    @on(Input.Changed, "#answer")
    def typing(self, message: Input.Changed) -> None:
        """Follow what is typed."""
        if self._typed is not None and message.value:
            self._typed(message.value)

    async def _offer(self, title: str, found: Sequence[FoundLine]) -> None:
        """Show a list, now or with L, and go to what is chosen."""
        self.found = title, found
        count = sum(not one.is_heading for one in found)
        if len(self.screen_stack) > 1 or self._submit is not None:
            self.say(f"{count_text(count, 'line')}: {title}; L shows them")
            return
        self.say(f"{count_text(count, 'line')}: {title}")
        chosen = await self._choose(title, found)
        if chosen is not None:
            await self.jump(chosen)

    async def _choose(self, title: str, found: Sequence[FoundLine]) -> FoundLine | None:
        return await self.push_screen_wait(ListScreen(title, found))

    def action_last_list(self) -> None:
        """Show the last list again."""
        title, found = self.found
        if title:
            self._start("list", self._offer, title, found)

    def action_cancel(self) -> None:
        """Leave the prompt; else cancel what runs, the last first."""
        if self._submit is not None:
            self._close_prompt()
        elif self.tasks:
            self.tasks[-1].cancel()
            self.say(f"cancelling: {self.tasks[-1].title}")
        else:
            self.message = ""
            self.go_back()

    def action_theme(self) -> None:
        """Change between light and dark."""
        is_dark = self.current_theme.dark
        self.theme = "textual-light" if is_dark else "textual-dark"

    def action_keys(self) -> None:
        """Show the keys."""
        found = [FoundLine(f"{keys:<12} {text}") for keys, text in KEYS]
        self.push_screen(ListScreen("keys", found))


def cut_words(text: str, width: int) -> str:
    """A text that fits: cut between words, with a mark at the cut.

    Args:
        text: the text.
        width: number of cells.
    """
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    start = set_cell_size(text, width - 1)
    kept = start.rpartition(" ")[0].rstrip()
    return f"{kept} …" if kept not in ("", "$") else f"{start.rstrip()}…"
