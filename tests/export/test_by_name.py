"""Exports take each value by its name: the order of fields and columns means nothing."""

from __future__ import annotations

import collections
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ext4kit.export import database, rows
from ext4kit.export.bodyfile import Bodyfile
from ext4kit.export.case_uco import CaseUco
from ext4kit.export.database import Database
from ext4kit.export.dfxml import Dfxml
from ext4kit.export.format import Format, Subject, TextFormat
from ext4kit.export.tabular import CsvTable, JsonLines
from ext4kit.export.timesketch import TimesketchCsv, TimesketchJsonl
from ext4kit.opening import open_image
from ext4kit.recovery import find_deleted
from ext4kit.timeline import EventFilter, build_timeline
from ext4kit.verify import verify
from tests.conftest import Images

TEXTS = (Bodyfile, CaseUco, CsvTable, Dfxml, JsonLines, TimesketchCsv, TimesketchJsonl)
STARTED = 1_700_000_000 * 10**9


def reversed_row() -> type:
    """`FileRow` with its fields in the opposite order."""
    plain = collections.namedtuple("plain", reversed(rows.FileRow._fields))  # type: ignore[misc]
    derived = {
        name: value for name, value in vars(rows.FileRow).items() if isinstance(value, property)
    }
    none = dict.fromkeys(rows.FileRow._fields)

    def made(cls: type, path: str | None = None, **values: Any) -> Any:
        assert path is not None or "path" in values
        return plain.__new__(cls, **(none | values | ({"path": path} if path else {})))

    return type("Row", (plain,), {**derived, "__new__": made, "__slots__": ()})


def filled(made: Callable[[Subject], Format], image: Path) -> Format:
    """A format with live and deleted files, events and findings of an image."""
    with open_image(image) as opened:
        volume = opened.volume()
        fs = volume.filesystem()
        to = made(Subject(opened, volume.facts, fs, STARTED, hashes=("md5",)))
        to.begin()
        for batch in rows.live_batches(fs, to.takes_ranges, None):
            to.files(batch)
        for batch in rows.gone_batches(list(find_deleted(fs)), to.takes_ranges, None, types=True):
            to.files(batch)
        to.events(list(build_timeline(fs).select(EventFilter())))
        to.findings(verify(fs), [])
        to.end()
    return to


@pytest.mark.parametrize("kind", TEXTS, ids=lambda kind: kind.__name__)
def test_the_order_of_the_fields_of_a_row_changes_no_export(
    kind: type[TextFormat], unpacked: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = unpacked("rm_rf_tree").image
    texts = []
    for _ in range(2):
        stream = io.StringIO()
        filled(lambda subject: kind(subject, stream), image)  # noqa: B023 -- called at once
        texts.append(stream.getvalue())
        monkeypatch.setattr(rows, "FileRow", reversed_row())
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) > 100


def in_another_order(schema: str) -> str:
    """A schema with the columns of each table turned round."""

    def turned(table: re.Match[str]) -> str:
        columns = reversed(re.split(r",\s+", table[2].strip()))
        return f"{table[1]} ({', '.join(columns)});"

    return re.sub(r"(CREATE TABLE \w+) \(\n(.*?)\n\);", turned, schema, flags=re.DOTALL)


def stored(base: Path) -> dict[str, list[str]]:
    """The rows of each table, as text by column."""
    with closing(sqlite3.connect(base)) as opened:
        opened.row_factory = sqlite3.Row
        names = ("files", "events", "findings", "volumes")
        return {
            name: [
                json.dumps(dict(row), sort_keys=True, default=repr)
                for row in opened.execute(f"SELECT * FROM {name} ORDER BY id")
            ]
            for name in names
        }


def test_the_order_of_the_columns_of_a_table_changes_no_value(
    unpacked: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, plain = [], database._sql
    for name in ("first", "second"):
        filled(lambda subject: Database(subject, tmp_path / name), unpacked("rm_rf_tree").image)  # noqa: B023
        found.append(stored(tmp_path / name))
        monkeypatch.setattr(database, "_sql", lambda part: in_another_order(plain(part)))
        monkeypatch.setattr(rows, "FileRow", reversed_row())
    assert found[0] == found[1]
    assert len(found[0]["files"]) > 100
    assert len(found[0]["events"]) > 100


def test_no_column_of_a_table_is_left_without_a_value_by_oversight(
    unpacked: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is inserted has all columns but those that its source does not have."""
    named: dict[str, set[str]] = {}
    plain = Database._insert

    def noted(self: Database, table: str, values: Iterator[database.Row]) -> None:
        every = list(values)
        for row in every:
            named.setdefault(table, set()).update(row)
        plain(self, table, every)

    monkeypatch.setattr(Database, "_insert", noted)
    filled(lambda subject: Database(subject, tmp_path / "base"), unpacked("rm_rf_tree").image)
    with closing(sqlite3.connect(tmp_path / "base")) as opened:
        for table in ("files", "events", "volumes", "meta"):
            info = opened.execute(f"PRAGMA table_info({table})").fetchall()
            assert {row[1] for row in info} - {"id"} == named[table] - {"id"}, table
