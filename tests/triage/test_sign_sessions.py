"""Signs in the order of time: each change once, in groups, with those who were logged in."""

from __future__ import annotations

import json
from pathlib import Path

from ext4kit.logs.logins import Login
from ext4kit.triage import Indicator, Rule, Sighting, StoryStep, Weight
from ext4kit.triage.rules.rule import Look
from ext4kit.triage.suspicions.sessions import PAUSE, find_sessions
from ext4kit.units import NANOSECONDS
from sample_images.intrusion import unpack
from tests.conftest import Cli

MINUTE = 60 * NANOSECONDS
STRONG = Rule("one", "f", Weight.STRONG, "One", "why", look=frozenset({Look.LIVE}))
WEAK = Rule("two", "f", Weight.LOOK, "Two", "why", look=frozenset({Look.LIVE}))


def seen(path: bytes, inode: int, *steps: tuple[str, int]) -> Sighting:
    story = tuple(StoryStep(what, time) for what, time in steps)
    return Sighting(path, inode, 1, None, ["there"], uid=33, story=story)


def test_a_change_of_a_file_of_two_signs_is_listed_once() -> None:
    steps = ("made", MINUTE), ("written", 2 * MINUTE), ("written", 3 * MINUTE)
    found = [Indicator(rule, 1, (seen(b"/x", 12, *steps),)) for rule in (STRONG, WEAK)]
    (session,) = find_sessions(found, [])
    assert [(deed.time // MINUTE, deed.what) for deed in session.deeds] == [
        (1, "made"),
        (2, "written"),
    ]
    assert {deed.codes for deed in session.deeds} == {("one", "two")}
    assert all(deed.is_strong and deed.uid == 33 for deed in session.deeds)


def test_a_long_pause_begins_another_session() -> None:
    late = MINUTE + PAUSE
    sightings = seen(b"/a", 12, ("made", MINUTE)), seen(b"/b", 13, ("made", late))
    after = seen(b"/c", 14, ("made", late + PAUSE + 1))
    first, second = find_sessions([Indicator(WEAK, 3, (*sightings, after))], [])
    assert [deed.path for deed in first.deeds] == [b"/a", b"/b"]
    assert [deed.path for deed in second.deeds] == [b"/c"]
    assert not first.deeds[0].is_strong


def test_logins_of_the_time_are_told() -> None:
    logins = [
        Login(b"before", b"pts/0", b"", 0, MINUTE - 1),
        Login(b"during", b"pts/1", b"", MINUTE + 1, 2 * MINUTE),
        Login(b"still", b"pts/2", b"", 0),
        Login(b"after", b"pts/3", b"", 9 * MINUTE),
    ]
    steps = ("made", MINUTE), ("deleted", 3 * MINUTE)
    (session,) = find_sessions([Indicator(WEAK, 1, (seen(b"/x", 12, *steps),))], logins)
    assert [login.user for login in session.logins] == [b"during", b"still"]


def test_the_break_in_of_the_sample_is_one_session(tmp_path: Path, ext4kit: Cli) -> None:
    """sample_images/intrusion/guest.py: from the web shell at 02:14 to the last cut of a log."""
    image = unpack(tmp_path)
    records = list(map(json.loads, ext4kit("report", image, "--json").stdout.splitlines()))
    sessions = [one for one in records if one["record"] == "session"]
    assert [one["start_ns"] for one in sessions] == sorted(one["start_ns"] for one in sessions)
    visit = max(sessions, key=lambda one: len(one["deeds"]))
    assert visit["start_ns"] // NANOSECONDS == 1_772_331_240
    done = [(deed["path"], deed["what"]) for deed in visit["deeds"]]
    assert len(done) == len(set(done))
    wanted = [
        ("/var/www/html/uploads/img_0231.php", "made"),
        ("/dev/shm/.x/agent", "made"),
        ("/usr/local/bin/.systemd-helper", "setuid"),
        ("/var/log/auth.log", "renamed"),
    ]
    places = [done.index(one) for one in wanted]
    assert places == sorted(places)
    page = ext4kit("report", image)
    assert "Signs in the order of time" in page.stdout
