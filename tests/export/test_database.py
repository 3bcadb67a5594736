"""The stock sqlite3 client opens the database; what is in it is what there is."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes import machine
from sample_images.recipes.score import OWN
from sample_images.recipes.truth import load
from tests.conftest import Cli, Images
from tests.environment import ROOT
from tests.export.conftest import HOSTILE, Exported, Lost
from tests.export.reading import body_lines, exact


def told(*words: str | Path) -> str:
    """What another program prints."""
    return subprocess.run(words, capture_output=True, check=True, text=True).stdout


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


# ------------------------------------------------------------------- version and documentation


def test_the_version_of_the_tables_is_in_the_file(removed: Exported) -> None:
    assert query(removed, "PRAGMA user_version") == [{"user_version": 2}]


def test_all_columns_are_documented(removed: Exported) -> None:
    """Each row of the table in docs/formats.md names all columns of its table, in order."""
    text = (ROOT / "docs/formats.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", text, re.M)
    listed = {table: re.sub(r" \([^)]*\)", "", columns).split(", ") for table, columns in rows}
    listed["versions"] = listed["files"]
    listed["meta"] = ["key", "value"]
    tables = query(removed, "SELECT name FROM sqlite_master WHERE type = 'table' AND"
                            " name NOT LIKE 'files_fts%' AND name NOT LIKE 'sqlite%'")  # fmt: skip
    assert {row["name"] for row in tables} == set(listed)
    for table, columns in listed.items():
        info = query(removed, f"PRAGMA table_info({table})")
        assert [row["name"] for row in info] == columns, table


# ------------------------------------------------------------------------------- deleted files


def test_deleted_files_have_owners_hashes_and_types(lost: Lost) -> None:
    rows = query(lost.exported, "SELECT * FROM deleted_files WHERE grade = 'consistent'")
    found = {row["path"].lstrip("/"): row for row in rows}
    assert found.keys() == {"picture.png", "letter.txt.gz", "page.pdf", "empty"} - {"empty"}
    for name, row in found.items():
        for hash_name in ("md5", "sha1", "sha256"):
            assert row[hash_name] == told(f"{hash_name}sum", lost.files[name]).split()[0], name
        assert row["mime"] == told("file", "--brief", "--mime-type", lost.files[name]).strip()
    owner = {(row["uid"], row["gid"], row["permissions"]) for row in rows if row["uid"]}
    assert owner == {(70000, 77, "-rw-r--r--")}


def test_the_hash_of_a_partial_file_is_that_of_what_is_left(lost: Lost) -> None:
    rows = query(lost.exported, "SELECT * FROM files WHERE grade = 'partial'")
    assert [(row["path"], row["blocks_reused"], row["mime"]) for row in rows] == [
        ("/letter.txt", 1, None)
    ]
    data = lost.files["letter.txt"].read_bytes()
    left = bytes(1024) + data[1024:]
    assert rows[0]["sha256"] == hashlib.sha256(left).hexdigest()
    assert rows[0]["md5"] == hashlib.md5(left, usedforsecurity=False).hexdigest()


def test_formats_that_do_not_say_what_is_lost_have_no_hash_of_it(lost: Lost) -> None:
    hashes = {line[1]: line[0] for line in body_lines(lost.exported.text("bodyfile"))}
    assert hashes["/letter.txt (deleted)"] == "0" != hashes["/page.pdf (deleted)"]
    digest = query(lost.exported, "SELECT md5 FROM files WHERE grade = 'partial'")[0]["md5"]
    for name in ("dfxml", "case-uco"):
        text = lost.exported.text(name)
        assert digest not in text and hashes["/page.pdf (deleted)"] in text
    for name in ("csv", "jsonl", "timesketch-csv", "timesketch-jsonl"):
        assert digest in lost.exported.text(name)


def test_hashes_are_those_of_the_files_that_recover_writes(
    unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked("removed_on_5_10").image  # partial and carved files
    done = ext4kit("recover", image, "-o", tmp_path / "out", "-q")
    assert done.returncode == 0, done.stderr
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    sums = told("sha256sum", *written).splitlines()
    hashes = Counter(line.split()[0] for line in sums if not line.endswith(tuple(OWN)))
    done = ext4kit("export", image, "--db", tmp_path / "db", "--hash", "sha256", "-q")
    assert done.returncode == 0, done.stderr
    exported = Exported(image, tmp_path, {})
    rows = query(exported, "SELECT grade, sha256 FROM files WHERE state = 'deleted'")
    assert Counter(row["sha256"] for row in rows if row["sha256"]) == hashes
    assert {row["grade"] for row in rows if row["sha256"]} == {"partial", "carved"}


# --------------------------------------------------------------------------------------- signs


def test_signs_are_those_of_the_report(lost: Lost, ext4kit: Cli) -> None:
    """The file is the one of which debugfs says that it is setuid."""
    stat = told("debugfs", "-R", "stat /program", lost.exported.image)
    inode = int(stat.split("Inode: ")[1].split()[0])
    assert "Mode:  04755" in stat
    rows = query(lost.exported, "SELECT * FROM signs WHERE code = 'setuid-place'")
    assert [(row["inode"], row["path"], row["mode"], row["note"]) for row in rows] == [
        (inode, "/program", 0o104755, "setuid root")
    ]
    assert query(lost.exported, "SELECT value FROM meta WHERE key = 'signs'") == [
        {"value": "searched"}
    ]


def test_signs_that_were_not_searched_are_not_called_absent(
    lost: Lost, ext4kit: Cli, tmp_path: Path
) -> None:
    image = lost.exported.image
    for at, words in enumerate((["--without", "live"], ["--without", "signs"], ["/program"])):
        done = ext4kit("export", image, *words, "--db", tmp_path / f"{at}", "--json", "-q")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["signs"] == 0
        state = told("sqlite3", tmp_path / f"{at}", "SELECT value FROM meta WHERE key='signs'")
        assert state.startswith("not searched")


# -------------------------------------------------------------------------------------- counts

_GRADES = "SELECT grade, files, bytes FROM deleted_by_grade"
_COUNTS = """SELECT (SELECT count(*) FROM files WHERE state = 'deleted') AS deleted,
    (SELECT count(*) FROM versions) AS earlier,
    (SELECT count(*) FROM events WHERE kind != 'hint') AS events,
    (SELECT count(*) FROM events WHERE kind = 'hint') AS hints,
    (SELECT count(*) FROM findings WHERE source = 'verify') AS findings,
    (SELECT count(*) FROM signs) AS signs"""


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["rm_rf_tree", "removed_on_5_10", "orphan_file"])
def test_all_commands_count_the_same(
    name: str, unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked(name).image
    deleted = json.loads(ext4kit("deleted", image, "--json").stdout.splitlines()[-1])
    report = [json.loads(line) for line in ext4kit("report", image, "--json").stdout.splitlines()]
    said = {line["record"]: line for line in report}
    timeline = json.loads(ext4kit("timeline", image, "--json").stdout.splitlines()[-1])
    done = ext4kit("export", image, "--db", tmp_path / "db", "--json")
    export = json.loads(done.stdout.splitlines()[-1])

    exported = Exported(image, tmp_path, {})
    counts = query(exported, _COUNTS)[0]
    by_grade = query(exported, _GRADES)
    grades = {row["grade"]: row["files"] for row in by_grade}
    assert sum(grades.values()) == counts["deleted"] > 0
    none = dict.fromkeys(deleted["grades"], 0)
    assert none | grades == deleted["grades"] == export["grades"] == said["deletions"]["grades"]
    assert (
        none | {row["grade"]: row["bytes"] or 0 for row in by_grade} == (said["deletions"]["bytes"])
    )
    totals = deleted["deleted"], export["deleted"], said["deletions"]["total"]
    assert set(totals) == {counts["deleted"]}
    assert {counts["events"]} == {each["events"] for each in (timeline, export, said["activity"])}
    assert {counts["hints"]} == {each["hints"] for each in (timeline, export, said["activity"])}
    assert (
        counts["signs"]
        == export["signs"]
        == sum(line["count"] for line in report if line["record"] == "sign")
    )
    assert counts["findings"] == sum(said["health"]["findings"].values())
    assert counts["earlier"] == deleted["earlier"] == export["earlier"] == 0


@pytest.mark.kernel
def test_earlier_versions_are_counted_apart_and_only_on_request(
    ext4kit: Cli, tmp_path: Path
) -> None:
    """Without them, their contents are found by carving: the rest of the list differs too."""
    image, folder = tmp_path / "rewritten.img", tmp_path / "mounted"
    folder.mkdir()
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", image, "64M"], check=True)
    with machine.loop_device(image) as device:
        machine.mount(device, folder, "rw")
        try:
            for version in range(2):
                for number in range(5):
                    rows = (f"{version} {number} {line}\n" for line in range(2000))
                    (folder / f"file-{number}").write_text("".join(rows))
                subprocess.run(["sync", "-f", folder], check=True)
            (folder / "file-4").unlink()
        finally:
            machine.unmount(folder)
    for words, states in (([], {"deleted"}), (["--versions"], {"deleted", "earlier"})):
        done = ext4kit("deleted", image, "--json", *words)
        said = json.loads(done.stdout.splitlines()[-1])
        place = tmp_path / f"out{len(words)}"
        place.mkdir()
        ext4kit("export", image, "--db", place / "db", "--jsonl", place / "jsonl", *words)
        exported = Exported(image, place, {})
        counts = query(exported, _COUNTS)[0]
        assert (counts["deleted"], counts["earlier"]) == (said["deleted"], said["earlier"])
        grades = {row["grade"]: row["files"] for row in query(exported, _GRADES)}
        assert grades == {grade: n for grade, n in said["grades"].items() if n}
        assert {line["state"] for line in exported.records()} - {"live"} == states
