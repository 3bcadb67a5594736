"""Manual pages in the man(7) macros and pages of the documentation, from templates."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader

from ext4kit.fields import Record

_MARKS = "\\<*_["  # escaped in Markdown


def render(name: str, **values: object) -> str:
    """A page from the template with a name; the page ends with exactly one line end."""
    templates = Environment(
        loader=PackageLoader("ext4kit.cli.manual", "template"),
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 -- not HTML
    )
    templates.filters |= {"roff": _roff, "lowered": _lowered, "plain": _plain, "type": _type}
    return templates.get_template(name).render(**values).rstrip("\n") + "\n"


def _roff(line: str) -> str:
    """A line with escaped backslashes, hyphens and leading dots."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


def _lowered(text: str) -> str:
    """A sentence with a lower-case start, for use within a line; acronyms such as MD5 are kept."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _plain(text: str) -> str:
    """Markdown text with angle brackets, backslashes, stars and underscores escaped."""
    return "".join(f"\\{char}" if char in _MARKS else char for char in text)


def _type(schema: Record) -> str:
    """The type in a JSON Schema as text, with list items and enumeration values spelled out."""
    words = schema.get("enum")
    if isinstance(words, list):
        return ", ".join("null" if word is None else f"`{word}`" for word in words)
    types = schema.get("type", [])
    names = types if isinstance(types, list) else [types]
    items = schema.get("items")
    array = f"list of ({_type(items)})" if isinstance(items, dict) and items else "list"
    return " or ".join(array if name == "array" else str(name) for name in names)
