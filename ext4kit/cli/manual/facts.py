"""Facts about each command from click, collected once for all forms of the manual."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import click

VERBATIM = "\b"  # click's mark for a paragraph that keeps its line breaks


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines of text; verbatim ones keep their line breaks."""

    lines: tuple[str, ...]
    is_verbatim: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """One command.

    Attributes:
        words: the program and the command, as typed.
        usage: arguments after the words.
        summary: summary in one line.
        body: the description.
        options: (form, meaning).
        commands: (name, summary) of the subcommands of a group.
        examples: command lines.
    """

    words: tuple[str, ...]
    usage: tuple[str, ...]
    summary: str
    body: tuple[Paragraph, ...]
    options: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]

    @property
    def page(self) -> str:
        """Name of the manual page."""
        return "-".join(self.words)


def all_facts(program: click.Command, name: str) -> Iterator[Facts]:
    """The program itself, then every command and the subcommands of groups, in order."""
    yield from _facts(program, click.Context(program, info_name=name), (name,), "")


def _facts(
    command: click.Command, ctx: click.Context, words: tuple[str, ...], summary: str
) -> Iterator[Facts]:
    body = _paragraphs(command.help or "")
    below = _commands(command, ctx)
    yield Facts(
        words=words,
        usage=tuple(command.collect_usage_pieces(ctx)),
        summary=(summary or " ".join(body[0].lines)).rstrip("."),
        body=body,
        options=_options(command, ctx),
        commands=tuple((name, text) for name, text, _ in below),
        examples=_examples(command.epilog or ""),
    )
    for name, text, each in below:
        inner = click.Context(each, info_name=name, parent=ctx)
        yield from _facts(each, inner, (*words, name), text)


def _commands(command: click.Command, ctx: click.Context) -> list[tuple[str, str, click.Command]]:
    if not isinstance(command, click.Group):
        return []
    summaries = getattr(command, "summaries", {})
    found = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
    return [(name, summaries.get(name, ""), each) for name, each in found if each is not None]


def _options(command: click.Command, ctx: click.Context) -> tuple[tuple[str, str], ...]:
    options = (each for each in command.get_params(ctx) if isinstance(each, click.Option))
    records = (each.get_help_record(ctx) for each in options)
    return tuple(record for record in records if record is not None)


def _paragraphs(text: str) -> tuple[Paragraph, ...]:
    blocks = [part.split("\n") for part in inspect.cleandoc(text).split("\n\n")]
    return tuple(
        Paragraph(tuple(lines[lines[0] == VERBATIM :]), lines[0] == VERBATIM)
        for lines in blocks
        if any(line.strip() for line in lines)
    )


def _examples(epilog: str) -> tuple[str, ...]:
    """The indented lines of the epilog."""
    return tuple(line.strip() for line in epilog.splitlines() if line.startswith("  "))
