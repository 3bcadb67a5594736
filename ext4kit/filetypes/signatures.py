"""Signatures at the start of files, matched with the first bytes of many blocks at once.

They are only used to find where files begin. `identify` determines the final type of a file.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, UInt8s
from ext4kit.filetypes.formats import FORMATS
from ext4kit.filetypes.formats.declaration import HEAD

SIGNATURES = sorted(  # (magic, name of the format); the last one that matches is used
    ((start, one.name) for one in FORMATS for start in one.magics),
    key=lambda pair: pair[0].mask.bit_count(),
)
SIGNATURE_NAMES = ("", *(one.name for one in FORMATS))
SIGNATURE_INDEX = {name: number for number, name in enumerate(SIGNATURE_NAMES)}
WEAK_SIGNATURES = frozenset(
    name for start, name in SIGNATURES if len(start.magic) - len(start.any_at) < 3
)
LONG_SIGNATURES = frozenset(  # magics with at least four nonzero bytes
    name for start, name in SIGNATURES if HEAD - start.value.to_bytes(HEAD, "little").count(0) > 3
) | frozenset(
    one.name
    for one in FORMATS
    for parts in one.inside
    if not one.has_members and sum(len(magic) - magic.count(0) for _, magic in parts) > 3
)


def _possible_prefixes() -> Bools:
    """Bool (65536,): True where a signature can start with these two bytes (little-endian)."""
    possible = np.zeros(1 << 16, bool)
    words = np.arange(1 << 16, dtype=np.uint32)
    for start, _ in SIGNATURES:
        mask = start.mask & 0xFFFF
        if mask:
            possible |= (words & mask) == (start.value & 0xFFFF)
    return possible


_OPENINGS = _possible_prefixes()
_COMPARED = [
    (np.uint64(start.mask), np.uint64(start.value), SIGNATURE_INDEX[name])
    for start, name in SIGNATURES
]
_BOX_NAMES = [
    np.uint64(name)
    for name in {start.value >> 32 for start, _ in SIGNATURES if not start.mask & 0xFFFFFFFF}
]


_INSIDE = [(one.name, parts) for one in FORMATS for parts in one.inside]


def match_signatures(data: Bytes2D) -> UInt8s:
    """uint8 (n,): index of the signature at the start of each block, 0 for none.

    Args:
        data: uint8 (n, block size).
    """
    head = np.ascontiguousarray(data[:, :HEAD]).view("<u8")[:, 0]
    kinds = np.zeros(len(data), np.uint8)
    possible = _OPENINGS[(head & np.uint64(0xFFFF)).astype(np.int64)]
    names = head >> np.uint64(32)
    for name in _BOX_NAMES:
        possible |= names == name
    rows = np.flatnonzero(possible)
    heads = head[rows]
    for mask, value, number in _COMPARED if len(rows) else ():
        kinds[rows[(heads & mask) == value]] = number
    return _match_offset_signatures(data, kinds)


def _match_offset_signatures(data: Bytes2D, kinds: UInt8s) -> UInt8s:
    """The signatures of blocks, with those added whose magic is at a larger offset."""
    for kind, parts in _INSIDE:
        rows = np.flatnonzero(data[:, parts[0][0]] == parts[0][1][0])
        for at, magic in parts:
            found = data[rows, at : at + len(magic)]
            rows = rows[(found == np.frombuffer(magic, np.uint8)).all(axis=1)]
        kinds[rows] = SIGNATURE_INDEX[kind]
    return kinds
