"""CSV, JSON lines and Timesketch: counts, columns, and cells that no program takes for code."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import stat
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest

from ext4kit.cli.main import run
from ext4kit.export import columns
from sample_images.recipes import machine
from tests.conftest import Cli, Images
from tests.export.conftest import HOSTILE, Exported
from tests.export.reading import exact, raw_path

FORMULA = tuple("=+-@\t\r") + ("\uff1d", "\uff0b", "\uff0d", "\uff20")


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("name", ["csv", "timesketch-csv"])
def test_no_cell_can_be_a_formula(name: str, hostile: Exported) -> None:
    rows = rows_of(hostile.text(name))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(FORMULA)]
    assert not [cell for cell in cells if set(cell) & set("\x1b\x07\n\r\t\0")]


def test_the_mark_in_front_of_a_cell_can_be_taken_off(hostile: Exported) -> None:
    targets = [row["target"] for row in rows_of(hostile.text("csv")) if row["type"] == "symlink"]
    plain = [text.removeprefix("'") for text in targets]
    assert Counter(map(exact, plain)) == Counter(HOSTILE)


def test_json_lines_have_exact_names(hostile: Exported) -> None:
    files = [record for record in hostile.records() if record["type"] == "file"]
    assert Counter(map(raw_path, files)) == Counter(b"/" + name for name in HOSTILE)
    assert Counter(
        raw_path(record, "target") for record in hostile.records() if record["type"] == "symlink"
    ) == Counter(HOSTILE)
    assert hostile.text("jsonl").isascii()


@pytest.mark.kernel
def test_rows_are_what_the_kernel_shows(hostile: Exported, tmp_path: Path) -> None:
    with machine.loop_device(hostile.image) as device:
        machine.mount(device, tmp_path, "ro,noload")
        try:
            expected = _walk(os.fsencode(tmp_path))
        finally:
            machine.unmount(tmp_path)
    names = ("inode", "mode", "uid", "gid", "size", "links_count", "atime", "mtime", "ctime")
    found = {raw_path(record): tuple(record[name] for name in names)
             for record in hostile.records()}  # fmt: skip
    assert found == expected
    assert len(rows_of(hostile.text("csv"))) == len(expected) == hostile.record["live"]


def _walk(root: bytes) -> dict[bytes, tuple[int, ...]]:
    found: dict[bytes, tuple[int, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = folder + b"/" + name
            seen = os.lstat(path)  # noqa: PTH116 -- bytes
            assert stat.S_IFMT(seen.st_mode)
            found[path[len(root) :]] = (
                seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid, seen.st_size, seen.st_nlink,
                seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns,
            )  # fmt: skip
    return found


def test_the_table_says_the_same_as_the_records(removed: Exported) -> None:
    rows, records = rows_of(removed.text("csv")), removed.records()
    assert [row["sha256"] for row in rows] == [each.get("sha256", "") for each in records]
    assert [row["grade"] for row in rows] == [each.get("grade", "") for each in records]
    assert [int(row["inode"]) for row in rows] == [each["inode"] for each in records]


# ---------------------------------------------------------------------------------- Timesketch


def test_hostile_names_are_harmless_in_timesketch(hostile: Exported) -> None:
    assert hostile.text("timesketch-jsonl").isascii()
    lines = timesketch(hostile)
    named = {exact(line["filename"]) for line in lines if line.get("file_type") == "file"}
    assert named == {b"/" + name for name in HOSTILE}
    assert not [line for line in lines if set(line["message"]) & set("\x1b\x07\n\r\t\0")]


def timesketch(exported: Exported) -> list[dict[str, Any]]:
    """The rows of both files, which say the same."""
    lines = [json.loads(line) for line in exported.text("timesketch-jsonl").splitlines()]
    rows = rows_of(exported.text("timesketch-csv"))
    assert [row["message"].removeprefix("'") for row in rows] == [line["message"] for line in lines]
    assert [int(row["timestamp"]) for row in rows] == [line["timestamp"] for line in lines]
    return lines


def test_timesketch_finds_what_it_needs_in_every_row(removed: Exported) -> None:
    pandas = pytest.importorskip("pandas", reason="the importer's own reader is not installed")
    lines = timesketch(removed)
    frame = pandas.read_csv(removed.folder / "timesketch-csv")
    for column in ("message", "datetime", "timestamp", "timestamp_desc"):
        assert not frame[column].isna().any()
        assert all(column in line for line in lines)
    moments = pandas.to_datetime(frame["datetime"], utc=True, format="mixed")
    epoch = pandas.Timestamp("1970-01-01", tz="UTC")
    assert ((moments - epoch) // pandas.Timedelta(microseconds=1) == frame["timestamp"]).all()


def test_timesketch_has_a_row_for_each_time_and_each_event(removed: Exported) -> None:
    lines = timesketch(removed)
    files = Counter(line["timestamp_desc"] for line in lines if line["source_short"] == "FILE")
    records = removed.records()
    assert files["Content Modification Time"] == len(records)
    assert files["Creation Time"] == len(records)
    assert files["Deletion Time"] == sum(record["dtime"] is not None for record in records)
    events = [line for line in lines if line["source_short"] == "JOURNAL"]
    said = removed.record
    assert len(events) == said["events"] + said["hints"] - said["undated"]


def test_timesketch_has_a_tagged_row_for_each_change_of_a_sign(
    hostile: Exported, ext4kit: Cli
) -> None:
    lines = [line for line in timesketch(hostile) if line["source_short"] == "SIGN"]
    rows = rows_of(hostile.text("timesketch-csv"))
    tags = [row["tag"].split(",") for row in rows if row["source_short"] == "SIGN"]
    assert tags == [line["tag"] for line in lines]
    report = ext4kit("report", hostile.image, "--json").stdout.splitlines()
    records = list(map(json.loads, report))
    deeds = [deed for one in records if one["record"] == "session" for deed in one["deeds"]]
    techniques = {one["code"]: one["attack"] for one in records if one["record"] == "sign"}
    assert [line["event"] for line in lines] == [deed["what"] for deed in deeds]
    for line, deed in zip(lines, deeds, strict=True):
        known = {each for code in deed["codes"] for each in techniques[code]}
        assert set(line["tag"]) == {*deed["codes"], *known}
    assert any("odd-name" in line["tag"] for line in lines)


def test_timesketch_rows_of_files_have_the_hashes_that_were_asked_for(
    removed: Exported, hostile: Exported, ext4kit: Cli
) -> None:
    names = ("md5_hash", "sha1_hash", "sha256_hash")
    lines = timesketch(removed)
    rows = rows_of(removed.text("timesketch-csv"))
    assert [tuple(row[name] for name in names) for row in rows] == [
        tuple(line.get(name, "") for name in names) for line in lines
    ]
    told = {(line["filename"], line["sha256_hash"]) for line in lines if "sha256_hash" in line}
    records = removed.records()
    paths = {record["shown"]: record["sha256"] for record in records if "sha256" in record}
    assert told == set(paths.items()) != set()
    assert not [line for line in lines if line["source_short"] == "JOURNAL" and "md5_hash" in line]
    assert "sha256_hash" not in hostile.text("timesketch-csv").splitlines()[0]
    command = ("export", removed.image, "--timesketch-csv", "-", "--without", "deleted", "-q")
    assert "_hash" not in ext4kit(*command).stdout


def test_a_column_more_is_one_declaration(
    unpacked: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = columns.Column(
        "letters", Annotated[int, "Of the path."], lambda files: map(len, files.field("path"))
    )
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, more))
    places = [tmp_path / name for name in ("a.csv", "a.jsonl", "a.db")]
    words = [word for name, place in zip(("csv", "jsonl", "db"), places, strict=True)
             for word in (f"--{name}", str(place))]  # fmt: skip
    assert run(["export", str(unpacked("rm_rf_tree").image), "-q", *words]) == 0
    with places[0].open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) > 200
    assert all(row["letters"] == str(len(row["path"])) for row in rows)
    records = [json.loads(line) for line in places[1].read_text().splitlines()]
    assert [str(record["letters"]) for record in records] == [row["letters"] for row in rows]
    with closing(sqlite3.connect(places[2])) as opened:
        (wrong,) = opened.execute("SELECT count(*) FROM files WHERE letters != length(path)")
    assert wrong == (0,)
    assert "letters" in columns.json_fields()


def test_a_selection_of_no_file_gives_empty_outputs(unpacked: Images, tmp_path: Path) -> None:
    names = ("bodyfile", "csv", "jsonl", "db", "dfxml", "timesketch-csv", "timesketch-jsonl")
    words = [word for name in names for word in (f"--{name}", str(tmp_path / name))]
    image = str(unpacked("rm_rf_tree").image)
    assert run(["export", image, "-q", "--modified-since", "9999-12-31", *words]) == 1
    assert rows_of((tmp_path / "csv").read_text()) == []
    assert not (tmp_path / "jsonl").read_text()
    with closing(sqlite3.connect(tmp_path / "db")) as opened:
        assert opened.execute("SELECT count(*) FROM files").fetchone() == (0,)
