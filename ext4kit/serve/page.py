"""The listing of a directory for browsers: no script, names escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from urllib.parse import quote

from ext4kit.serve.nodes import ServedNode, moment

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>td,th{{padding:0 1em 0 0;text-align:left;white-space:pre}}td:nth-child(2){{text-align:right}}
</style></head><body><h1>{title}</h1>
<table><tr><th>name</th><th>size</th><th>modified</th><th>grade</th></tr>
"""
_ROW = (
    '<tr><td><a href="{href}">{name}</a></td><td>{size}</td><td>{time}</td><td>{grade}</td></tr>\n'
)


def page_of(folder: ServedNode) -> Iterator[bytes]:
    """The listing of a directory, in pieces."""
    members = folder.members()
    yield _HEAD.format(title=escape(folder.name or "/")).encode()
    if folder.path != b"/":
        above = quote(folder.path.rpartition(b"/")[0] + b"/")
        yield _ROW.format(href=above, name="..", size="", time="", grade="").encode()
    yield from map(_row, members)
    yield b"</table></body></html>\n"


def _row(node: ServedNode) -> bytes:
    name = node.name + "/" if node.is_folder else node.name
    when = "" if node.modified is None else f"{moment(node.modified):%Y-%m-%d %H:%M:%SZ}"
    size = "" if node.size is None else f"{node.size:,}"
    grade = node.facts().get("grade", "") if node.stats is not None else ""
    values = {"href": node.href, "name": name, "size": size, "time": when, "grade": grade}
    return _ROW.format_map({key: escape(value) for key, value in values.items()}).encode()
