"""Zones of time zone files and rules: as Python and the C library read them; hostile bytes."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import time
import tracemalloc
import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import CorruptError, RequestError
from ext4kit.system_zone import MOST_BYTES, local_zone, zone_of_root
from ext4kit.zones import Zone, offset_text, zone_names, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_OF_EXT4 = -(1 << 31)
LAST_OF_EXT4 = (1 << 34) - (1 << 31) - 1  # in 2446
FAR = 250_000_000_000  # in 9892
BERLIN = b"\nCET-1CEST,M3.5.0,M10.5.0/3\n"


def expected_offset(zone: zoneinfo.ZoneInfo, seconds: int) -> int:
    offset = (EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def zone_file(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def zone_of_file(data: bytes, link: str = "") -> Zone:
    """The zone of a system that has this file, at the end of a link if there is one."""
    files: dict[str, str | bytes] = {"etc/localtime": link or data, link.strip("/"): data}
    zone = zone_of_root(files.get)
    assert zone is not None
    return zone


def made(
    starts: Sequence[int] = (),
    types: Sequence[int] = (),
    offsets: Sequence[int] = (3600,),
    leaps: int = 0,
    footer: bytes = b"\n\n",
    version: bytes = b"2",
    is_dst: int = 0,
) -> bytes:
    """The bytes of a time zone file, with an empty block of times of 32 bits."""
    counts = (0, 0, leaps, len(starts), len(offsets), 4)
    body = struct.pack(f">{len(starts)}q", *starts) + bytes(types)
    body += b"".join(struct.pack(">iBB", offset, is_dst, 0) for offset in offsets)
    header = b"TZif" + version + bytes(15)
    first = header + struct.pack(">6I", 0, 0, 0, 0, 1, 0) + bytes(6)
    return (
        first + header + struct.pack(">6I", *counts) + body + b"XXX\0" + bytes(12 * leaps) + footer
    )


def test_many_times_have_the_offsets_of_each() -> None:
    """In each zone; among them those around midnight, when clocks are changed, and of one day."""
    chance = random.Random(20261129)
    for name in sorted(zone_names()):
        zone, oracle = zone_of(name), zoneinfo.ZoneInfo(name)
        seconds = [chance.randrange(FIRST_OF_EXT4, LAST_OF_EXT4) for _ in range(20)]
        seconds += [chance.randrange(-30_000_000_000, FAR) for _ in range(10)]
        ends = [zone.first_moment(each) for each in seconds[:3]]
        seconds += [end + more for end in ends for more in (-1, 0, 1)]
        day = 1_774_742_400 + chance.choice([0, 210 * 86_400])  # changes in Europe, in 2026
        seconds += range(day, day + 86_400, 3600)
        expected = [expected_offset(oracle, each) for each in seconds]
        assert zone.offsets_at(np.array(seconds)).tolist() == expected, name
        assert [zone.offset_at(each) for each in seconds] == expected, name
    assert zone.offsets_at(np.empty(0, np.int64)).tolist() == []


def test_files_are_read_as_python_reads_them() -> None:
    chance = random.Random(20261130)
    seconds = np.arange(FIRST_OF_EXT4, LAST_OF_EXT4, 40_000_000)
    names = resources.files("tzdata").joinpath("zones").read_text().split()
    for name in chance.sample(names, 40):
        oracle = zoneinfo.ZoneInfo.from_file(io.BytesIO(zone_file(name)))
        expected = [expected_offset(oracle, each) for each in seconds.tolist()]
        assert zone_of_file(zone_file(name)).offsets_at(seconds).tolist() == expected, name


def offsets_of_date(variable: str, seconds: list[int]) -> list[str]:
    """What `date` gives for a value of `TZ`."""
    lines = "".join(f"@{each}\n" for each in seconds)
    command = ["date", "-f", "-", "+%::z"]
    env = {"TZ": variable}
    done = subprocess.run(command, input=lines, text=True, env=env, capture_output=True)
    return [text.removesuffix(":00") for text in done.stdout.split()]


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
def test_rules_are_those_of_the_c_library(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", rule)
    zone, chance = local_zone(), random.Random(rule)
    seconds = [chance.randrange(0, LAST_OF_EXT4) for _ in range(100)]
    texts = [offset_text(zone.offset_at(each)) for each in seconds]
    assert texts == offsets_of_date(rule, seconds)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "America/Nuuk"])
def test_files_are_those_of_the_c_library(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the far future too."""
    path = tmp_path / "zone"
    path.write_bytes(zone_file(name))
    monkeypatch.setenv("TZ", str(path))
    zone, chance = local_zone(), random.Random(name)
    seconds = [chance.randrange(FIRST_OF_EXT4, LAST_OF_EXT4) for _ in range(100)]
    seconds += [chance.randrange(LAST_OF_EXT4, FAR) for _ in range(100)]
    texts = [offset_text(zone.offset_at(each)) for each in seconds]
    assert texts == offsets_of_date(str(path), seconds)


