"""The reference of all commands as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ext4kit.cli.manual.facts import Facts, Paragraph

_HEAD = """# Commands

Generated from `--help` of each command by `make reference`; the [guide](guide.md) has more
details. Exit codes: 0 done; 1 the result is incomplete or bad; 2 usage; 3 the evidence cannot be
read.
"""


def reference(every: Iterable[Facts]) -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for facts in every:
        parts += _lines(facts)
    return "\n".join(parts).rstrip("\n") + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    yield f"{'#' * max(2, len(facts.words))} {' '.join(facts.words)}"
    yield ""
    yield f"```\n{' '.join((*facts.words, *facts.usage))}\n```"
    yield ""
    for paragraph in facts.body:
        yield from _paragraph(paragraph)
    yield from _table("command", facts.commands)
    yield from _table("option", facts.options)
    if facts.examples:
        yield "```sh"
        yield from facts.examples
        yield "```"
        yield ""


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    lines = paragraph.lines
    yield from ("```", *lines, "```") if paragraph.is_verbatim else map(_plain, lines)
    yield ""


def _table(heading: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    if not rows:
        return
    yield f"| {heading} | does |"
    yield "|---|---|"
    for term, text in rows:
        cell = _plain(" ".join(text.split())).replace("|", "\\|")
        yield f"| `{term}` | {cell} |"
    yield ""


def _plain(text: str) -> str:
    """Text with angle brackets, backslashes, stars and underscores escaped."""
    for mark in "\\<*_[":
        text = text.replace(mark, f"\\{mark}")
    return text
