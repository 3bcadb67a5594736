"""Tables of databases are those of the sqlite3 program; hostile ones end in a line."""

from __future__ import annotations

import random
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ext4kit.preview import databases
from ext4kit.preview.previews import kinds_for, preview
from tests.preview.contents import BLOCK, are_safe, bytes_read, mapped, node_of, texts_of

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


def made(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


def people(rows: int = 25) -> tuple[str, ...]:
    return (
        "CREATE TABLE people (name TEXT, age INT, photo BLOB, note)",
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        " INSERT INTO people SELECT 'name ' || i, i, CASE i WHEN 1 THEN x'00ff10' END, NULL FROM n",
        'CREATE TABLE "odd \x1b name" (a PRIMARY KEY, b) WITHOUT ROWID',
        "INSERT INTO \"odd \x1b name\" VALUES (1, 'x\n\x1b[31m')",
        "CREATE INDEX by_age ON people (age)",
    )


def test_rows_are_those_of_sqlite3(tmp_path: Path) -> None:
    path = tmp_path / "database"
    data = made(path, *people())
    count = subprocess.run(["sqlite3", path, "SELECT count(*) FROM people"], capture_output=True,
                           text=True, check=True).stdout.strip()  # fmt: skip
    listed = subprocess.run(
        ["sqlite3", path, "SELECT name, age FROM people LIMIT 10"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    node = node_of(data)
    assert kinds_for(node) == ("table", "hex", "text")
    found = preview(node)
    assert (found.kind, found.is_cut, found.note) == ("table", False, "")
    lines = [line.text for line in found.lines]
    assert lines[0] == f"table people: {count} rows"
    assert lines[1].split() == ["name", "age", "photo", "note"]
    assert [line.split()[:3] for line in lines[2:12]] == [
        [*row.split("|")[0].split(), row.split("|")[1]] for row in listed
    ]
    assert lines[2].split()[3:] == ["x'00ff10'", "NULL"]
    assert r"table odd \x1b name: 1 row" in lines
    assert r"  1  x\x0a\x1b[31m" in lines
    assert "index by_age" in lines


def test_views_and_triggers_are_listed_and_not_run(tmp_path: Path) -> None:
    data = made(
        tmp_path / "database", *people(3), f"CREATE VIEW endless AS {ENDLESS}",
        "CREATE TABLE made (a, b GENERATED ALWAYS AS (a + 1))", "INSERT INTO made VALUES (1)",
        "CREATE TRIGGER t AFTER INSERT ON people BEGIN DELETE FROM people; END",
    )  # fmt: skip
    found = preview(node_of(data))
    assert found.kind == "table"
    assert {"view endless", "trigger t"} <= {line.text for line in found.lines}
    assert "table made: 1 row" in found.text


def test_a_database_with_a_log_is_read_without_it(tmp_path: Path) -> None:
    path = tmp_path / "database"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE kept (a)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("INSERT INTO kept VALUES (1)")
        data = path.read_bytes()
    assert data[18:20] == b"\2\2"
    found = preview(node_of(data))
    assert found.kind == "table"
    assert found.text.startswith("table kept: 0 rows")
    assert "log" in found.note


def test_long_tables_are_counted_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_MOST_COUNTED", 1000)
    data = made(tmp_path / "database", *people(1500))
    assert preview(node_of(data)).text.startswith("table people: at least 1,000 rows")
    monkeypatch.setattr(databases, "_MOST_COUNTED", 1 << 60)
    monkeypatch.setattr(databases, "_MOST_STEPS", 0)
    found = preview(node_of(data))
    assert "not all rows were counted: interrupted" in found.text
    short = preview(node_of(data), most_lines=3)
    assert (len(short.lines), short.is_cut) == (3, True)


def test_a_damaged_database_is_told_in_a_line(tmp_path: Path) -> None:
    data = made(tmp_path / "database", *people())
    for broken in (data[:100], data[:16] + bytes(200), data[:16] + b"\xff" * 5000):
        found = preview(node_of(broken), "table")
        assert found.kind == "error"
        assert found.lines[0].text.startswith("SQLite cannot read the database: ")
    assert preview(node_of(b"no database at all\n" * 9), "table").kind == "error"


def test_any_damage_is_told_and_ends(tmp_path: Path) -> None:
    data = made(tmp_path / "database", *people(400))
    rng = random.Random(3)
    for _ in range(150):
        broken = bytearray(data[: rng.choice((len(data), rng.randrange(512, len(data))))])
        for _ in range(rng.randrange(1, 40)):
            broken[rng.randrange(100, len(broken))] = rng.randrange(256)
        found = preview(node_of(bytes(broken)), "table")
        assert found.kind in ("table", "error")
        assert are_safe(texts_of(found))


def test_a_large_database_is_not_read() -> None:
    size = databases.MOST_DATABASE + BLOCK
    node = mapped(b"SQLite format 3\0".ljust(BLOCK, b"\0"), size, [(0, size // BLOCK, 0, False)],
                  blocks_count=size // BLOCK)  # fmt: skip
    found = preview(node)
    assert (found.kind, kinds_for(node)[0]) == ("error", "table")
    assert "at most" in found.text
    assert bytes_read(node) < 32 << 10
