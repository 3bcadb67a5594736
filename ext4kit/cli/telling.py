"""Messages on stderr: on a terminal wrapped at words, elsewhere one line each."""

from __future__ import annotations

import os
import sys
import textwrap

import click

_INDENT = "  "  # of the further lines of a message


def tell_line(text: str) -> None:
    """Write a message of one or more lines to stderr; a long word is never broken."""
    lines = text.split("\n")
    if sys.stderr.isatty():
        lines = [part for line in lines for part in _wrapped(line)]
    click.echo("\n".join(lines), err=True)


def _wrapped(line: str) -> list[str]:
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size(2).columns)
    except (OSError, ValueError):
        return [line]
    return textwrap.wrap(
        line,
        max(width, len(_INDENT) + 1),
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [line]
