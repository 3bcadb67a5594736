"""Each kind of text log is known by its lines, and their times are read."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from ext4kit.logs.kinds import BY_NAME, FAMILIES, LINE, LOG_FILES, LogKind, kind_of
from ext4kit.logs.stamps import Clock, TimeGround
from ext4kit.units import NANOSECONDS
from ext4kit.zones import UTC, Zone, zone_of

LATEST = int(datetime.datetime(2026, 3, 5, tzinfo=datetime.UTC).timestamp()) * NANOSECONDS
STATED, LOCAL, YEAR = TimeGround.STATED, TimeGround.ZONE, TimeGround.YEAR
BERLIN = zone_of("Europe/Berlin")
AT = "2026-03-01T02:04:05"

LINES: tuple[tuple[LogKind, bytes, str | None, TimeGround], ...] = (
    (LogKind.SSHD, b"Mar  1 03:04:05 web sshd[7]: Accepted publickey for root", AT, YEAR),
    (LogKind.SYSLOG, b"Mar  1 03:04:05 web systemd[1]: Started x", AT, YEAR),
    (LogKind.SUDO, b"Mar  1 03:04:05 web sudo:  anna : TTY=pts/0 ; COMMAND=/bin/sh", AT, YEAR),
    (LogKind.CRON, b"Mar  1 03:04:05 web CRON[9]: (root) CMD (run-parts)", AT, YEAR),
    (LogKind.MAIL, b"Mar  1 03:04:05 web postfix/smtpd[3]: connect from", AT, YEAR),
    (LogKind.KERNEL, b"Mar  1 03:04:05 web kernel: [   12.3] usb 1-1", AT, YEAR),
    (LogKind.SSHD, b"2026-03-01T02:04:05.000001+00:00 web sshd[7]: Accepted", AT, STATED),
    (LogKind.SSHD, b"2026-03-01T03:04:05+01:00 web sshd-session[7]: Accepted", AT, STATED),
    (LogKind.SYSLOG, b"<34>1 2026-03-01T02:04:05.003Z web su - ID47 - failed", AT, STATED),
    (LogKind.AUDIT, b"type=USER_LOGIN msg=audit(1772330645.123:45): pid=1 uid=0", AT, STATED),
    (LogKind.WEB_ACCESS, b'10.0.0.1 - - [01/Mar/2026:03:04:05 +0100] "GET / HTTP/1.1" 200', AT,
     STATED),
    (LogKind.WEB_ACCESS, b'web:80 ::1 - anna b [01/Mar/2026:02:04:05 +0000] "GET /" 200', AT,
     STATED),
    (LogKind.WEB_ERROR, b"[Sun Mar 01 03:04:05.123456 2026] [core:error] [pid 1] x", AT, LOCAL),
    (LogKind.WEB_ERROR, b"2026/03/01 03:04:05 [error] 12#12: *1 open() failed", AT, LOCAL),
    (LogKind.DPKG, b"2026-03-01 03:04:05 status installed bash:amd64 5.2", AT, LOCAL),
    (LogKind.APT, b"Start-Date: 2026-03-01  03:04:05", AT, LOCAL),
    (LogKind.APT, b"Commandline: apt install nmap", None, TimeGround.NONE),
    (LogKind.POSTGRESQL, b"2026-03-01 02:04:05.123 UTC [11] LOG:  database system is ready", AT,
     STATED),
    (LogKind.MYSQL, b"2026-03-01T02:04:05.123456Z 0 [Note] ready for connections", AT, STATED),
    (LogKind.MYSQL, b"260301  3:04:05 [Note] Event Scheduler: Loaded", AT, LOCAL),
    (LogKind.DOCKER, b'{"log":"at 2020-01-01 00:00:00\\n","stream":"stdout",'
     b'"time":"2026-03-01T02:04:05.123456789Z"}', AT, STATED),
    (LogKind.OTHER, b"update-alternatives 2026-03-01 03:04:05: run with --quiet", AT, LOCAL),
    (LogKind.OTHER, b"2026-03-01 03:04:05,123 fail2ban.actions [1]: NOTICE Ban 10.0.0.9", AT,
     LOCAL),
    (LogKind.KERNEL, b"[   12.345678] usb 1-1: new device", None, TimeGround.NONE),
    (LogKind.KERNEL, b"<6>[    0.004000] Console: colour VGA+ 80x25", None, TimeGround.NONE),
    (LogKind.KERNEL, b"[Sun Mar  1 03:04:05 2026] usb 1-1: new high-speed USB device", AT, LOCAL),
    (LogKind.KERNEL, b"2026-03-01T03:04:05,123456+01:00 usb 1-1: new device", AT, STATED),
    (LogKind.KERNEL, b"2026-03-01T03:04:05.123456+01:00 web kernel: [   12.345678] usb", AT,
     STATED),
    (LogKind.SYSLOG, b"2026-03-01T03:04:05.123456+01:00 web systemd[1]: Started a.", AT, STATED),
    (LogKind.SUDO, b"2026-03-01T03:04:05.123456+01:00 web sudo:     anna : TTY=pts/0 ; "
     b"PWD=/home/anna ; USER=root ; COMMAND=/bin/sh", AT, STATED),
    (LogKind.SUDO, b"Mar  1 03:04:05 web su[12]: (to root) anna on pts/0", AT, YEAR),
    (LogKind.CRON, b"Mar  1 03:04:05 web crond[9]: (root) CMD (/x)", AT, YEAR),
    (LogKind.AUDIT, b'node=web type=EXECVE msg=audit(1772330645.123:45): argc=2 a0="ls"', AT,
     STATED),
    (LogKind.APT, b"Log started: 2026-03-01  03:04:05", AT, LOCAL),
    (LogKind.APT, b"Install: nmap:amd64 (7.93+dfsg1-1), liblua5.3-0:amd64 (5.3.6-2, automatic)",
     None, TimeGround.NONE),
    (LogKind.DPKG, b"2026-03-01 03:04:05 upgrade bash:amd64 5.1 5.2", AT, LOCAL),
    (LogKind.MAIL, b"2026-03-01 03:04:05 1rfVSN-0007aB-2x <= root@web U=root P=local S=512", AT,
     LOCAL),
    (LogKind.MAIL, b"2026-03-01 03:04:05 Start queue run: pid=812", AT, LOCAL),
    (LogKind.MAIL, b"Mar  1 03:04:05 web exim[812]: Start queue run", AT, YEAR),
    (LogKind.WEB_ERROR, b"[Sun Mar 01 03:04:05 2026] [error] [client 10.0.0.9] File does not exist",
     AT, LOCAL),
    (LogKind.WEB_ACCESS, b'2001:db8::1 - - [01/Mar/2026:03:04:05 +0100] "GET / HTTP/2.0" 304 0 "-"',
     AT, STATED),
    (LogKind.MYSQL, b"2026-03-01  3:04:05 0 [Note] InnoDB: Uses event mutexes", AT, LOCAL),
    (LogKind.MYSQL, b"2026-03-01T02:04:05.123456Z 0 [System] [MY-010116] [Server] mysqld", AT,
     STATED),
    (LogKind.MYSQL, b"2026-03-01T02:04:05.123456Z\t   12 Query\tSELECT 1", AT, STATED),
    (LogKind.MYSQL, b"# Time: 2026-03-01T02:04:05.123456Z", AT, STATED),
    (LogKind.MYSQL, b"# Time: 260301  3:04:05", AT, LOCAL),
    (LogKind.MYSQL, b"# User@Host: root[root] @ localhost []  Id:     8", None, TimeGround.NONE),
    (LogKind.POSTGRESQL, b"2026-03-01 03:04:05.123 CET [12] web@shop FATAL:  password", AT, LOCAL),
    (LogKind.POSTGRESQL, b"2026-03-01 02:04:05 UTC [1234]: [3-1] user=web,db=shop ERROR:  relation",
     AT, STATED),
    (LogKind.DOCKER, b'{"log":"a \\"b\\"\\n","stream":"stderr","attrs":{"tag":"a"},'
     b'"time":"2026-03-01T02:04:05.1Z"}', AT, STATED),
    (LogKind.OTHER, b"2026-03-01 03:04:05 INFO worker: a program's own", AT, LOCAL),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "line", "time", "ground"), LINES)
def test_a_line_is_known(kind: LogKind, line: bytes, time: str | None, ground: TimeGround) -> None:
    found = LINE.search(b"tail of another line\n" + line + b"\nnext")
    assert found is not None and found.lastgroup is not None
    assert found[0] == line
    form, start = BY_NAME[found.lastgroup], found[found.lastgroup]
    assert kind_of(form, line[len(start) :]) is kind
    stamp = form.stamp(start)
    assert (stamp is None) == (time is None)
    if stamp is not None and time is not None:
        moment, told = Clock(BERLIN, LATEST).moment(stamp)
        wanted = datetime.datetime.fromisoformat(f"{time}+00:00").timestamp()
        assert moment // NANOSECONDS == int(wanted) and told is ground


@pytest.mark.parametrize(
    "text",
    (
        b"March 1 was cold", b"2026-03-01", b"see 2026-03-01 03:04:05", b"{\"log\": 1}",
        b"type=text", b"Mar 41 93:04:05",
    ),
)  # fmt: skip
def test_other_texts_are_no_lines(text: bytes) -> None:
    found = LINE.match(text)
    if found is not None and found.lastgroup is not None:
        assert BY_NAME[found.lastgroup].stamp(found[0]) is None


def test_the_year_is_the_last_one_that_fits() -> None:
    form = BY_NAME["bsd"]

    def year(line: bytes, latest: int = LATEST, zone: Zone = UTC) -> int:
        stamp = form.stamp(line)
        assert stamp is not None
        seconds = Clock(zone, latest).moment(stamp)[0] // NANOSECONDS
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).year

    assert year(b"Mar  5 23:59:59") == 2026  # within a day of the last change
    assert year(b"Mar  6 00:00:01") == 2025
    assert year(b"Dec 31 23:59:59") == 2025
    assert year(b"Feb 29 12:00:00") == 2024


def test_a_time_that_no_clock_shows_is_none() -> None:
    assert BY_NAME["iso"].stamp(b"2026-13-01 00:00:00") is None
    assert BY_NAME["bsd"].stamp(b"Foo 01 00:00:00") is None


def test_logs_are_known_by_their_names() -> None:
    logs = (
        "/var/log/auth.log", "/var/log/auth.log.2.gz", "/var/log/apt/history.log", "/x/app.log",
        "/var/log/wtmp-20260301", "/srv/backup/syslog.1", "/a/b-json.log",
        "/var/log/journal/0/system.journal",
    )  # fmt: skip
    others = ("/etc/passwd", "/usr/share/doc/x/changelog.gz", "/usr/bin/login", "/home/a/blog.txt")
    assert [path for path in logs if not LOG_FILES.matches_path(path.encode(), None)] == []
    assert [path for path in others if LOG_FILES.matches_path(path.encode(), None)] == []


def test_each_kind_is_of_one_family() -> None:
    kinds = [kind for family in FAMILIES.values() for kind in family]
    assert sorted(kinds) == sorted(LogKind) and len(set(kinds)) == len(kinds)
    assert np.iinfo(np.int8).max > len(kinds)
