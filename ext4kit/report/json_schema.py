"""The JSON Schema (draft 2020-12) of a kind of record, derived from the types of its records."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ext4kit.times import iso_field

Schema = dict[str, Any]
RecordType = type | dict[str, Any]  # a `TypedDict`, a dataclass, or the annotations by field

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null",
          object: ""}  # fmt: skip


def schema_of(kind: str, types: tuple[RecordType, ...], description: str = "") -> Schema:
    """The schema of a kind of record, from one type for each of its forms.

    The field `record` is added to a dataclass, which does not declare it. Without a description,
    the docstring of the only type is used.

    Raises:
        TypeError: a type has no counterpart in JSON.
    """
    head = {"$schema": _DRAFT, "$id": f"urn:ext4kit:schema:{kind.replace(' ', '-')}"}
    head |= {"title": kind, "description": description or _docstring(types[0])}
    name = {"record": Literal[kind]}
    forms = [_object((name if is_dataclass(each) else {}) | _hints(each)) for each in types]
    if len(types) == 1:
        return head | forms[0]
    titles = [{"title": _docstring(each).rstrip(".")} for each in types]
    return head | {"oneOf": [title | form for title, form in zip(titles, forms, strict=True)]}


def _docstring(kind: RecordType) -> str:
    """First paragraph of the docstring, on one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split("\n"))


def _hints(kind: RecordType) -> dict[str, Any]:
    """The annotation of each field; the type arguments of a generic type are filled in."""
    if isinstance(kind, dict):
        return kind
    plain = get_origin(kind) or kind
    given = dict(zip(getattr(plain, "__parameters__", ()), get_args(kind), strict=True))
    found = get_type_hints(plain, localns={}, include_extras=True)  # resolved in their module
    for name, hint in found.items():
        if needed := getattr(hint, "__parameters__", ()):
            found[name] = hint[tuple(given[each] for each in needed)]
        if name in getattr(plain, "__optional_keys__", ()) and get_origin(hint) is not NotRequired:
            found[name] = NotRequired[found[name]]
    return found


def _object(hints: Mapping[str, Any]) -> Schema:
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    bare = {name: get_args(hint)[0] if name in optional else hint for name, hint in hints.items()}
    properties: Schema = {}
    for name, hint in bare.items():
        properties[name] = _schema(hint)
        if beside := _iso_beside(name, properties[name]):
            properties |= beside
            optional |= beside.keys() if name in optional else set()
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _iso_beside(name: str, schema: Schema) -> Schema:
    """The field with the text of a time in nanoseconds (`times.with_iso`); {} for other fields."""
    kind, field = schema.get("type"), iso_field(name)
    if field is None or kind not in ("integer", "null", ["integer", "null"]):
        return {}
    types = {"integer": "string", "null": "null"}
    text = [types[each] for each in kind] if isinstance(kind, list) else types[str(kind)]
    return {field: {"type": text, "description": f"`{name}` in ISO 8601."}}


def _schema(hint: Any) -> Schema:
    """The schema of one annotation."""
    hint = getattr(hint, "__supertype__", hint)
    origin = get_origin(hint)
    if origin in _GENERIC:
        return _GENERIC[origin](get_args(hint))
    if is_typeddict(origin or hint) or is_dataclass(hint):
        return _object(_hints(hint))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _words([each.value for each in hint])
    if hint not in _TYPES:
        raise TypeError(f"{hint} has no counterpart in JSON")
    return {"type": _TYPES[hint]} if _TYPES[hint] else {}


def _words(words: list[str]) -> Schema:
    return {"type": "string", "enum": words} if len(words) > 1 else {"const": words[0]}


def _annotated(args: tuple[Any, ...]) -> Schema:
    schema = _schema(args[0])
    for each in args[1:]:
        schema |= {"description": each} if isinstance(each, str) else dict([each])
    return schema


def _union(args: tuple[Any, ...]) -> Schema:
    """All alternatives merged into one schema; each keyword applies only to values of its type."""
    types: list[str] = []
    schema: Schema = {}
    for each in map(_schema, args):
        types.append(each.pop("type", ""))
        if common := schema.keys() & each.keys():
            raise TypeError(f"{args}: {common} cannot mean both")
        schema |= each
    if "enum" in schema and "null" in types:
        schema["enum"] = [*schema["enum"], None]
    if "" in types or ("enum" in schema and not set(types) <= {"string", "null"}):
        raise TypeError(f"{args}: some of them are not told apart by a type")
    return {"type": types} | schema


def _list(args: tuple[Any, ...]) -> Schema:
    items = _schema(args[0])
    return {"type": "array"} | ({"items": items} if items else {})


def _tuple(args: tuple[Any, ...]) -> Schema:
    """An array of any length (`tuple[int, ...]`), or of a fixed length with items of one type."""
    if args[-1] is Ellipsis:
        return _list(args)
    if len(set(args)) > 1:
        raise TypeError(f"{args}: items of several types")
    return _list(args) | {"minItems": len(args), "maxItems": len(args)}


def _dict(args: tuple[Any, ...]) -> Schema:
    """An object; if its keys are an enumeration, all of them are required."""
    if args[0] is not str:
        return _object(dict.fromkeys(_schema(args[0])["enum"], args[1]))
    each = _schema(args[1])
    return {"type": "object"} | ({"additionalProperties": each} if each else {})


_GENERIC = {
    Annotated: _annotated,
    Union: _union,
    UnionType: _union,
    Literal: lambda args: _words(list(args)),
    list: _list,
    tuple: _tuple,
    dict: _dict,
    Mapping: _dict,
}
