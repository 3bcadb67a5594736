"""Records of logins, and entries of journals of systemd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import CorruptError
from ext4kit.logs.kinds import KINDS, LogKind, login_kind
from ext4kit.logs.result import FoundLines
from ext4kit.logs.sources import JOURNAL, LASTLOG, LogSource
from ext4kit.logs.stamps import Clock, TimeGround
from ext4kit.parsers import journald, utmp
from ext4kit.problems import Severity

_SHOWN = (b"_HOSTNAME", b"SYSLOG_IDENTIFIER", b"_COMM", b"_PID", b"SYSLOG_PID", b"MESSAGE")
_TRIED = 16  # entries of a piece, to tell its form
_MOST_UNPACKED = 1 << 30  # bytes of the fields of a journal; real ones have a few MiB
_MOST_SHOWN = 1 << 20  # bytes of a field
_UNPACKED_KEPT = 256  # fields; entries share most of theirs
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


def reader(source: LogSource) -> Callable[[int], bytes]:
    """Gives the record at an offset as text; the log is read and parsed once, now."""
    data = source.whole()
    if source.family == JOURNAL:
        return _entry_reader(source, data)
    write = _last_login_text if source.family == LASTLOG else _login_text

    def text_at(offset: int) -> bytes:
        try:
            return write(data, offset)
        except CorruptError:
            return b""

    return text_at


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


def _entry_reader(source: LogSource, data: bytes) -> Callable[[int], bytes]:
    """Entries as `journalctl` writes them: host, program, process, message."""
    pieces = _JournalPieces.of(data, is_file=source.inode is not None)
    if pieces.are_unknown:
        what = "a piece of a journal: of some entries the fields are in an unknown place"
        source.problems.add(source.name, what, Severity.NOTE)
    return pieces.text_at


class _Unpacker:
    """Decompresses fields, as long as they are not too many: a hostile journal repeats them."""

    def __init__(self) -> None:
        self._left = _MOST_UNPACKED
        self._known = lru_cache(_UNPACKED_KEPT)(self._unpacked)

    def unpack(self, payload: bytes, flags: int) -> bytes:
        """The payload without its compression.

        Raises:
            CorruptError: it is damaged, or all of them together are too large.
            UnsupportedError: its compression needs a library.
        """
        return self._known(payload, flags) if flags else payload

    def _unpacked(self, payload: bytes, flags: int) -> bytes:
        if self._left <= 0:
            raise CorruptError(journald.DATA.name, None, "too much is compressed in this journal")
        found = journald.decompressed(payload, flags)
        self._left -= len(found)
        return found[:_MOST_SHOWN]


@dataclass(frozen=True, slots=True)
class _JournalPieces:
    """A journal file, or pieces of some.

    Attributes:
        data: the bytes.
        entries: by offset.
        starts: offset of each entry.
        bases: per entry, as `bases_of` gives them.
        compact: base -> whether items have 4 bytes.
    """

    data: bytes
    entries: list[journald.JournalEntry]
    starts: Int64s
    bases: Int64s
    compact: dict[int, bool]
    unpacker: _Unpacker = field(default_factory=lambda: _Unpacker())

    @classmethod
    def of(cls, data: bytes, is_file: bool) -> _JournalPieces:
        """The pieces in some data; of a file that is there from its start, one."""
        entries, compact = journald.find_entries(data), journald.is_compact(data)
        starts: Int64s = np.array([each.offset for each in entries], np.int64)
        if is_file and compact is not None:
            return cls(data, entries, starts, starts * 0, {0: compact})
        found = cls(data, entries, starts, journald.bases_of(data, entries), {})
        for base in np.unique(found.bases).tolist():
            rows = np.flatnonzero(found.bases == base)[:_TRIED].tolist()
            readable = [found.readable(rows, is_compact) for is_compact in (False, True)]
            found.compact[base] = readable[1] >= readable[0]
        return found

    @property
    def are_unknown(self) -> bool:
        """Whether the place of some fields is not known."""
        return bool((self.bases == journald.UNKNOWN_BASE).any())

    def readable(self, rows: list[int], is_compact: bool) -> int:
        """The fields of some entries that can be read if items have that form."""
        each = (self._fields(row, is_compact) for row in rows)
        return sum(isinstance(field, tuple) for fields in each for field in fields)

    def _fields(self, row: int, is_compact: bool) -> Iterator[tuple[bytes, bytes] | str]:
        base = int(self.bases[row])

        def place_of(offset: int) -> int | None:
            after = min(int(np.searchsorted(self.starts, offset - base)), len(self.starts) - 1)
            return offset - base if self.bases[after] == base else None

        unpack = self.unpacker.unpack
        return journald.fields_of(self.data, self.entries[row], place_of, is_compact, unpack)

    def text_at(self, offset: int) -> bytes:
        """The entry at an offset; b"" for none."""
        row = int(np.searchsorted(self.starts, offset))
        if row == len(self.starts) or self.starts[row] != offset:
            return b""
        return _entry_text(self._fields(row, self.compact[int(self.bases[row])]))


def _entry_text(fields: Iterator[tuple[bytes, bytes] | str]) -> bytes:
    values, lost = dict[bytes, bytes](), 0
    for found in fields:
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
