"""`logs` brings back the lines of which the bytes stand, and proves what was removed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.logs import log_scenes
from tests.logs.log_scenes import COUNT, HAS_TO_JOURNAL, LOST, WAYS, Scene, scene

pytestmark = pytest.mark.kernel
FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ordered": ("defaults", ("-J", "size=8")),
    "forgotten": ("defaults", ("-J", "size=4")),
    "no journal": ("defaults", ("-O", "^has_journal")),
    "data=journal": ("data=journal", ("-J", "size=8")),
}
# The kernel fills the rest of the last block with zeros.
STANDING = {("truncate -s", form): 0.2 for form in ("ordered", "forgotten", "no journal")}
PROVEN: dict[str, dict[tuple[str, str], int]] = {
    "sed -i": {("/var/log/auth.log", "cut out"): LOST, ("/var/log/syslog", "cut out"): LOST},
    "grep -v, cat": {("/var/log/auth.log", "cut out"): LOST, ("/var/log/syslog", "cut out"): LOST},
    ": >": {("/var/log/auth.log", "emptied"): COUNT, ("/var/log/syslog", "emptied"): COUNT},
    "rm": {},
    "utmpdump": {("/var/log/wtmp", "cut out"): LOST},
    "vacuum": {},
    "ed": {("/var/log/auth.log", "cut out"): LOST, ("/var/log/syslog", "cut out"): LOST},
    "vi": {("/var/log/auth.log", "cut out"): LOST, ("/var/log/syslog", "cut out"): LOST},
    "truncate -s": {("/var/log/auth.log", "cut off"): LOST, ("/var/log/syslog", "cut off"): LOST},
    "rotate": {},
    "in place": {("/var/log/auth.log", "cut out"): LOST},
}


def records(ext4kit: Cli, image: Path, *words: str) -> list[dict[str, Any]]:
    done = ext4kit("logs", image, *words, "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [one for one in found if one["record"] == "log line"]


def made(path: Path, way: str, form: str) -> Scene:
    """A scene, unmounted."""
    if way == "vacuum" and not HAS_TO_JOURNAL:
        pytest.skip("needs systemd-journal-remote")
    program = {"utmpdump": "utmpdump", "vi": "vim", "ed": "ed", "rotate": "logrotate"}.get(way)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    act = log_scenes.in_place if way == "in place" else WAYS[way]
    if form == "forgotten":
        act = partial(log_scenes.forgotten, way=act)
    with scene(path, *FORMS[form]) as found:
        act(found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_lines_that_stand_come_back(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, way: str, form: str
) -> None:
    held = made(tmp_path / "disk.img", way, form)
    standing, found = held.standing(), records(ext4kit, held.image)
    back = {one["line"] for one in found}
    assert len(standing) >= len(held.lost) * STANDING.get((way, form), 0.9)
    assert len(standing & back) >= len(standing) * 0.95
    assert back <= set(held.lost.values())  # no living line
    removed = Counter(
        (one["removed"]["path"], one["removed"]["how"]) for one in found if one["removed"]
    )
    wanted = dict(PROVEN[way] if form in ("ordered", "data=journal") else {})
    if way == "truncate -s" and wanted:
        names = ("syslog" if "kernel" in line else "auth.log" for line in standing)
        wanted = dict(Counter((f"/var/log/{name}", "cut off") for name in names))
    assert dict(removed) == wanted


def test_each_line_has_its_place(needs_kernel: None, ext4kit: Cli, tmp_path: Path) -> None:
    held = made(tmp_path / "disk.img", "sed -i", "ordered")
    data = held.image.read_bytes()
    found = records(ext4kit, held.image)
    for one in found:
        line = one["line"].encode()
        assert data[one["position"] :].startswith(line + b"\n")
        assert one["block"] == one["position"] // 4096
        assert one["view"] == "deleted" and not one["torn"]
        after, before = one["removed"]["after"], one["removed"]["before"]
        assert after["transaction"] < before["transaction"] and after["time"] <= before["time"]
    assert [one["time"] for one in found] == sorted(one["time"] for one in found)
    first = log_scenes.NOW - 86_400 + 100 * 20
    assert found[0]["time"] // 10**9 == first
    assert {one["time_ground"] for one in found} == {"year inferred", "stated"}


def test_overwritten_in_place_the_journal_has_them(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    held = made(tmp_path / "disk.img", "in place", "data=journal")
    found = records(ext4kit, held.image, "--removed")
    assert {one["line"] for one in found} == held.standing() == set(held.lost.values())


def test_what_is_asked_for_is_listed(needs_kernel: None, ext4kit: Cli, tmp_path: Path) -> None:
    image = made(tmp_path / "disk.img", "utmpdump", "ordered").image
    assert len(records(ext4kit, image, "--kind", "logins")) == 2 * LOST
    assert len(records(ext4kit, image, "--kind", "btmp")) == LOST
    assert len(records(ext4kit, image, "--kind", "text")) == 0
    assert len(records(ext4kit, image, "/var/log/wtmp")) == LOST
    assert len(records(ext4kit, image, "--removed", "--limit", "7")) == 7
    assert len(records(ext4kit, image, "--grep", "user10[0-4] ")) == 5
    assert len(records(ext4kit, image, "--all")) == COUNT + LOST
    last = log_scenes.NOW - 86_400 + (COUNT + LOST - 1) * 20
    assert len(records(ext4kit, image, "--since", f"@{last}")) == 1
    assert len(records(ext4kit, image, "--until", f"@{last - 20 * COUNT}")) == 0
    said = ext4kit("logs", image, "--removed", "--limit", "1").stdout.splitlines()
    assert "removed, /var/log/wtmp, byte" in said[1]
    assert said[3].startswith("1 line removed from /var/log/wtmp between transaction ")
    none = ext4kit("logs", image, "--kind", "apt")
    assert f"{2 * LOST} lines found" in none.stderr and "the journal has all" in none.stderr


def test_a_hostile_line_cannot_steer_the_terminal(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    hostile = log_scenes.syslog_line(1) + b" \x1b[2J\xff\xe2\x80\xae"
    with scene(tmp_path / "disk.img") as held:
        path = held.write("auth.log", [hostile, log_scenes.syslog_line(2)])
        held.sync()
        path.unlink()
    done = ext4kit("logs", held.image)
    assert "\x1b" not in done.stdout and "\\x1b[2J\\xff\\u202e" in done.stdout
    (first, _) = records(ext4kit, held.image)
    assert first["line_bytes"]
