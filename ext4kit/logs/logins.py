"""Logins and logouts in the records of a live system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node
from ext4kit.logs.kinds import LogKind, login_kind
from ext4kit.parsers.utmp import LoginRecord, find_records, parse_record

MOST_BYTES = 64 << 20  # of a file of records
_FOLDERS = (b"/var/log", b"/log", b"/")  # of a system, a volume of /var, one of /var/log
_ENDS_ALL = ("boot", "run level")  # of a shutdown too


@dataclass(frozen=True, slots=True)
class Login:
    """A user who was logged in.

    Attributes:
        user, line, host: name, terminal and remote host or address; b"" for none.
        start, end: ns; `end` is None if no logout is recorded.
    """

    user: bytes
    line: bytes
    host: bytes
    start: int
    end: int | None = None


def read_logins(fs: FileSystem) -> list[Login]:
    """The logins in wtmp and its rotated files, in the order of time."""
    records = sorted(_records(fs), key=lambda record: record.time)
    found: list[Login] = []
    present: dict[bytes, int] = {}  # terminal -> place in `found`
    for record in records:
        ended = [*present] if record.type in _ENDS_ALL else [record.line]
        if record.type in ("login", "logout", *_ENDS_ALL):
            for line in ended:
                if line in present:
                    place = present.pop(line)
                    found[place] = replace(found[place], end=record.time)
        if record.type == "login":
            present[record.line] = len(found)
            host = record.host or record.address.encode()
            found.append(Login(record.user, record.line, host, record.time))
    return found


def _records(fs: FileSystem) -> Iterator[LoginRecord]:
    for node in login_files(fs):
        content = node.readable()
        if content is None or login_kind(node.path) is not LogKind.WTMP:
            continue
        try:
            data = content.read(0, min(content.size, MOST_BYTES))
        except Ext4kitError:
            continue
        for offset in find_records(data).tolist():
            yield parse_record(data, offset)


def login_files(fs: FileSystem) -> Iterator[Node]:
    """The live files of login records in their usual folders."""
    live = LiveView(fs)
    for path in _FOLDERS:
        with suppress(Ext4kitError):
            for node in list(live.lookup(path).children()):
                if node.kind == "file" and login_kind(node.path) is not None:
                    yield node
