"""`timeline --logs` shows log lines among the events, in the order of time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Cli
from tests.logs import log_scenes
from tests.logs.log_scenes import COUNT, LOST, Scene, scene, syslog_line

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def held(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Lines that `sed -i` removed, and a deleted log of the kernel's ring buffer without times."""
    with scene(tmp_path_factory.mktemp("lines") / "disk.img") as found:
        log_scenes.sed(found)
        ring = found.write(
            "boot.log", [b"[    1.00000%d] usb 1-1: new device" % n for n in range(9)]
        )
        found.sync()
        ring.unlink()
    return found


def records(ext4kit: Cli, held: Scene, *words: str) -> list[dict[str, Any]]:
    done = ext4kit("timeline", held.image, *words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in found if one["record"] == "log line"]


def test_lines_and_events_are_in_order(ext4kit: Cli, held: Scene) -> None:
    *found, summary = records(ext4kit, held, "--logs")
    times = [one["commit_time_ns" if one["record"] == "event" else "time"] for one in found]
    known = [time for time in times if time is not None]
    assert known == sorted(known)
    assert {one["line"] for one in lines(found)} == set(held.lost.values())
    assert summary["log_lines"] == 2 * LOST and summary["log_lines_untimed"] == 9
    plain = [one for one in found if one["record"] == "event"]
    assert plain == records(ext4kit, held)[:-1] and len(plain) == summary["events"]


def test_filters_apply_to_lines(ext4kit: Cli, held: Scene) -> None:
    found = lines(records(ext4kit, held, "--logs"))
    middle = found[LOST]["time"] // 10**9
    early = lines(records(ext4kit, held, "--logs", "--until", f"@{middle - 1}"))
    late = lines(records(ext4kit, held, "--logs", "--since", f"@{middle}"))
    assert early + late == found and early and late
    for words in (("/var/log/auth.log",), ("--path", "*auth*"), ("--name", "^auth")):
        some = lines(records(ext4kit, held, "--logs", *words))
        assert {one["path"] for one in some} == {"/var/log/auth.log"} and len(some) == LOST
    assert lines(records(ext4kit, held, "--logs", "--type", "dir")) == []
    assert lines(records(ext4kit, held, "--logs", "--owner", "7")) == []
    assert len(lines(records(ext4kit, held, "--logs", "--owner", "0"))) == 2 * LOST
    assert len(lines(records(ext4kit, held, "--logs", "--kind", "deleted"))) == 2 * LOST
    assert len(lines(records(ext4kit, held, "--all-logs"))) == 2 * COUNT
    inode = found[0]["inode"]
    some = lines(records(ext4kit, held, "--logs", "--inode", str(inode)))
    assert {one["inode"] for one in some} == {inode}


def test_the_table_shows_lines_in_the_zone(ext4kit: Cli, held: Scene) -> None:
    shown = ext4kit("timeline", held.image, "--logs", "--tz", "+05:30").stdout.splitlines()
    (first, *_) = [line for line in shown if "log line " in line]
    assert "+05:30" in first and syslog_line(100).decode() in first
    assert "[sshd, removed, /var/log/auth.log, byte " in first
    assert [line.split()[0] for line in shown if line.startswith("time ")] == ["time"]
    assert any("9 log lines without a time" in line for line in shown)
    assert f"{2 * LOST} log lines" in next(line for line in shown if " events, " in line)


def test_lines_are_in_no_burst(ext4kit: Cli, held: Scene) -> None:
    done = ext4kit("timeline", held.image, "--logs", "--bursts")
    assert done.returncode == 2 and "--bursts" in done.stderr
