"""The kinds of JSON records as a page of the documentation, from their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ext4kit.cli.schemas import schema_names, schema_text

_HEAD = """# Records

Generated from the JSON Schemas (draft 2020-12) by `make reference`; `ext4kit schema RECORD` prints
one. Each line of `--json` is one object whose field `record` is its kind. Sizes and offsets are
in bytes, times in integer nanoseconds since 1970 UTC unless the name says otherwise. No record has
a field that is not listed here; fields with a question mark are optional.
"""


def records_page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for name in schema_names():
        schema = json.loads(schema_text(name))
        parts += [f"## {name}", "", schema["description"], ""]
        for variant in schema.get("oneOf", [schema]):
            if variant is not schema:
                parts += [f"**{variant['title']}**", ""]
            parts += [*_table(variant), ""]
    return "\n".join(parts).rstrip("\n") + "\n"


def _table(schema: dict[str, Any]) -> Iterator[str]:
    yield "| field | type | means |"
    yield "|---|---|---|"
    required = set(schema["required"])
    for name, each in schema["properties"].items():
        if name != "record":
            mark = "" if name in required else "?"
            yield f"| `{name}`{mark} | {_type(each)} | {each.get('description', '')} |"


def _type(schema: dict[str, Any]) -> str:
    """The type as text: the items of a list, the values of an enumeration."""
    if "enum" in schema:
        return ", ".join("null" if word is None else f"`{word}`" for word in schema["enum"])
    types = schema.get("type", [])
    words = [types] if isinstance(types, str) else list(types)
    return " or ".join(_array(schema) if word == "array" else word for word in words)


def _array(schema: dict[str, Any]) -> str:
    items = schema.get("items")
    return f"list of ({_type(items)})" if items else "list"
