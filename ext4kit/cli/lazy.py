"""Groups of commands whose modules are imported only when one of them is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group that knows only the names and summaries of its commands.

    Attributes:
        package: the package whose modules have the names of the commands and define `command`.
        summaries: name and summary of each command, in the order of a typical examination.
    """

    package: ClassVar[str]
    summaries: ClassVar[Mapping[str, str]]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order of a typical examination."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and return the command."""
        if cmd_name not in self.summaries:
            return None
        module = import_module(f"{self.package}.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The called command; the error for an unknown command suggests a similar one.

        Raises:
            click.UsageError: there is no such command.
        """
        word = args[0]
        if word not in self.summaries:
            from difflib import get_close_matches

            near = get_close_matches(word, self.summaries, 1)
            text = f"no command {word!r}"
            if near:
                text += f"; did you mean `{ctx.command_path} {near[0]}`?"
            elif Path(word).exists():
                text = f"{word!r} is a file, not a command; try `{ctx.command_path}"
                text += f" {next(iter(self.summaries))} {word}`"
            ctx.fail(text)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions for a shell: the commands with a prefix, without importing any of them."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for `--help`, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))
