"""Records of logins and of auditd are read as their own programs read them."""

from __future__ import annotations

import csv
import datetime
import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ext4kit.logs.kinds import BY_NAME, LINE
from ext4kit.logs.stamps import Clock
from ext4kit.parsers import utmp
from ext4kit.units import NANOSECONDS
from ext4kit.zones import UTC
from tests.logs.log_scenes import login_record

COUNT = 50


@pytest.mark.skipif(shutil.which("ausearch") is None, reason="needs auditd")
def test_ausearch_finds_the_same_times(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(
        b"type=USER_LOGIN msg=audit(%d.%03d:%d): pid=7 uid=0 auid=1000 ses=3 msg='op=login id=1000"
        b" exe=\"/usr/sbin/sshd\" hostname=web addr=10.0.0.9 terminal=ssh res=success'\n"
        % (1_772_330_645 + number * 61, number, number + 1) for number in range(COUNT)
    ))  # fmt: skip
    done = subprocess.run(
        ["ausearch", "--input", path, "--format", "csv"], capture_output=True, check=True,
        env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    theirs = [
        datetime.datetime.strptime(f"{row['DATE']} {row['TIME']} +0000", "%m/%d/%y %H:%M:%S %z")
        for row in rows
    ]
    form, clock = BY_NAME["audit"], Clock(UTC, 0)
    mine = []
    for found in LINE.finditer(path.read_bytes()):
        assert found.lastgroup == "audit"
        stamp = form.stamp(found["audit"])
        assert stamp is not None
        mine.append(clock.moment(stamp)[0] // NANOSECONDS)
    assert len(mine) == COUNT and mine == [int(time.timestamp()) for time in theirs]


@pytest.mark.skipif(shutil.which("last") is None, reason="needs last")
def test_last_lists_the_same_logins(tmp_path: Path) -> None:
    path = tmp_path / "wtmp"
    data = b"".join(map(login_record, range(COUNT)))
    path.write_bytes(data)
    done = subprocess.run(
        ["last", "-f", path, "-w", "--time-format", "iso"], capture_output=True, check=True,
        env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.decode().splitlines() if line.startswith("user")]
    theirs = {
        (row[0], row[1], row[2], datetime.datetime.fromisoformat(row[3]).timestamp())
        for row in rows
    }
    records = [utmp.parse_record(data, at) for at in utmp.find_records(data).tolist()]
    mine = {
        (one.user.decode(), one.line.decode(), one.host.decode(), one.time // NANOSECONDS)
        for one in records
    }
    assert len(mine) == COUNT and mine == theirs
