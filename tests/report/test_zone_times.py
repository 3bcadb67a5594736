"""Times for people in a zone: as Python and the C library show them; columns as single times."""

from __future__ import annotations

import random
import subprocess
import zoneinfo
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC as PYTHON_UTC
from datetime import datetime, timedelta

import numpy as np
import pytest

from ext4kit.errors import RequestError
from ext4kit.report import text_columns
from ext4kit.report.times import ctime_text, exact_time, spaced_time, time_text, zone_line
from ext4kit.times import iso, parse_moment
from ext4kit.units import NANOSECONDS
from ext4kit.zones import UTC, current_zone, times_in, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=PYTHON_UTC)
LIMITS = [-(1 << 31), -1, 0, 1 << 31, (1 << 32) - 1, (1 << 34) - (1 << 31) - 1]
ZONES = (
    "Europe/Berlin",
    "America/St_Johns",
    "Africa/Monrovia",
    "Pacific/Apia",
    "Etc/UTC",
    "-03:30",
)


def moments() -> list[int]:
    """Times that ext4 can store, in seconds."""
    chance = random.Random(20261129)
    return [*LIMITS, *(chance.randrange(LIMITS[0], LIMITS[-1]) for _ in range(300))]


@pytest.mark.parametrize("name", [name for name in ZONES if "/" in name])
def test_texts_are_those_of_python(name: str) -> None:
    oracle = zoneinfo.ZoneInfo(name)
    with times_in(zone_of(name)):
        for seconds in moments():
            local = (EPOCH + timedelta(seconds=seconds)).astimezone(oracle)
            assert time_text(seconds * NANOSECONDS) == local.isoformat(" ")
            exact = exact_time(seconds * NANOSECONDS + 123_456_789)
            assert exact.replace(".123456789", "") == local.isoformat()


def test_texts_in_utc_are_as_ever() -> None:
    for seconds in moments():
        moment = seconds * NANOSECONDS + 5
        assert exact_time(moment) == iso(moment)
        assert spaced_time(moment) == iso(moment).replace("T", " ")
        assert time_text(moment) == iso(seconds * NANOSECONDS).replace("T", " ")
    assert time_text(None) == spaced_time(None) == "-"
    assert zone_line() == ""


@pytest.mark.parametrize("name", ["UTC", *ZONES])
def test_a_column_has_the_texts_of_its_times(name: str) -> None:
    seconds = np.array(moments())
    with times_in(zone_of(name)):
        column = [bytes(row).decode().replace(" ", "") for row in text_columns.times(seconds)]
        expected = [time_text(each * NANOSECONDS).replace(" ", "") for each in seconds.tolist()]
    assert column == expected


@pytest.mark.parametrize(
    ("name", "rule"), [("UTC", "UTC0"), ("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3")]
)
def test_lines_of_info_are_those_of_the_c_library(name: str, rule: str) -> None:
    command = ["date", "-d", "@1772388000", "+%a %b %e %H:%M:%S %Y"]
    expected = subprocess.run(command, env={"TZ": rule, "LC_ALL": "C"}, capture_output=True).stdout
    with times_in(zone_of(name)):
        text = ctime_text(1_772_388_000)
    assert text.removesuffix(" +01:00") == expected.decode().strip()


def test_a_time_outside_the_four_digit_years_needs_no_zone() -> None:
    with times_in(zone_of("Europe/Berlin")):
        assert exact_time(400_000_000_000 * NANOSECONDS) == "@400000000000.000000000"
        assert ctime_text(1 << 60) == f"@{1 << 60}"


def test_an_hour_that_comes_twice_is_told_apart() -> None:
    with times_in(zone_of("Europe/Berlin")):
        texts = [time_text(each * NANOSECONDS) for each in (1_792_888_200, 1_792_891_800)]
    assert texts == ["2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-01 14:00", "2026-07-01T12:00:00Z"),
        ("2026-01-01T14:00:00.000000001", "2026-01-01T13:00:00.000000001Z"),
        ("2026-07-01", "2026-06-30T22:00:00Z"),
        ("2026-07-01 14:00Z", "2026-07-01T14:00:00Z"),
        ("2026-07-01 14:00-05:00", "2026-07-01T19:00:00Z"),
        ("@0", "1970-01-01T00:00:00Z"),
        ("2446-05-10 00:00", "2446-05-09T22:00:00Z"),
        ("1901-12-14", "1901-12-13T23:00:00Z"),
        ("today", "2026-03-28T23:00:00Z"),  # the day on which the clock is put forward
        ("yesterday", "2026-03-27T23:00:00Z"),
        ("2h", "2026-03-29T08:00:00Z"),
    ],
)
def test_typed_times_are_read_in_the_zone(text: str, expected: str) -> None:
    now = parse_moment("2026-03-29T10:00", 0)
    assert iso(parse_moment(text, now, zone_of("Europe/Berlin"))) == expected


@pytest.mark.parametrize(
    ("zone", "text", "readings"),
    [
        ("Europe/Berlin", "2026-03-29 02:30", ("2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z")),
        ("Europe/Berlin", "2026-10-25 02:30", ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z")),
        ("Europe/Berlin", "2400-10-29 02:00", ("2400-10-29T00:00:00Z", "2400-10-29T01:00:00Z")),
        ("Pacific/Apia", "2011-12-30 12:00", ("2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z")),
    ],
)
def test_a_time_that_was_never_or_twice_is_refused_with_both_readings(
    zone: str, text: str, readings: tuple[str, str]
) -> None:
    with pytest.raises(RequestError) as caught:
        parse_moment(text, 0, zone_of(zone))
    assert str(caught.value).endswith(f"type {readings[0]} or {readings[1]}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("zone", "day", "expected"),
    [
        ("Asia/Beirut", "2022-03-27", "2022-03-26T22:00:00Z"),  # there was no midnight
        ("America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"),  # there were two
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),  # there was no such day
    ],
)
def test_a_date_is_its_first_moment(zone: str, day: str, expected: str) -> None:
    assert iso(parse_moment(day, 0, zone_of(zone))) == expected


def test_every_local_time_is_read_back() -> None:
    zone, chance = zone_of("America/New_York"), random.Random(3)
    for _ in range(300):
        seconds = chance.randrange(LIMITS[0], LIMITS[-1])
        assert seconds in zone.moments_of(seconds + zone.offset_at(seconds))


def test_a_zone_ends_with_its_block_and_stays_in_its_thread() -> None:
    with pytest.raises(KeyError), times_in(zone_of("Asia/Tokyo")):
        assert zone_line() == "times in Asia/Tokyo"
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(current_zone).result() is UTC
        raise KeyError
    assert current_zone() is UTC
