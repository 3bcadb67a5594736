"""Nothing that programs of a clean server do to their logs is a sign of removed lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.logs import clean_server
from tests.logs.log_scenes import scene, syslog_line

pytestmark = pytest.mark.kernel
ROUNDS = 5
REWRITTEN = {"/var/log/jobs.log"}  # by its own program: lines that went, but no sign


def records(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    done = ext4kit(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("mount", "size"), (("defaults", 16), ("data=journal", 16), ("defaults", 4))
)
def test_a_clean_server_has_no_removed_lines(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, mount: str, size: int
) -> None:
    with scene(tmp_path / "disk.img", mount, ("-J", f"size={size}")) as held:
        for number in range(ROUNDS):
            for way in clean_server.WAYS:
                way(held, number)
        live = clean_server.live(held)
    found = [one for one in records(ext4kit, "logs", held.image) if one["record"] == "log line"]
    marked = {(one["path"], one["line"]) for one in found if one["removed"]}
    assert {path for path, _ in marked} <= REWRITTEN
    assert not {one["line"] for one in found} & live and len(found) > 1000
    signs = records(ext4kit, "report", held.image, "--quick")
    assert [one for one in signs if one.get("code") == "lines-removed"] == []


def test_between_rotations_an_edited_log_is_seen(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    with scene(tmp_path / "disk.img", "defaults", ("-J", "size=16")) as held:
        for number in range(3):
            for way in clean_server.WAYS:
                way(held, number)
            if number == 1:
                held.write("auth.log", [syslog_line(at, "login") for at in range(300, 400)])
                held.sync()
                held.shell("sed -i '/no 3[12]/d' auth.log")
                held.sync()
    signs = records(ext4kit, "report", held.image, "--quick")
    (sign, *_), (seen,) = (
        [one for one in signs if one["record"] == kind and one["code"] == "lines-removed"]
        for kind in ("sign", "sighting")
    )
    assert sign["weight"] == "strong" and sign["count"] == 1
    assert seen["path"] == "/var/log/auth.log"
    assert seen["lines"]["count"] == 20 and len(seen["lines"]["first"]) == 20
    assert {one["line"].split("no ")[1][:2] for one in seen["lines"]["first"]} == {"31", "32"}
    proof = seen["lines"]["proof"]
    assert proof["how"] == "cut out"
    assert proof["after"]["transaction"] < proof["before"]["transaction"]
