"""`ext4kit timeline` shows, filters and counts events."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from sample_images import Built
from tests.conftest import Cli, Images


@pytest.fixture(scope="module")
def sample(unpacked: Images) -> Built:
    """A tree that was removed: made in one transaction or some, gone in others."""
    return unpacked("rm_rf_tree")


def records(cli: Cli, *arguments: str | Path) -> list[dict[str, Any]]:
    done = cli("timeline", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def removed_files(sample: Built) -> set[str]:
    truth = json.loads(sample.truth.read_text())
    gone = [file["path"] for file in truth["files"] if file["state"] == "deleted"]
    return {f"/{path}" for path in gone}


def path_of(record: dict[str, Any]) -> str:
    """A path as the truth has it: what is not UTF-8 replaced."""
    if "path_bytes" in record:
        return base64.b64decode(record["path_bytes"]).decode("utf-8", "replace")
    return str(record["path"])


def test_every_file_that_was_removed_has_its_event(ext4kit: Cli, sample: Built) -> None:
    found = records(ext4kit, sample.image, "--kind", "deleted")
    deleted = {path_of(record) for record in found if record["record"] == "event"}
    assert removed_files(sample) <= deleted


def test_the_counts_are_those_of_the_records(ext4kit: Cli, sample: Built) -> None:
    *found, summary = records(ext4kit, sample.image)
    assert summary["record"] == "summary"
    assert summary["events"] + summary["hints"] == len(found)
    assert sum(summary["kinds"].values()) == len(found)
    times = [record["commit_time_ns"] for record in found if record["commit_time_ns"] is not None]
    assert times == sorted(times)


@pytest.mark.heavy
def test_filters_take_what_fits_and_nothing_else(ext4kit: Cli, sample: Built) -> None:
    found = [each for each in records(ext4kit, sample.image) if each["record"] == "event"]
    middle = found[len(found) // 2]
    when, inode = middle["commit_time_ns"], middle["inode"]
    folder = middle["path"].rpartition("/")[0]
    second = -(-when // 1_000_000_000)
    cases: list[tuple[tuple[str, ...], Any]] = [
        (("--inode", str(inode)), lambda each: each["inode"] == inode),
        (("--kind", "created", "--kind", "mode"), lambda each: each["kind"] in ("created", "mode")),
        (("--path", f"{folder}/*"), lambda each: (each["path"] or "").startswith(f"{folder}/")
         or (each.get("old_path") or "").startswith(f"{folder}/")),
        (("--since", f"@{second}"), lambda each: each["commit_time_ns"] >= second * 10**9),
        (("--until", f"@{second}"), lambda each: each["commit_time_ns"] <= second * 10**9),
    ]  # fmt: skip
    for options, fits in cases:
        assert records(ext4kit, sample.image, *options)[:-1] == [
            each for each in found if fits(each)
        ]


def test_lines_tell_the_same_and_hints_stand_at_the_end(ext4kit: Cli, sample: Built) -> None:
    done = ext4kit("timeline", sample.image)
    *found, summary = records(ext4kit, sample.image)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[-1] == f"{summary['events']:,} events, {summary['hints']:,} hints"
    plain = [each for each in found if each["path"].isascii() and "\\" not in each["path"]]
    for record in plain[:: max(len(plain) // 50, 1)]:
        assert any(record["path"] in line and record["kind"] in line for line in lines)


def test_a_time_that_is_none_is_a_usage_error(ext4kit: Cli, sample: Built) -> None:
    done = ext4kit("timeline", sample.image, "--since", "whenever")
    assert done.returncode == 2
    assert "whenever" in done.stderr


def test_without_a_log_there_are_no_events_and_the_reason_is_told(
    ext4kit: Cli, tmp_path: Path, needs_kernel: None
) -> None:
    from sample_images.recipes import machine

    image = tmp_path / "plain.img"
    machine.make_file_system(image, 16 << 20, ("-t", "ext2"))
    done = ext4kit("timeline", image)
    assert done.returncode == 0
    assert done.stdout == "0 events, 0 hints\n"
    assert "no readable journal" in done.stderr
