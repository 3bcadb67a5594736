"""What programs of a clean server do to their logs, without taking anything away by hand."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.logs.log_scenes import (
    HAS_TO_JOURNAL,
    NOW,
    Scene,
    iso_line,
    journal,
    login_record,
    syslog_line,
)

AT_ONCE = 150  # lines of a round
_FOLDER = "journal/0123456789abcdef0123456789abcdef"


def _lines(number: int, form: Callable[[int], bytes] = syslog_line) -> list[bytes]:
    return [form(each) for each in range(number * AT_ONCE, (number + 1) * AT_ONCE)]


def _clock(number: int, form: str) -> bytes:
    return time.strftime(form, time.gmtime(NOW - 86_400 + number * 20)).encode()


def postgresql_line(number: int) -> bytes:
    """As of PostgreSQL."""
    return _clock(number, "%Y-%m-%d %H:%M:%S.123 UTC") + b" [77] LOG:  statement no %d" % number


def docker_line(number: int) -> bytes:
    """A record of the driver json-file."""
    moment = _clock(number, "%Y-%m-%dT%H:%M:%S.000000001Z")
    return b'{"log":"GET /%d\\n","stream":"stdout","time":"%s"}' % (number, moment)


def program_line(number: int) -> bytes:
    """Of a program with its own log."""
    return _clock(number, "%Y-%m-%d %H:%M:%S") + b" INFO worker: job %d is done" % number


def saved(scene: Scene, number: int) -> None:
    """`savelog` moves each log, and compresses the one before."""
    for name in ("daemon.log", "dmesg"):
        line = syslog_line if name == "daemon.log" else _ring_line
        scene.write(name, _lines(number, line))
        scene.sync()
        scene.shell(f"savelog -q -c 3 {name}")
        scene.sync()


def _ring_line(number: int) -> bytes:
    return b"[ %4d.%06d] usb 1-1: new device no %d" % (number // 10, number, number % 7)


def started_again(scene: Scene, number: int) -> None:
    """Programs that truncate their own log when they start, and write it again."""
    for name, form in (
        ("Xorg.0.log", lambda at: b"[  %4d.%03d] (II) modeset(0): no %d" % (at, at % 1000, at)),
        ("worker.log", program_line),
        ("boot.log", lambda at: b"[  OK  ] Started service no %d" % at),
        ("sshd-report.log", lambda at: syslog_line(at, "report")),  # journalctl > report
    ):
        path = scene.log / name
        path.write_bytes(b"".join(line + b"\n" for line in _lines(number, form)))
        scene.sync()


def in_weekdays(scene: Scene, number: int) -> None:
    """PostgreSQL with one file for each weekday, truncated a week later."""
    folder = scene.log / "postgresql"
    folder.mkdir(exist_ok=True)
    path = folder / f"postgresql-{('Mon', 'Tue')[number % 2]}.log"
    path.write_bytes(b"".join(line + b"\n" for line in _lines(number, postgresql_line)))
    scene.sync()


def of_containers(scene: Scene, number: int) -> None:
    """Docker: with max-file=1 the file is truncated, else it is renamed."""
    for name, is_kept in (("one", False), ("two", True)):
        folder = scene.top / f"var/lib/docker/containers/{name}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-json.log"
        if is_kept and path.exists():
            path.rename(path.with_suffix(".log.1"))
        path.write_bytes(b"".join(line + b"\n" for line in _lines(number, docker_line)))
        scene.sync()


def of_logins(scene: Scene, number: int) -> None:
    """Wtmp and btmp are rotated; entries of utmp and lastlog are replaced in their places."""
    records = [login_record(each) for each in range(number * AT_ONCE, (number + 1) * AT_ONCE)]
    for name in ("wtmp", "btmp"):
        path = scene.log / name
        with path.open("ab") as stream:
            stream.writelines(records[:100])
        scene.sync()
        with path.open("ab") as stream:
            stream.writelines(records[100:])
        scene.sync()
        path.rename(path.with_name(f"{name}.1"))
        path.touch()
        scene.sync()
    for name, size, some in (
        ("utmp", 384, records[:20]),
        ("lastlog", 292, [_last_login(number * 20 + each) for each in range(20)]),
    ):
        path = scene.log / name
        path.touch()
        with path.open("r+b") as stream:
            for at, record in enumerate(some):
                stream.seek((at + number) * size)
                stream.write(record)
        scene.sync()


def _last_login(number: int) -> bytes:
    return struct.pack("<I32s256s", NOW - 86_400 + number, b"pts/%d" % number, b"host")


def in_a_circle(scene: Scene, number: int) -> None:
    """A log of a fixed size, in which the newest lines replace the oldest ones."""
    path, size = scene.log / "circle.log", 64 << 10
    if not path.exists():
        path.write_bytes(b" " * size)
    data = b"".join(line + b"\n" for line in _lines(number, lambda at: syslog_line(at, "ring")))
    with path.open("r+b") as stream:
        start = number * len(data) * 2 % size
        for at, piece in enumerate((data, data)):
            place = (start + at * len(data)) % size
            stream.seek(place)
            stream.write(piece[: size - place])
            stream.seek(0)
            stream.write(piece[size - place :])
    scene.sync()


def cleaned_by_itself(scene: Scene, number: int) -> None:
    """A program drops entries from the middle of its own log."""
    path = scene.log / "jobs.log"
    held = path.read_bytes().splitlines() if path.exists() else []
    held = [line for at, line in enumerate(held) if at % 3]
    path.write_bytes(b"".join(line + b"\n" for line in held + _lines(number, program_line)))
    scene.sync()


def twice_in_a_second(scene: Scene, number: int) -> None:
    """The same lines are written before and after the log is copied and truncated."""
    path = scene.log / "hits.log"
    second = _clock(number * AT_ONCE, "%d/%b/%Y:%H:%M:%S +0000")
    hits = [b'10.0.0.%d - - [%s] "GET / HTTP/1.1" 200 7' % (at % 3, second) for at in range(90)]
    scene.write("hits.log", [*hits, b'10.0.0.9 - - [%s] "GET /%d" 200 7' % (second, number)])
    scene.sync()
    old = path.with_name("hits.log.1")
    shutil.copyfile(path, old)
    path.write_bytes(b"".join(line + b"\n" for line in hits[:40]))
    scene.sync()


def viewed(scene: Scene, number: int) -> None:
    """A log is written by an editor as it is, and trimmed to its last lines."""
    scene.write("kern.log", _lines(number))
    scene.sync()
    if shutil.which("ed"):
        scene.shell("printf 'w\\nq\\n' | ed -s kern.log")
        scene.sync()
    scene.shell("tail -n 200 kern.log > kept; cat kept > kern.log; rm kept")
    scene.sync()


def vacuumed(scene: Scene, number: int) -> None:
    """`journalctl --vacuum-files` removes archived files."""
    if not HAS_TO_JOURNAL or shutil.which("journalctl") is None:
        return
    folder = scene.log / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = f"system@{number:032x}-{number:016x}-{number:016x}.journal"
    journal(folder / name, range(number * 40, number * 40 + 40))
    scene.sync()
    command = ["journalctl", f"--directory={folder.parent}", "--vacuum-files=2"]
    subprocess.run(command, capture_output=True, check=True)
    scene.sync()


def _dpkg_line(number: int) -> bytes:
    return _clock(number, "%Y-%m-%d %H:%M:%S status installed a:amd64 ") + b"%d" % number


def _audit_line(number: int) -> bytes:
    return b"type=USER_LOGIN msg=audit(%d.000:%d): pid=1" % (NOW + number, number)


def _apt_line(number: int) -> bytes:
    return _clock(number, "Start-Date: %Y-%m-%d  %H:%M:%S")


def rotated(scene: Scene, number: int) -> None:
    """`logrotate` as Debian has it for rsyslog, apt and dpkg, and with other words."""
    if shutil.which("logrotate") is None:
        return
    (scene.log / "apt").mkdir(exist_ok=True)
    common = "rotate 2\nmissingok\nnotifempty\nsu root root\n"
    logs = {
        "syslog": "compress\ndelaycompress",
        "auth.log": "create",
        "mail.log": "copytruncate\ncompress",
        "user.log": "create\ndateext\ndateformat -%Y%m%d%s\ncompress",
        "audit.log": "copytruncate\ndateext\ndateformat .%Y%m%d%s",
        "dpkg.log": "compress\ndelaycompress\ncreate",
        "apt/history.log": "compress",
        "secure": "shred\ncreate",
    }
    forms = {
        "dpkg.log": _dpkg_line, "audit.log": _audit_line, "apt/history.log": _apt_line,
        "syslog": iso_line,
    }  # fmt: skip
    for name in logs:
        lines = _lines(number, forms.get(name, partial(syslog_line, word=name)))
        scene.write(name, lines[:100])
        scene.sync()
        scene.write(name, lines[100:])
    conf = scene.image.with_suffix(".conf")
    conf.write_text(
        "".join(f"{scene.log / name} {{\n{common}{how}\n}}\n" for name, how in logs.items())
    )
    time.sleep(1.01)  # names with the time differ
    state = scene.image.with_suffix(".state")
    command = ["logrotate", "-f", "-s", str(state), str(conf)]
    subprocess.run(command, check=True, capture_output=True)
    scene.sync()


WAYS: tuple[Callable[[Scene, int], None], ...] = (
    saved, started_again, in_weekdays, of_containers, of_logins, in_a_circle, cleaned_by_itself,
    twice_in_a_second, viewed, vacuumed, rotated,
)  # fmt: skip


def live(scene: Scene) -> set[str]:
    """The lines of all text logs that are there, compressed or not."""
    found: set[str] = set()
    read = {".gz": "zcat", ".xz": "xzcat"}
    for path in (each for each in scene.top.rglob("*") if each.is_file()):
        if not path.name.endswith((".journal", "tmp", "tmp.1", "lastlog")):
            found.update(_text(read.get(path.suffix, "cat"), path).splitlines())
    return found


def _text(command: str, path: Path) -> str:
    done = subprocess.run([command, path], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")