def test_the_second_block_and_the_footer_count() -> None:
    zone = zone_of_file(made([-(1 << 31), 100], [1, 0], [60, 120], footer=b"\nXXX-1\n"))
    assert [zone.offset_at(each) for each in (-(1 << 32), 0, 101)] == [60, 120, 3600]


def test_a_file_of_the_first_version_has_times_of_32_bits() -> None:
    header = b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 1, 2, 4)
    body = struct.pack(">i", -5) + b"\1" + struct.pack(">iBBiBB", 60, 0, 0, 120, 1, 0) + b"XXX\0"
    zone = zone_of_file(header + body + b"\nXXX-1\n")
    assert [zone.offset_at(each) for each in (-6, -5, 1 << 33)] == [60, 120, 120]


HOSTILE = [
    b"",
    b"TZif",
    b"#!/bin/sh\n" * 10,
    bytes(MOST_BYTES + 1),
    made()[:-8],
    made()[:-1],  # a line that does not end
    made(footer=b""),
    made(footer=b"\nCET-1"),
    made(footer=b"\n" + b"A" * 60_000 + b"1,\n"),
    made(footer=b"\n" + b"A" * 60_000),
    made(footer=b"\nXXX-1\x1b[31m\n"),
    made(footer=b"\nCET-1CEST,M13.5.0,M10.5.0\n"),
    made(footer=b"\nXXX-24:59\n"),
    made(version=b"x"),
    made([5], [1]),  # a local time that is not there
    made([5] * 50, [1] * 50),
    made([5] * 50, [255] * 50),
    made([5] * 60, [0] * 60, [], footer=b"\nXXX-1\n"),
    made([5, 6], [0, 0], [60, 120], is_dst=1),  # nothing follows to tell the offset from
    made(offsets=[]),
    made(offsets=[1 << 30]),
    made(offsets=[-(1 << 31)]),
    made([0], [1], [3600, 86_400]),
    b"TZif2" + bytes(15) + b"\xff" * 24 + bytes(100),  # counts that are negative
    b"TZif2" + bytes(15) + b"\x7f" * 24 + bytes(100),  # counts without end
    *(made()[:70] + struct.pack(">6i", *(-1 if at == bad else 1 for at in range(6))) + bytes(40)
      for bad in range(6)),
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_time_zone_is_refused_at_once_and_in_one_line(data: bytes) -> None:
    start = time.process_time()
    with pytest.raises(RequestError, match="^/etc/localtime is of no use: ") as caught:
        zone_of_file(data)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 100
    assert time.process_time() - start < 5
    assert str(zone_of_file(data, "/usr/share/zoneinfo/Asia/Tokyo")).startswith("Asia/Tokyo (")


def test_the_largest_file_takes_little_memory() -> None:
    count = (MOST_BYTES - 300) // 9
    chance = random.Random(5)
    starts = sorted(chance.randrange(FIRST_OF_EXT4, LAST_OF_EXT4) for _ in range(count))
    data = made(starts, [chance.randrange(2) for _ in starts], [3600, 7200])
    tracemalloc.start()
    try:
        zone = zone_of_file(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert set(zone.offsets_at(np.array(starts)).tolist()) == {3600, 7200}


def test_leap_seconds_are_refused() -> None:
    with pytest.raises(RequestError, match="it counts leap seconds"):
        zone_of_file(made(leaps=1))
    with pytest.raises(RequestError, match="near: "):
        zone_of("right/Europe/Berlin")
    link = "/usr/share/zoneinfo/right/Asia/Tokyo"
    with pytest.raises(RequestError, match="it counts leap seconds"):
        zone_of_file(made(leaps=1), link)


def test_an_offset_of_more_than_a_day_is_told_at_once() -> None:
    with pytest.raises(RequestError, match="an offset is no time of day"):
        zone_of_file(made([1_000_000_000, 1_000_300_000], [1, 0], [3600, 90_000]))


def test_an_offset_of_more_than_a_day_is_told_when_it_is_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ext4kit.system_zone._probes", lambda _: ())
    zone = zone_of_file(made([1_000_000_000, 1_000_300_000], [1, 0], [3600, 90_000]))
    assert zone.offset_at(999_999_999) == 3600
    for ask in (zone.offset_at, zone.moments_of, zone.readings_of, zone.first_moment):
        with pytest.raises(RequestError, match="name the zone, as in --tz Europe/Berlin"):
            ask(1_000_150_000)
    with pytest.raises(RequestError, match="has no offset at 2001-09-1"):
        zone.offsets_at(np.array([1_000_150_000]))


def test_damaged_files_are_refused_or_read() -> None:
    """No other error, whatever bytes are changed; a zone that is read gives offsets."""
    data = zone_file("Europe/Berlin")
    chance = random.Random(7)
    read = 0
    for _ in range(120):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            zone = zone_of_file(bytes(damaged))
            moment = chance.randrange(1 << 34)
            assert abs(zone.offset_at(moment)) < 86_400
            assert zone.offsets_at(np.array([moment])).tolist() == [zone.offset_at(moment)]
            zone.first_moment(moment)
        except (RequestError, CorruptError):
            continue
        read += 1
    assert read


@pytest.mark.parametrize(
    "text",
    ["CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-99", "Nowhere",
     "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J365", "CET-1CEST,366,1",
     "CET-1CEST,M3.5.0,M10.5.0/3,", "XXX-1\nXXX-2", "XXX-1\x1b[31m", "\udcff-1", "/nowhere"],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", text)
    with pytest.raises(RequestError, match="^TZ="):
        local_zone()


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", "/etc/localtime", "Europe", "Europe/", "tzdata.zi",
             "zone.tab", "Europe/Berlin\0", "europe//berlin", "+24:00", "+01:60", "*", "A" * 5000,
             "local", "tzdata", "__init__", "leapseconds"]
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError):
        zone_of(name)


def test_names_come_from_the_package_where_the_system_has_none() -> None:
    seconds = np.arange(-3_000_000_000, LAST_OF_EXT4, 5_000_000)
    expected = zone_of("Europe/Berlin").offsets_at(seconds)
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert (zone_of("Europe/Berlin").offsets_at(seconds) == expected).all()
        for name in ("Europe/Berlln", "Europe"):
            with pytest.raises(RequestError, match=name):
                zone_of(name)
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.parametrize("last", [-(1 << 63), -(1 << 50), 1 << 50, (1 << 63) - 1])
def test_a_change_at_the_end_of_time_is_harmless(last: int) -> None:
    zone = zone_of_file(made([last], [0], footer=BERLIN))
    seconds = [-(1 << 62), -(1 << 40), 0, 1 << 31, 1 << 34, 1 << 62]
    for each, many in zip(seconds, zone.offsets_at(np.array(seconds)).tolist(), strict=True):
        assert zone.offset_at(each) == many
        assert many in (3600, 7200)
        zone.first_moment(each)
