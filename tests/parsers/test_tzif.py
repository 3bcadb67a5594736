"""Time zone files: each zone of the tz database as Python's `zoneinfo` reads it; hostile bytes."""

from __future__ import annotations

import random
import struct
import subprocess
import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources

import numpy as np
import pytest

from ext4kit.errors import CorruptError, RequestError, UnsupportedError
from ext4kit.parsers.tzif import (
    HEADER,
    LOCAL_TIME_TYPE,
    MOST_BYTES,
    TimeZoneFile,
    parse_rule,
    parse_tzif,
)
from ext4kit.zones import Zone, offset_text, ruled_zone, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_OF_EXT4 = (1 << 34) - (1 << 31) - 1  # in 2446
FAR = 250_000_000_000  # in 9892


def expected_offset(zone: zoneinfo.ZoneInfo, seconds: int) -> int:
    offset = (EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def moments(zone: Zone, chance: random.Random) -> list[int]:
    """Times at random, and those around some changes of the clock."""
    found = [chance.randrange(-(1 << 31), LAST_OF_EXT4) for _ in range(20)]
    found += [chance.randrange(-30_000_000_000, FAR) for _ in range(10)]
    changes = [each for each in zone.starts.tolist() if -60_000_000_000 < each < FAR]
    for change in chance.sample(changes, min(len(changes), 8)):
        found += [change - 1, change, change + 1]
    return found


def test_every_zone_is_that_of_python() -> None:
    chance = random.Random(20261129)
    for name in sorted(zoneinfo.available_timezones()):
        zone, oracle = zone_of(name), zoneinfo.ZoneInfo(name)
        seconds = moments(zone, chance)
        expected = [expected_offset(oracle, each) for each in seconds]
        assert zone.offsets_at(np.array(seconds)).tolist() == expected, name
        assert [zone.offset_at(each) for each in seconds] == expected, name


@pytest.mark.parametrize(
    "rule",
    [
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",  # before midnight
        "IST-2IDT,M3.4.4/26,M10.5.0",  # more than a day
        "EST5EDT,0/0,J365/25",  # daylight saving time all the year
        "AAA-9:30BBB-10:30:15,J60,300/1:30",
        "XXX-14",
    ],
)
def test_rules_are_those_of_the_c_library(rule: str) -> None:
    zone = ruled_zone(rule, TimeZoneFile(np.empty(0, np.int64), np.zeros(1, np.int64), rule))
    chance = random.Random(rule)
    seconds = [chance.randrange(0, LAST_OF_EXT4) for _ in range(100)]
    lines = "".join(f"@{each}\n" for each in seconds)
    command = ["date", "-f", "-", "+%::z"]
    done = subprocess.run(command, input=lines, text=True, env={"TZ": rule}, capture_output=True)
    texts = [text.removesuffix(":00") for text in done.stdout.split()]
    assert [offset_text(zone.offset_at(each)) for each in seconds] == texts


def test_the_layout_is_that_of_the_specification() -> None:
    assert (HEADER.size, LOCAL_TIME_TYPE.size) == (44, 6)
    assert HEADER.offset_of("isutcnt") == 20
    assert HEADER.offset_of("charcnt") == 40


def made(
    starts: Sequence[int] = (),
    types: Sequence[int] = (),
    offsets: Sequence[int] = (3600,),
    leaps: int = 0,
    footer: bytes = b"\n\n",
    version: bytes = b"2",
) -> bytes:
    """The bytes of a time zone file, with an empty block of times of 32 bits."""
    counts = (0, 0, leaps, len(starts), len(offsets), 4)
    body = struct.pack(f">{len(starts)}q", *starts) + bytes(types)
    body += b"".join(struct.pack(">iBB", offset, 0, 0) for offset in offsets)
    header = b"TZif" + version + bytes(15)
    first = header + struct.pack(">6I", 0, 0, 0, 0, 1, 0) + bytes(6)
    return (
        first + header + struct.pack(">6I", *counts) + body + b"XXX\0" + bytes(12 * leaps) + footer
    )


def test_the_second_block_and_the_footer_count() -> None:
    found = parse_tzif(made([-(1 << 40), 100], [1, 0], [60, 120], footer=b"\nXXX-1\n"))
    assert found.starts.tolist() == [-(1 << 40), 100]
    assert found.offsets.tolist() == [60, 120, 60]
    assert found.rule == "XXX-1"


def test_a_file_of_the_first_version_has_times_of_32_bits() -> None:
    header = b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 1, 2, 4)
    body = struct.pack(">i", -5) + b"\1" + struct.pack(">iBBiBB", 60, 0, 0, 120, 1, 0) + b"XXX\0"
    found = parse_tzif(header + body + b"\nXXX-1\n")
    assert (found.starts.tolist(), found.offsets.tolist(), found.rule) == ([-5], [60, 120], "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"TZif",
        b"#!/bin/sh\n" * 10,
        bytes(MOST_BYTES + 1),
        made()[:-8],
        made([5], [1]),  # a local time that is not there
        made([5, 5], [0, 0]),
        made([9, 5], [0, 0]),
        made(offsets=[]),
        made(offsets=[1 << 30]),
        b"TZif2" + bytes(15) + b"\xff" * 24 + bytes(100),  # counts without end
    ],
)
def test_what_is_no_time_zone_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptError):
        parse_tzif(data)


def test_leap_seconds_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        parse_tzif(made(leaps=1))


def test_damaged_files_are_refused_or_read() -> None:
    """No other error, whatever bytes are changed; a zone that is read gives offsets."""
    data = resources.files("tzdata").joinpath("zoneinfo", "Europe", "Berlin").read_bytes()
    chance = random.Random(7)
    read = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            zone = ruled_zone("x", parse_tzif(bytes(damaged)))
        except (CorruptError, UnsupportedError, ValueError):
            continue
        read += 1
        assert abs(zone.offset_at(chance.randrange(1 << 34))) <= 26 * 3600
    assert read


@pytest.mark.parametrize(
    "text",
    ["", "X-1", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-99",
     "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J365", "CET-1CEST,366,1",
     "CET-1CEST,1/168,2", "CET-1:60", "CÉT-1", "CET-1\n", "CET-1CEST,M3.5.0,M10.5.0/3,"],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        parse_rule(text)


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", "/etc/localtime", "Europe", "Europe/", "tzdata.zi",
             "zone.tab", "Europe/Berlin\0", "europe//berlin", "+24:00", "+01:60", "*"]
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError):
        zone_of(name)


def test_names_come_from_the_package_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = np.arange(-3_000_000_000, LAST_OF_EXT4, 5_000_000)
    expected = zone_of("Europe/Berlin").offsets_at(seconds)
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    assert (zone_of("Europe/Berlin").offsets_at(seconds) == expected).all()
    with pytest.raises(RequestError, match="Europe/Berlin"):
        zone_of("Europe/Berlln")


@pytest.mark.parametrize("last", [-(1 << 63), -(1 << 50), 1 << 50, (1 << 63) - 1])
def test_a_change_at_the_end_of_time_is_harmless(last: int) -> None:
    footer = b"\nCET-1CEST,M3.5.0,M10.5.0/3\n"
    zone = ruled_zone("x", parse_tzif(made([last], [0], footer=footer)))
    seconds = [-(1 << 40), 0, 1 << 31, 1 << 34, 1 << 62]
    for each, many in zip(seconds, zone.offsets_at(np.array(seconds)).tolist(), strict=True):
        assert zone.offset_at(each) == many
        assert many in (3600, 7200)
        zone.first_moment(each)
