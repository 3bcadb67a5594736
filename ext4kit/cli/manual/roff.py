"""Manual pages in the man(7) macros."""

from __future__ import annotations

from collections.abc import Iterator

from ext4kit.cli.manual.facts import Facts, Paragraph

_EXIT_CODES = (
    ("0", "Done."),
    ("1", "The result is incomplete or bad, or the output could not be written."),
    ("2", "Usage: an option, a target or a volume that does not exist, an output in use."),
    ("3", "The evidence cannot be opened, or is not ext2, ext3 or ext4."),
    ("130", "Interrupted."),
)
_VARIABLES = (
    ("NO_COLOR", "Disables colours when set and not empty."),
    ("TMPDIR", "Directory in which compressed images are unpacked, to an unnamed file."),
    ("EXT4KIT_DEBUG", "Shows the traceback of an internal error when set."),
)


def page(facts: Facts, others: list[str], version: str, day: str) -> str:
    """One manual page.

    Args:
        facts: of the command.
        others: names of related pages.
        version: of the program.
        day: release day of that version, as 2026-11-22.
    """
    title = f'.TH "{facts.page.upper()}" 1 "{day}" "ext4kit {version}" "ext4kit"'
    return "\n".join([title, *_lines(facts, others)]) + "\n"


def _lines(facts: Facts, others: list[str]) -> Iterator[str]:
    yield ".SH NAME"
    yield f"{_text(facts.page)} \\- {_text(_lowered(facts.summary))}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(' '.join(facts.words))}"
    yield _text(" ".join(facts.usage))
    yield ".SH DESCRIPTION"
    for place, paragraph in enumerate(facts.body):
        yield from _paragraph(paragraph, first=place == 0)
    yield from _list("COMMANDS", facts.commands)
    yield from _list("OPTIONS", facts.options)
    yield from _list("EXIT STATUS", _EXIT_CODES)
    yield from _list("ENVIRONMENT", _VARIABLES)
    if facts.examples:
        yield ".SH EXAMPLES"
        yield from _verbatim(facts.examples)
    if others:
        yield ".SH SEE ALSO"
        yield from (f".BR {_text(name)} (1)" + "," * (name != others[-1]) for name in others)


def _paragraph(paragraph: Paragraph, first: bool) -> Iterator[str]:
    if paragraph.is_verbatim:
        yield from (".PP",) * (not first)
        yield from _verbatim(paragraph.lines)
        return
    if not first:
        yield ".PP"
    yield from map(_text, paragraph.lines)


def _verbatim(lines: tuple[str, ...]) -> Iterator[str]:
    yield ".nf"
    yield from map(_text, lines)
    yield ".fi"


def _list(title: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    if not rows:
        return
    yield f".SH {title}"
    for term, text in rows:
        yield ".TP"
        yield f".B {_text(term)}"
        yield _text(" ".join(text.split()))


def _lowered(text: str) -> str:
    """A sentence with a lower-case start for use within a line; acronyms such as MD5 stay."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _text(line: str) -> str:
    """A line with escaped backslashes, hyphens and leading dots."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped
