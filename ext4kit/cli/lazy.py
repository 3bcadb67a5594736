"""Groups of commands whose code is imported when one of them is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group that knows its commands by name and summary only.

    Args:
        package: the package in which each command is the `command` of the module of its name.
        summaries: name and summary of each command, in the order in which one needs them.
    """

    def __init__(
        self, *args: Any, package: str = "", summaries: Mapping[str, str], **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.package = package
        self.summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order in which one needs them."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, its module imported now."""
        if cmd_name not in self.summaries:
            return None
        module = import_module(f"{self.package}.{cmd_name}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What a shell offers: the commands that begin so, without importing any."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list for `--help`, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))
