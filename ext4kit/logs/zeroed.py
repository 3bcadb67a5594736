"""Records of logins that were filled with zeros in their places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Rows, UInt8s
from ext4kit.logs.kinds import LogKind, login_kind
from ext4kit.logs.sources import LOGINS, LogSource
from ext4kit.parsers.utmp import UTMP

_KINDS = (LogKind.WTMP, LogKind.BTMP)  # programs append to these


@dataclass(frozen=True, slots=True)
class ZeroedRecords:
    """Records of zeros between other records of a log of logins.

    Attributes:
        path: of the log; inode, generation: of its file.
        count: number of these records.
        offset: byte of the first one.
        changed: when the file was changed last, ns.
    """

    path: bytes
    inode: int | None
    generation: int | None
    count: int
    offset: int
    changed: int


def zeroed_records(source: LogSource) -> ZeroedRecords | None:
    """The records of zeros in a log; None for none.

    A crash leaves zeros from the start of a block on, where the data were not written. Records of
    zeros that may begin there do not count.
    """
    if source.path is None or login_kind(source.path) not in _KINDS or source.family != LOGINS:
        return None
    data = np.frombuffer(source.whole(), np.uint8)
    size = UTMP.size
    records = data[: len(data) // size * size].reshape(-1, size)
    filled: Bools = (records != 0).any(axis=1)
    known = np.flatnonzero(filled)
    if not len(known):
        return None
    between: Bools = np.logical_not(filled)
    between[: known[0]] = between[known[-1] :] = False
    rows = np.flatnonzero(between)
    starts = rows[np.diff(rows, prepend=-2) > 1]
    block = source.content.blocks.block_size
    for start in starts[_may_be_lost(records, starts, block)].tolist():
        between[start : known[np.searchsorted(known, start)]] = False
    rows = np.flatnonzero(between)
    if not len(rows):
        return None
    first = int(rows[0]) * size
    where = source.inode, source.generation
    return ZeroedRecords(source.path, *where, len(rows), first, source.latest)


def _may_be_lost(records: UInt8s, starts: Rows, block: int) -> Bools:
    """True for each start of zeros if a block begins between the last other byte and it."""
    before = records[starts - 1, ::-1] != 0
    end = starts * records.shape[1]
    last = end - before.argmax(axis=1)  # byte after the last one that is no zero
    found: Bools = end // block * block >= last
    return found
