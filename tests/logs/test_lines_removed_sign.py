"""The sign of lines that were removed from a log, in all forms of `report`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.logs import log_scenes
from tests.logs.log_scenes import COUNT, LOST, Scene, syslog_line
from tests.logs.test_removed_lines import PROVEN, made

pytestmark = pytest.mark.kernel


WEIGHTS = {"lines-removed": "strong", "lines-gone": "look"}


def sightings(ext4kit: Cli, image: Path) -> list[dict[str, Any]]:
    done = ext4kit("report", image, "--quick", "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    mine = [one for one in found if one.get("code") in WEIGHTS]
    signs = {one["code"]: one["weight"] for one in mine if one["record"] == "sign"}
    assert signs.items() <= WEIGHTS.items()
    return [one for one in mine if one["record"] == "sighting"]


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in PROVEN if way not in ("in place", "truncate -s")])
def test_what_was_done_by_hand_is_seen(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, way: str
) -> None:
    held = made(tmp_path / "disk.img", way, "ordered")
    found = sightings(ext4kit, held.image)
    seen = {(one["path"], one["lines"]["proof"]["how"]): one["lines"]["count"] for one in found}
    assert seen == PROVEN[way]
    codes = {one["path"]: one["code"] for one in found}
    assert codes == {
        path: "lines-removed" if how == "cut out" else "lines-gone" for path, how in PROVEN[way]
    }


@pytest.fixture(scope="module")
def edited(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return made(tmp_path_factory.mktemp("sign") / "disk.img", "sed -i", "ordered")


def test_the_sign_has_lines_and_transactions(ext4kit: Cli, edited: Scene) -> None:
    found = {one["path"]: one for one in sightings(ext4kit, edited.image)}
    lines = found["/var/log/auth.log"]["lines"]
    assert lines["count"] == LOST
    first = [one["line"] for one in lines["first"]]
    assert first == [syslog_line(100 + at).decode() for at in range(len(first))] and first
    after, before = (lines["proof"][when]["transaction"] for when in ("after", "before"))
    assert after < before and found["/var/log/auth.log"]["time_ns"]


def test_the_sign_is_on_the_page_and_in_the_terminal(
    ext4kit: Cli, edited: Scene, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert ext4kit("report", edited.image, "--quick", "--html", page).returncode == 0
    text = page.read_text()
    assert "Lines removed from a log" in text and syslog_line(100).decode() in text
    assert f"{LOST} lines removed between transaction " in text
    shown = " ".join(ext4kit("report", edited.image, "--quick").stdout.split())
    assert "● Lines removed from a log 2" in shown and syslog_line(100).decode() in shown
    assert f"... {LOST - 3} more" in shown


def test_the_sign_is_exported(ext4kit: Cli, edited: Scene, tmp_path: Path) -> None:
    base = tmp_path / "case.sqlite"
    assert ext4kit("export", edited.image, "--db", base).returncode == 0
    with sqlite3.connect(base) as held:
        rows = held.execute("SELECT path, note FROM signs WHERE code = 'lines-removed'").fetchall()
    assert sorted(path for path, _ in rows) == ["/var/log/auth.log", "/var/log/syslog"]
    assert all(note.startswith(f"{LOST} lines cut out between transactions ") for _, note in rows)


def test_zeros_among_logins_are_seen(needs_kernel: None, ext4kit: Cli, tmp_path: Path) -> None:
    with log_scenes.scene(tmp_path / "disk.img") as held:
        log_scenes.zeroed_logins(held)
    (one,) = sightings(ext4kit, held.image)
    assert one["path"] == "/var/log/wtmp" and one["lines"]["count"] == LOST
    assert one["note"].startswith(f"{LOST} records filled with zeros, from byte ")
    said = ext4kit("logs", held.image).stdout
    assert f"{LOST} records of /var/log/wtmp filled with zeros, from byte 38400" in said


def test_zeros_that_a_crash_leaves_are_no_sign(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    """A block that was not written, whose first bytes are in a record, or are the start of one."""
    with log_scenes.scene(tmp_path / "disk.img") as held:
        for name, first in (("wtmp", 0), ("btmp", 4096)):
            data = bytearray(b"".join(map(log_scenes.login_record, range(COUNT))))
            data[first + 12288 : first + 20480] = bytes(8192)
            (held.log / name).write_bytes(data)
        held.sync()
        held.write("app.log", [syslog_line(1)])
        held.sync()
        held.write("app.log", [syslog_line(2)])
        held.sync()
    assert sightings(ext4kit, held.image) == []
