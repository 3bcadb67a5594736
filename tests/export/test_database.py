"""The stock sqlite3 client opens the database; what is in it is what there is."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.truth import load
from tests.conftest import Cli, Images
from tests.export.conftest import HOSTILE, Exported
from tests.export.reading import exact


def query(exported: Exported, sql: str) -> list[dict[str, Any]]:
    """Rows as the sqlite3 client gives them in JSON."""
    command = ["sqlite3", "-readonly", "-json", str(exported.folder / "db"), sql]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    rows: list[dict[str, Any]] = json.loads(found) if found.strip() else []
    return rows


@pytest.mark.parametrize("name", ["hostile", "removed"])
def test_the_database_is_sound(name: str, request: pytest.FixtureRequest) -> None:
    exported: Exported = request.getfixturevalue(name)
    assert query(exported, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    assert query(exported, "PRAGMA foreign_key_check") == []
    checked = query(exported, "SELECT count(*) AS n FROM files")
    assert checked == [{"n": len(exported.records())}]


def test_deleted_files_are_those_that_the_recipe_deleted(
    removed: Exported, unpacked: Images
) -> None:
    truth = load(unpacked("rm_rf_tree").truth)
    rows = query(removed, "SELECT path, sha256 FROM files WHERE state='deleted' AND type='file'")
    found = {exact(row["path"]): row["sha256"] for row in rows}
    wanted = {b"/" + file.path: file.sha256 for file in truth.files}
    assert found == wanted
    live = query(removed, "SELECT path, sha256 FROM files WHERE state='live' AND type='file'")
    assert {row["sha256"] for row in live} == {file.sha256 for file in truth.live}


def test_events_are_those_of_the_timeline(removed: Exported, ext4kit: Cli) -> None:
    lines = map(json.loads, ext4kit("timeline", removed.image, "--json").stdout.splitlines())
    events = [line for line in lines if line["record"] == "event"]
    rows = query(removed, "SELECT kind, inode, time FROM events ORDER BY id")
    assert rows == [
        {"kind": line["kind"], "inode": line["inode"], "time": line["commit_time_ns"]}
        for line in events
    ]


def test_names_are_found_by_full_text_search(removed: Exported) -> None:
    sql = "SELECT count(*) AS n FROM files_fts WHERE files_fts MATCH 'tunnel'"
    by_hand = "SELECT count(*) AS n FROM files WHERE path LIKE '%tunnel%'"
    assert query(removed, sql) == query(removed, by_hand) != [{"n": 0}]


def test_datasette_can_tell_that_there_is_a_search(removed: Exported) -> None:
    sql = "SELECT name FROM sqlite_master WHERE sql LIKE '%VIRTUAL TABLE%content=\"files\"%'"
    assert query(removed, sql) == [{"name": "files_fts"}]


def test_views_say_the_times_in_words(removed: Exported) -> None:
    newest = query(removed, "SELECT utc, what FROM timeline ORDER BY time DESC LIMIT 1")[0]
    assert newest["utc"].startswith("2") and newest["what"]
    rows = query(removed, "SELECT deleted_by FROM deleted_files")
    assert len(rows) == removed.record["deleted"] and all(row["deleted_by"] for row in rows)


def test_hostile_names_are_text_like_any_other(hostile: Exported) -> None:
    rows = query(
        hostile, "SELECT path, name, path_bytes IS NULL AS plain FROM files WHERE type='file'"
    )
    assert Counter(exact(row["path"]) for row in rows) == Counter(b"/" + name for name in HOSTILE)
    raw = query(
        hostile,
        "SELECT hex(path_bytes) AS raw FROM files WHERE path_bytes IS NOT NULL AND type='file'",
    )
    odd = {exact(row["path"]) for row in rows if not row["plain"]}
    assert {bytes.fromhex(row["raw"]) for row in raw} == odd
    columns = "id, path, name, target, sources, problems"
    command = ["sqlite3", str(hostile.folder / "db"), f"SELECT {columns} FROM files"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"\x1b" not in printed and b"\x07" not in printed
    assert printed.count(b"\n") == len(hostile.records())


def test_findings_and_problems_are_kept(ext4kit: Cli, removed: Exported, tmp_path: Path) -> None:
    image = tmp_path / "damaged.img"
    data = bytearray(removed.image.read_bytes())
    victim = next(record for record in removed.records("live") if record["type"] == "file")
    debugfs = ["debugfs", "-R", f"imap <{victim['inode']}>", str(image)]
    image.write_bytes(data)
    told = subprocess.run(debugfs, capture_output=True, check=True, text=True).stdout
    block, offset = told.split("located at block ")[1].split(", offset ")
    data[int(block) * 4096 + int(offset, 16) + 4] ^= 1  # its size
    image.write_bytes(data)
    done = ext4kit("export", image, "--db", tmp_path / "db", "--without", "deleted", "-q")
    assert done.returncode == 0, done.stderr
    damaged = Exported(image, tmp_path, {})
    rows = query(damaged, "SELECT code, inode FROM findings WHERE source = 'verify'")
    assert {"code": "inode-checksum", "inode": victim["inode"]} in rows
