"""Each time in nanoseconds has the same time as text beside it, as coreutils' date writes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.schemas import schema_names, schema_text
from ext4kit.times import iso_field, with_iso
from tests.conftest import Images
from tests.schemas.outputs import records_of

COMMANDS = (
    ("deleted", "IMAGE"),
    ("recover", "IMAGE", "-o", "OUT"),
    ("timeline", "IMAGE"),
    ("stat", "IMAGE", "/", "<12>", "<15>"),
    ("ls", "IMAGE", "-r"),
    ("journal", "list", "IMAGE"),
    ("journal", "history", "IMAGE", "<2>"),
    ("report", "IMAGE"),
    ("export", "IMAGE", "--jsonl", "OUT"),
)


def date_says(times: list[int]) -> list[str]:
    """The times as `date` of coreutils prints them."""
    lines = "".join(f"@{time // 10**9}.{time % 10**9:09d}\n" for time in times)
    command = ["date", "-u", "-f", "-", "+%Y-%m-%dT%H:%M:%S.%NZ"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [text.replace(".000000000Z", "Z") for text in done.stdout.splitlines()]


def pairs(value: Any) -> Iterator[tuple[str, int | None, str | None]]:
    """(name, time, text beside it) of every time in a record."""
    if isinstance(value, dict):
        for name, each in value.items():
            beside = iso_field(name)
            if beside and (each is None or type(each) is int):
                yield name, each, value[beside]
            yield from pairs(each)
    elif isinstance(value, list):
        for each in value:
            yield from pairs(each)


def properties(schema: Any) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(object, name, schema) of every field of a schema."""
    if isinstance(schema, dict):
        for name, each in schema.get("properties", {}).items():
            yield schema, name, each
        for each in schema.values():
            yield from properties(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from properties(each)


def test_the_texts_beside_times_are_those_of_date(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("orphan_file").image
    found = {}
    for command in COMMANDS:
        for _, record in records_of(command, image, tmp_path):
            for name, time, text in pairs(record):
                assert (time is None) == (text is None) or name == "dtime", record
                found[name, time] = text
    times = {(name, time): text for (name, time), text in found.items() if time and text}
    assert list(times.values()) == date_says([time for _, time in times])
    names = {name for name, _ in times}
    assert names >= {
        "atime",
        "crtime",
        "deleted_at",
        "time",
        "commit_time_ns",
        "since_ns",
        "start_ns",
    }


def test_values_of_changed_times_and_of_hints_have_texts(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("orphan_file").image
    found = {}
    for _, record in records_of(("journal", "history", "IMAGE", "<2>"), image, tmp_path):
        for change in record.get("changes", []):
            if change["what"] in ("atime", "mtime", "ctime", "crtime"):
                found[change["after"]] = change["after_iso"]
    for _, record in records_of(("timeline", "IMAGE", "--kind", "hint"), image, tmp_path):
        if record.get("field") in ("atime", "mtime"):
            found[record["new"]] = record["new_iso"]
    assert len(found) > 20
    assert list(found.values()) == date_says(list(found))


@pytest.mark.parametrize("kind", schema_names())
def test_a_schema_has_a_text_beside_each_time(kind: str) -> None:
    for schema, name, each in properties(json.loads(schema_text(kind))):
        said = "anoseconds since 1970" in each.get("description", "")
        if said or name.endswith("_ns"):
            beside = "width_ns" if name == "width_ns" else iso_field(name)
            assert beside in schema["properties"], name


def test_a_number_of_another_kind_has_no_text_beside_it() -> None:
    record = {"size": 5, "width_ns": 5, "extents": [(0, 1, 2)], "mtime": True, "free": [[1, 2]]}
    assert with_iso(record) == record | {"extents": [(0, 1, 2)]}


def test_times_beyond_the_calendar_are_given_in_seconds() -> None:
    assert with_iso({"time": 10**21 + 5})["time_iso"] == "@1000000000000.000000005"
    assert with_iso({"time": -1})["time_iso"] == "1969-12-31T23:59:59.999999999Z"
