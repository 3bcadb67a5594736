"""Records of logins: utmp, wtmp and btmp, and lastlog.

Source: utmp(5); glibc sysdeps/gnu/bits/utmp.h and utmpx.h, struct lastlog (both with 32-bit times).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.parsers.layout import Buffer, Layout, Structures
from ext4kit.parsers.words import Bytes, Int16sl, Int16ul, Int32sl, Int32ul, Struct

UTMP = Layout(
    "utmp record",
    Struct(
        "ut_type" / Int16sl,  # index into TYPES
        "ut_pad" / Int16ul,
        "ut_pid" / Int32sl,
        "ut_line" / Bytes(32),  # terminal
        "ut_id" / Bytes(4),
        "ut_user" / Bytes(32),
        "ut_host" / Bytes(256),
        "ut_exit" / Int32ul,
        "ut_session" / Int32sl,
        "ut_tv_sec" / Int32ul,
        "ut_tv_usec" / Int32sl,
        "ut_addr_v6" / Bytes(16),  # IPv4 in the first four
        "ut_unused" / Bytes(20),
    ),
)
LASTLOG = Layout(
    "lastlog record",
    Struct(
        "ll_time" / Int32ul,
        "ll_line" / Bytes(32),
        "ll_host" / Bytes(256),
    ),
)
TYPES = (
    "empty", "run level", "boot", "clock set", "clock before", "init", "login prompt", "login",
    "logout", "accounting",
)  # fmt: skip
STEP = 128  # records and blocks are multiples of it
_EARLIEST, _LATEST = 631_152_000, 4_102_444_800  # 1990 to 2100


@dataclass(frozen=True, slots=True)
class LoginRecord:
    """A record.

    Attributes:
        type: of `TYPES`.
        time: ns since 1970.
        address: of the host as text, "" for none.
        identity: what a copy of the record that another program wrote has in common with it.
    """

    type: str
    pid: int
    line: bytes
    user: bytes
    host: bytes
    address: str
    time: int
    identity: tuple[object, ...]


def find_records(data: Buffer) -> Int64s:
    """Byte offsets (int64, ascending) of whole records that begin at a multiple of `STEP`.

    Records that overlap an earlier one are left out.
    """
    raw = np.frombuffer(data, np.uint8)
    count = (len(raw) - UTMP.size) // STEP + 1
    if count < 1:
        return np.zeros(0, np.int64)
    rows = np.lib.stride_tricks.sliding_window_view(raw, UTMP.size)[::STEP]
    found = np.flatnonzero(are_records(rows)) * STEP
    kept, end = [], 0
    for offset in found.tolist():
        if offset >= end:
            kept.append(offset)
            end = offset + UTMP.size
    return np.array(kept, np.int64)


def are_records(rows: Bytes2D) -> Bools:
    """True for rows (uint8 (n, 384)) that can be a record of a login or the system."""
    kind = rows[:, 0]
    rough = (kind > 0) & (kind < len(TYPES)) & ~rows[:, 1:4].any(axis=1)
    rough &= ~rows[:, UTMP.span("ut_unused")].any(axis=1)
    places = np.flatnonzero(rough)
    columns = UTMP.columns(np.ascontiguousarray(rows[places]))
    good = _are_plausible(columns)
    rough[places] = good
    return rough


def _are_plausible(columns: Structures) -> Bools:
    seconds = columns["ut_tv_sec"].astype(np.int64)
    good: Bools = (seconds > _EARLIEST) & (seconds < _LATEST)
    good &= (columns["ut_tv_usec"] >= 0) & (columns["ut_tv_usec"] < 1_000_000)
    good &= columns["ut_pid"] >= 0
    for name in ("ut_line", "ut_user", "ut_host"):
        text = columns[name]
        good &= ~((text > 0) & (text < 0x20)).any(axis=1)
        good &= ~((text[:, 1:] != 0) & (text[:, :-1] == 0)).any(axis=1)  # zeros fill the rest
    return good & (columns["ut_line"].any(axis=1) | columns["ut_user"].any(axis=1))


def parse_record(data: Buffer, offset: int = 0) -> LoginRecord:
    """The record at an offset.

    Raises:
        CorruptError: the data ends within it.
    """
    row = UTMP.first(data, offset)
    line, user, host = (_text(row[name]) for name in ("ut_line", "ut_user", "ut_host"))
    time = (row.ut_tv_sec * 1_000_000 + row.ut_tv_usec) * 1000
    kind = TYPES[row.ut_type] if 0 <= row.ut_type < len(TYPES) else str(row.ut_type)
    identity = (row.ut_type, row.ut_pid, line, _text(row.ut_id), user, host, row.ut_tv_sec)
    address = _address(row.ut_addr_v6)
    return LoginRecord(kind, row.ut_pid, line, user, host, address, time, identity)


def parse_lastlog(data: Buffer, offset: int) -> tuple[int, bytes, bytes] | None:
    """(time in ns, terminal, host) of the record at an offset; None for an empty one.

    Raises:
        CorruptError: the data ends within it.
    """
    row = LASTLOG.first(data, offset)
    if not row.ll_time:
        return None
    return row.ll_time * 1_000_000_000, _text(row.ll_line), _text(row.ll_host)


def _text(field: bytes) -> bytes:
    return bytes(field).split(b"\0", 1)[0]


def _address(field: bytes) -> str:
    raw = bytes(field)
    if not any(raw):
        return ""
    return str(ipaddress.ip_address(raw[:4] if not any(raw[4:]) else raw))
