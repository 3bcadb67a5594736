"""Hits as files: lists of hashes, known files left out, and the files that are written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.score import read_records
from tests.conftest import Cli, Images

WORD = "harbour"


@pytest.fixture
def image(unpacked: Images) -> Path:
    return unpacked("rm_rf_tree").image


@pytest.fixture
def recovered(ext4kit: Cli, image: Path, tmp_path: Path) -> Path:
    """All live and deleted files, as `extract` and `recover` write them."""
    out = tmp_path / "all"
    ext4kit("extract", image, "/", "-o", out / "live")
    ext4kit("recover", image, "-o", out / "deleted", "--partial", "among", "--no-readme",
            "--versions", "--sources", "journal,blocks")  # fmt: skip
    return out


def written(out: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    for record in read_records(out):
        if record["output"] and record["type"] == "file":
            yield record, (out / record["output"]).read_bytes()


def records(text: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, text.splitlines())


def key(record: dict[str, Any]) -> tuple[int, int, str]:
    return record["inode"], record["generation"], record["sha256"]


def test_the_files_with_hits_are_written_as_extract_and_recover_write_them(
    ext4kit: Cli, image: Path, recovered: Path, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    done = ext4kit("search", image, "--text", WORD, "--in", "live,deleted,earlier", "-o", out)
    expected = {
        key(record)
        for state in ("live", "deleted")
        for record, data in written(recovered / state)
        if WORD.encode() in data
    }
    ours = {key(record): record for record, _ in written(out)}
    assert ours.keys() == expected
    assert len(expected) > 20
    for record, data in written(out):
        assert record["hits"] >= data.count(WORD.encode()) > 0
        assert hashlib.sha256(data).hexdigest() == record["sha256"]
    states = {record["state"] for record in ours.values()}
    assert states == {"live", "deleted"}
    assert f"{len(expected):,} files written" in done.stdout
    assert (out / "case.json").exists()


def test_files_are_found_by_their_hashes(
    ext4kit: Cli, image: Path, recovered: Path, tmp_path: Path
) -> None:
    wanted = [
        record["sha256"] for state in ("live", "deleted")
        for record, data in written(recovered / state) if WORD.encode() in data
    ][::3]  # fmt: skip
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{one}  name\n" for one in [*wanted, "00" * 32]))
    expected = {
        key(record)
        for state in ("live", "deleted")
        for record, _ in written(recovered / state)
        if record["sha256"] in wanted
    }
    done = ext4kit("search", image, "--hashes", listed, "--json")
    *hits, summary = records(done.stdout)
    assert {
        (one["inode"], one["generation"], one["known"]["digest"]) for one in hits
    } == expected  # fmt: skip
    assert summary["patterns"] == {"list.txt": len(hits)}
    assert summary["bytes_read"] == 0


def test_hits_in_known_files_are_marked_left_out_or_alone(
    ext4kit: Cli, image: Path, recovered: Path, tmp_path: Path
) -> None:
    known = {record["sha256"] for record, _ in list(written(recovered / "live"))[::2]}
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{one}  name\n" for one in known))
    found = {}
    for words in ((), ("--known", listed), *(("--known", listed, f"--{how}-known") for how in
                  ("hide", "only"))):  # fmt: skip
        done = ext4kit("search", image, "--text", WORD, "--json", *map(str, words))
        hits = [one for one in records(done.stdout) if one["record"] == "hit"]
        found[str(words[-1:])] = hits
    plain, marked, hidden, only = found.values()
    assert [one | {"known": None} for one in marked] == plain
    assert [one for one in marked if one["known"]] == only
    assert [one for one in marked if not one["known"]] == hidden
    assert only
    assert hidden
    assert {one["known"]["digest"] for one in only} <= known
    assert {"slack", "journal"} & {one["area"] for one in hidden}


def test_a_rule_that_matches_a_known_file_is_named_as_the_rule(
    ext4kit: Cli, image: Path, recovered: Path, tmp_path: Path
) -> None:
    pytest.importorskip("yara_x")
    record, _ = next(written(recovered / "live"))
    listed, rules = tmp_path / "list.txt", tmp_path / "rules.yar"
    listed.write_text(f"{record['sha256']}  name\n")
    rules.write_text("rule any_file { condition: true }")
    done = ext4kit("search", image, "--yara", rules, "--in", "live", "--known", listed,
                   "--only-known")  # fmt: skip
    assert "any_file" in done.stdout
    assert "the whole file is in" not in done.stdout
    assert "[in list.txt]" in done.stdout
