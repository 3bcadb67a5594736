"""The JSON Schema of each kind of record, one file a kind."""

from __future__ import annotations

from importlib.resources import files

_END = ".json"


def schema_names() -> tuple[str, ...]:
    """The kinds of records that have a schema, as their field `record` has them."""
    names = (each.name for each in files(__package__).iterdir() if each.name.endswith(_END))
    return tuple(sorted(name.removesuffix(_END).replace("-", " ") for name in names))


def schema_text(name: str) -> str:
    """The schema of a kind of record, as it is stored."""
    return (files(__package__) / (name.replace(" ", "-") + _END)).read_text(encoding="utf-8")
