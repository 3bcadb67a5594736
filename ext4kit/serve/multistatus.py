"""Answers to PROPFIND, some nodes at a time: a directory of any size takes little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

from ext4kit.serve.nodes import ON_DEMAND, ServedNode

KIND = "{DAV:}resourcetype"
_AT_ONCE = 64
_HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">'
_RESPONSE = "<D:response><D:href>{}</D:href>{}</D:response>"
_PROPSTAT = "<D:propstat><D:prop>{}</D:prop><D:status>HTTP/1.1 {}</D:status></D:propstat>"


class WantedProperties(NamedTuple):
    """What a client asks for.

    Attributes:
        names: the properties, as in `{DAV:}getetag`; None for all that read no content.
        has_values: whether their values are asked for too.
    """

    names: list[str] | None = None
    has_values: bool = True


def wanted_of(body: Element | None) -> WantedProperties:
    """What the body of a request asks for; without a body, all properties."""
    if body is None:
        return WantedProperties()
    named = [each.tag for each in body.findall("{DAV:}prop/*")]
    if named or body.find("{DAV:}prop") is not None:
        return WantedProperties(named)
    return WantedProperties(has_values=body.find("{DAV:}propname") is None)


def multistatus(nodes: Iterable[ServedNode], wanted: WantedProperties) -> Iterator[bytes]:
    """The properties of nodes as XML, in pieces."""
    yield _HEAD
    waiting = iter(nodes)
    while some := list(islice(waiting, _AT_ONCE)):
        yield "".join(_response(each, wanted) for each in some).encode()
    yield b"</D:multistatus>\n"


def _response(node: ServedNode, wanted: WantedProperties) -> str:
    found = {KIND: "<D:collection/>" if node.is_folder else ""}
    found |= {name: escape(value) for name, value in node.properties().items()}
    if wanted.names is None:
        if not wanted.has_values:
            found = dict.fromkeys([*found, *[ON_DEMAND] * (node.size is not None)], "")
        parts = _PROPSTAT.format(_elements(found), "200 OK")
        return _RESPONSE.format(node.href, parts)
    if ON_DEMAND in wanted.names and (digest := node.digest()) is not None:
        found[ON_DEMAND] = digest
    known = {name: found[name] for name in wanted.names if name in found}
    parts = _PROPSTAT.format(_elements(known), "200 OK")
    if missing := dict.fromkeys(name for name in wanted.names if name not in found):
        unknown = _elements(dict.fromkeys(missing, ""))
        parts += _PROPSTAT.format(unknown, "404 Not Found")
    return _RESPONSE.format(node.href, parts)


def _elements(values: dict[str, str]) -> str:
    return "".join(_element(*name.rpartition("}")[::2], value) for name, value in values.items())


def _element(space: str, name: str, value: str) -> str:
    """An element; the space is that of the name with its brace, or empty."""
    if space == "{DAV:":
        return f"<D:{name}>{value}</D:{name}>"
    return f"<{name} xmlns={quoteattr(space[1:])}>{value}</{name}>"
