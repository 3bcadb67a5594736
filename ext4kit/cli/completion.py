"""`ext4kit completion`."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "ext4kit"
_EXAMPLE = """\b
Examples:
  ext4kit completion bash > ~/.local/share/bash-completion/completions/ext4kit
  ext4kit completion zsh > ~/.zfunc/_ext4kit
  ext4kit completion fish > ~/.config/fish/completions/ext4kit.fish
"""


@click.command("completion", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands, options and paths.

    For zsh, the folder must be in fpath before compinit runs.
    """
    click.echo(script(ctx.find_root().command, shell))


def script(program: click.Command, shell: str) -> str:
    """The script for a shell that completes the commands of a program."""
    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(program, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE")
    return ShellComplete.source(complete)  # click's method would start bash to get its version
