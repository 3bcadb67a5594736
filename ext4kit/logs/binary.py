"""Records of logins, and entries of journals of systemd."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from ext4kit.errors import CorruptError
from ext4kit.logs.kinds import KINDS, LogKind, login_kind
from ext4kit.logs.result import FoundLines
from ext4kit.logs.sources import JOURNAL, LASTLOG, LogSource
from ext4kit.logs.stamps import Clock, TimeGround
from ext4kit.parsers import journald, utmp
from ext4kit.problems import Severity

_SHOWN = (b"_HOSTNAME", b"SYSLOG_IDENTIFIER", b"_COMM", b"_PID", b"SYSLOG_PID", b"MESSAGE")
_Row = tuple[int, int, int, int]  # key, offset, length, time


def find(source: LogSource, row: int, _clock: Clock) -> FoundLines:
    """The records of a binary log; `row` is that of the source."""
    data = source.whole()
    makers = {JOURNAL: _entries, LASTLOG: _last_logins}
    rows = list(makers.get(source.family, _logins)(data))
    key, offset, length, time = np.array(rows, np.int64).reshape(-1, 4).T
    none, place = np.zeros(len(key), np.int8), np.full(len(key), row, np.intp)
    kind = LogKind.JOURNAL if source.family == JOURNAL else login_kind(source.path) or LogKind.UTMP
    kinds = np.full(len(key), KINDS.index(kind), np.int8)
    stated = np.full(len(key), TimeGround.STATED, np.int8)
    return FoundLines(key, key * 0, place, offset, length, kinds, time, stated, none)


def _logins(data: bytes) -> Iterator[_Row]:
    for offset in utmp.find_records(data).tolist():
        record = utmp.parse_record(data, offset)
        yield hash(record.identity), offset, utmp.UTMP.size, record.time


def _last_logins(data: bytes) -> Iterator[_Row]:
    size = utmp.LASTLOG.size
    for offset in range(0, len(data) - size + 1, size):
        if found := utmp.parse_lastlog(data, offset):
            yield hash((offset, found)), offset, size, found[0]


def _entries(data: bytes) -> Iterator[_Row]:
    for entry in journald.find_entries(data):
        yield hash(entry.identity), entry.offset, entry.size, entry.time


def texts(source: LogSource, offsets: list[int], _lengths: list[int]) -> list[bytes]:
    """The records at these offsets as text."""
    data = source.whole()
    if source.family == JOURNAL:
        return _entry_texts(source, data, offsets)
    write = _last_login_text if source.family == LASTLOG else _login_text
    found = []
    for offset in offsets:
        try:
            found.append(write(data, offset))
        except CorruptError:
            found.append(b"")
    return found


def _login_text(data: bytes, offset: int) -> bytes:
    record = utmp.parse_record(data, offset)
    host = record.host or record.address.encode()
    parts = [record.type.encode(), record.user, record.line]
    parts += [b"from " + host] if host else []
    return b" ".join([*filter(None, parts), b"(pid %d)" % record.pid])


def _last_login_text(data: bytes, offset: int) -> bytes:
    found = utmp.parse_lastlog(data, offset)
    _, line, host = found or (0, b"", b"")
    words = b"last login of uid %d on %s" % (offset // utmp.LASTLOG.size, line)
    return words + b" from " + host if host else words


def _entry_texts(source: LogSource, data: bytes, offsets: list[int]) -> list[bytes]:
    """Entries as `journalctl` writes them: host, program, process, message."""
    entries = {each.offset: each for each in journald.find_entries(data)}
    parts = _parts(data, list(entries.values()))
    starts = [start for start, _, _ in parts]
    found = []
    for offset in offsets:
        _, compact, base = parts[bisect_right(starts, offset) - 1]
        if base is None:
            what = "a piece of a journal: its entries are there, their fields are not"
            source.problems.add(source.name, what, Severity.NOTE)
        entry = entries.get(offset)
        found.append(b"" if entry is None else _entry_text(data, entry, base or 0, compact))
    return found


def _parts(data: bytes, entries: list[journald.JournalEntry]) -> list[tuple[int, bool, int | None]]:
    """(start, whether items are compact, base) of each file, or piece of one, in the data."""
    starts, place = [], data.find(journald.MAGIC)
    while place >= 0:
        starts += [place] if place % 512 == 0 else []
        place = data.find(journald.MAGIC, place + 1)
    before = [each for each in entries if not starts or each.offset < starts[0]]
    first = (0, *_of_piece(data[: starts[0]] if starts else data, before))
    return [
        first,
        *((at, journald.is_compact(data[at : at + 4096]) or False, -at) for at in starts),
    ]


def _of_piece(data: bytes, entries: list[journald.JournalEntry]) -> tuple[bool, int | None]:
    """(whether items are compact, the base) of a piece of a journal without its header."""
    base = journald.base_of(data, entries)
    if base is None:
        return True, None

    def readable(compact: bool) -> int:
        some = entries[:: max(len(entries) // 16, 1)]
        each = (journald.fields_of(data, entry, base, compact) for entry in some)
        return sum(isinstance(field, tuple) for fields in each for field in fields)

    return readable(True) >= readable(False), base


def _entry_text(data: bytes, entry: journald.JournalEntry, base: int, compact: bool) -> bytes:
    values, lost = dict[bytes, bytes](), 0
    for found in journald.fields_of(data, entry, base, compact):
        if isinstance(found, str):
            lost += 1
        elif found[0] in _SHOWN:
            values.setdefault(*found)
    program = values.get(b"SYSLOG_IDENTIFIER") or values.get(b"_COMM") or b"unknown"
    process = values.get(b"_PID") or values.get(b"SYSLOG_PID")
    parts = [values.get(b"_HOSTNAME", b""), program + (b"[%s]:" % process if process else b":")]
    message = values.get(b"MESSAGE", b"")
    if lost and not message:
        message = b"(%d fields are overwritten)" % lost
    return b" ".join([*filter(None, parts), message])
