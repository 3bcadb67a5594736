"""Logins and logouts are those that `last` tells of the same records."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

import ext4kit
from ext4kit.logs.logins import read_logins
from ext4kit.units import NANOSECONDS

RECORDS = """\
[2] [00000] [~~  ] [reboot  ] [~           ] [6.1.0    ] [0.0.0.0     ] [2026-03-01T00:00:00,000000+00:00]
[7] [00701] [ts/0] [anna    ] [pts/0       ] [10.0.0.5 ] [10.0.0.5    ] [2026-03-01T02:00:00,000000+00:00]
[7] [00705] [ts/1] [otto    ] [pts/1       ] [         ] [10.0.0.6    ] [2026-03-01T02:10:00,000000+00:00]
[8] [00701] [ts/0] [        ] [pts/0       ] [         ] [0.0.0.0     ] [2026-03-01T02:30:00,000000+00:00]
[2] [00000] [~~  ] [reboot  ] [~           ] [6.1.0    ] [0.0.0.0     ] [2026-03-01T02:50:00,000000+00:00]
[7] [00810] [ts/0] [root    ] [pts/0       ] [evil.test] [203.0.113.9 ] [2026-03-01T03:00:00,000000+00:00]
"""  # noqa: E501 -- the form of utmpdump


def nanoseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * NANOSECONDS


@pytest.mark.skipif(not shutil.which("utmpdump") or not shutil.which("last"), reason="no last")
def test_logins_are_those_of_last(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "var/log").mkdir(parents=True)
    wtmp = tree / "var/log/wtmp"
    made = subprocess.run(
        ["utmpdump", "-r"], input=RECORDS.encode(), capture_output=True, check=True
    )
    wtmp.write_bytes(made.stdout)
    shutil.copy(wtmp, tree / "var/log/btmp")  # failed ones are no logins
    image = tmp_path / "image"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, image, "8M"], check=True)
    command = ["last", "-f", str(wtmp), "--time-format", "iso", "-w"]
    told = subprocess.run(
        command, env={**os.environ, "TZ": "UTC"}, capture_output=True, text=True, check=True
    )
    expected = set()
    for line in told.stdout.splitlines():
        words = line.split()
        if len(words) < 4 or words[0] in ("reboot", "wtmp"):
            continue
        stamps = [word for word in words if word.startswith("2026-") and "T" in word]
        end = nanoseconds(stamps[1]) if len(stamps) > 1 else None
        expected.add((words[0].encode(), words[1].encode(), nanoseconds(stamps[0]), end))
    with ext4kit.open(image) as opened:
        logins = read_logins(opened.volume().filesystem())
    found = {(one.user, one.line, one.start, one.end) for one in logins}
    otto = next(one for one in logins if one.user == b"otto")
    assert otto.end == nanoseconds("2026-03-01T02:50:00+00:00")  # `last` says "crash"
    assert len(expected) == 3
    without_crash = {one for one in found if one[0] != b"otto"}
    assert without_crash == {one for one in expected if one[0] != b"otto"}
    assert {one.host for one in logins} == {b"10.0.0.5", b"10.0.0.6", b"evil.test"}
