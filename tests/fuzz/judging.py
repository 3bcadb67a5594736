"""What a command printed and wrote on a damaged image, held against what it promises.

Records are as their schemas say, names cannot steer a terminal, and what is handed to other
tools can be read by them.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.schemas.outputs import complaint

# C0 but the line's end, C1, and what turns, hides or breaks text: no part of any output of ours.
_UNSAFE = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_EACH = 5  # records of a kind that are held against the schema, then
_EVERY = 50  # one of so many
_BODY_FIELDS = 11
_AT_ONCE = 1 << 20


def complaint_about(words: list[str], printed: Path, said: str, out: Path) -> str:
    """The first thing that is wrong with what a command printed, said and wrote, or ""."""
    if found := _UNSAFE.search(said):
        return f"standard error has {found[0]!r}"
    checks = (_printed(words, printed), _written(words, out))
    return next((text for check in checks for text in check if text), "")


def _printed(words: list[str], printed: Path) -> Iterator[str]:
    if "-" in words or words[0] == "cat":  # the output itself went there, or a file's bytes
        return
    if "--files" in words and "--json" not in words:  # names for `sha256sum -c`
        return
    if "--json" in words:
        yield from _records(printed)
    else:
        tabs = "\t" if words[0] == "info" else ""  # its own, as dumpe2fs has them
        with printed.open(encoding="utf-8", newline="") as stream:
            while text := stream.read(_AT_ONCE):
                found = _UNSAFE.search(text.replace(tabs, " ") if tabs else text)
                yield f"standard output has {found[0]!r}" if found else ""


def _records(path: Path) -> Iterator[str]:
    """What a schema does not allow, of the first records of each kind and some of the rest."""
    seen: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            record = json.loads(line)
            kind = record["record"]
            seen[kind] += 1
            if seen[kind] <= _EACH or not seen[kind] % _EVERY:
                yield complaint(kind, record)


def _written(words: list[str], out: Path) -> Iterator[str]:
    """Complaints about the output file or folder, where there is a finished one."""
    if out.is_dir() and (out / "manifest.jsonl").exists():
        yield from _manifest(out)
        case = json.loads((out / "case.json").read_text(encoding="utf-8"))
        yield complaint("case", case)
    elif out.is_file() and words[0] == "export":
        name = next(word for word in words if word.removeprefix("--") in _FORMATS)
        yield from _FORMATS[name.removeprefix("--")](out)
    elif out.is_file() and words[0] == "report":
        yield from _page(out)


def _manifest(out: Path) -> Iterator[str]:
    with (out / "manifest.jsonl").open(encoding="utf-8") as lines:
        for row, line in enumerate(lines):
            record = json.loads(line)
            yield complaint("manifest", record) if row < _EACH or not row % _EVERY else ""


def _page(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    found = re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text)
    yield f"the page has {found[0]!r}" if found else ""
    is_whole = text.rstrip().endswith(("</html>", "}"))  # "}" of the layer for the Navigator
    yield "" if is_whole else "the page has no end"


def _database(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        for pragma in ("integrity_check", "foreign_key_check"):
            rows = database.execute(f"PRAGMA {pragma}").fetchall()
            yield "" if rows in ([], [("ok",)]) else f"{pragma}: {rows[:3]}"


def _xml(path: Path) -> Iterator[str]:
    yield "" if ElementTree.parse(path).getroot().tag.endswith("dfxml") else "no dfxml"


def _linked_data(path: Path) -> Iterator[str]:
    graph = json.loads(path.read_text(encoding="utf-8"))["@graph"]
    named = Counter(node["@id"] for node in graph)
    yield "" if set(named.values()) <= {1} else "an identifier stands twice"


def _lines_of_json(wanted: Iterable[str]) -> Callable[[Path], Iterator[str]]:
    def check(path: Path) -> Iterator[str]:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                record: dict[str, Any] = json.loads(line)
                missing = set(wanted) - set(record)
                yield f"a line without {missing}" if missing else ""

    return check


def _table(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream, strict=True)
        width = len(next(rows))
        for row in rows:
            yield "" if len(row) == width else f"a row of {len(row)} cells, not {width}"
            found = _UNSAFE.search("".join(row))
            yield f"a cell has {found[0]!r}" if found else ""


def _bodyfile(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            count = line.count("|") + 1
            yield "" if count == _BODY_FIELDS else f"a line of {count} fields"


_FORMATS: dict[str, Callable[[Path], Iterator[str]]] = {
    "db": _database,
    "dfxml": _xml,
    "case-uco": _linked_data,
    "csv": _table,
    "timesketch-csv": _table,
    "timesketch-jsonl": _lines_of_json(("message", "datetime", "timestamp_desc")),
    "jsonl": _records,
    "bodyfile": _bodyfile,
}
