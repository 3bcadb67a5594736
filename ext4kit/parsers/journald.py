"""Journal files of systemd: the header, entries and data objects.

Source: systemd docs/JOURNAL_FILE_FORMAT.md; src/libsystemd/sd-journal/journal-def.h.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, UInt64s
from ext4kit.errors import CorruptError, UnsupportedError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Bytes, Int8ul, Int32ul, Int64ul, Struct

MAGIC = b"LPKSHHRH"
HEADER = Layout(
    "journal file header",
    Struct(
        "signature" / Bytes(8),
        "compatible_flags" / Int32ul,
        "incompatible_flags" / Int32ul,
        "state" / Int8ul,
        "reserved" / Bytes(7),
        "file_id" / Bytes(16),
        "machine_id" / Bytes(16),
        "tail_entry_boot_id" / Bytes(16),
        "seqnum_id" / Bytes(16),
        "header_size" / Int64ul,
        "arena_size" / Int64ul,
        "data_hash_table_offset" / Int64ul,
        "data_hash_table_size" / Int64ul,
        "field_hash_table_offset" / Int64ul,
        "field_hash_table_size" / Int64ul,
        "tail_object_offset" / Int64ul,
        "n_objects" / Int64ul,
        "n_entries" / Int64ul,
    ),
)
OBJECT = Layout(
    "journal object header",
    Struct(
        "type" / Int8ul,
        "flags" / Int8ul,  # compression of a data object
        "reserved" / Bytes(6),
        "size" / Int64ul,  # with this header
    ),
)
DATA = Layout(
    "journal data object",
    Struct(
        "object" / Bytes(16),
        "hash" / Int64ul,
        "next_hash_offset" / Int64ul,
        "next_field_offset" / Int64ul,
        "entry_offset" / Int64ul,  # first entry that has it
        "entry_array_offset" / Int64ul,
        "n_entries" / Int64ul,
    ),
)
ENTRY = Layout(
    "journal entry object",
    Struct(
        "object" / Bytes(16),
        "seqnum" / Int64ul,
        "realtime" / Int64ul,  # us since 1970
        "monotonic" / Int64ul,  # us since the boot
        "boot_id" / Bytes(16),
        "xor_hash" / Int64ul,
    ),
)
TYPE_DATA, TYPE_ENTRY = 1, 3
COMPACT = 1 << 4  # of `incompatible_flags`: items of 4 bytes
XZ, LZ4, ZSTD = 1, 2, 4  # of `flags`
ALIGNMENT = 8
MOST_OBJECT = 64 << 20  # bytes of an object, and of its uncompressed payload
MOST_FIELDS = 1024  # of an entry; journald writes no more
_WORD = np.dtype("<u8")
_EARLIEST, _LATEST = 946_684_800_000_000, 4_102_444_800_000_000  # 2000 to 2100
UNKNOWN_BASE = -(1 << 62)
_MOST_ENTRY = 1 << 16
_COMPACT_EXTRA = 8  # bytes before the payload of a data object in a compact file


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry.

    Attributes:
        offset: bytes, in the data that was read.
        size: bytes of the object.
        time: ns since 1970.
        identity: bytes that all copies of the entry have: number, times, boot, hash.
    """

    offset: int
    size: int
    time: int
    identity: bytes


def is_compact(data: Buffer) -> bool | None:
    """Whether a file that begins so has items of 4 bytes; None if no header is there."""
    if bytes(data[:8]) != MAGIC or len(data) < HEADER.size:
        return None
    return bool(HEADER.first(data).incompatible_flags & COMPACT)


def have_objects(words: UInt64s) -> Bools:
    """True for rows (uint64 (n, words of a block)) with the start of an entry or of a file."""
    magic = np.frombuffer(MAGIC, _WORD)[0]
    found: Bools = words[:, 0] == magic
    row, place = np.nonzero(words[:, :-3] == TYPE_ENTRY)
    size, time = words[row, place + 1], words[row, place + 3]
    good = (size > ENTRY.size) & (size < _MOST_ENTRY) & (time > _EARLIEST) & (time < _LATEST)
    found[row[good]] = True
    return found


def find_entries(data: Buffer) -> list[JournalEntry]:
    """The entries in data whose first byte has the alignment of objects, by offset."""
    words = np.frombuffer(data, _WORD, memoryview(data).nbytes // 8)
    places = np.flatnonzero(words[:-3] == TYPE_ENTRY) if len(words) > 3 else np.zeros(0, np.int64)
    size, time = words[places + 1], words[places + 3]
    good = (size > ENTRY.size) & (size < _MOST_ENTRY) & (time > _EARLIEST) & (time < _LATEST)
    good &= size % 4 == 0
    rows = places[good] * 8, size[good], time[good]
    view = memoryview(data)
    return [
        JournalEntry(offset, length, moment * 1000, bytes(view[offset + 16 : offset + ENTRY.size]))
        for offset, length, moment in zip(*(each.tolist() for each in rows), strict=True)
        if offset + length <= view.nbytes
    ]


def bases_of(data: Buffer, entries: list[JournalEntry]) -> Int64s:
    """Per entry: what to subtract from a file offset for a place in the data; UNKNOWN_BASE.

    A data object names its first entry, which mostly follows it: the difference of the two is the
    base there. One that a single pair has counts for nothing.

    Args:
        data: pieces of files, in any order.
        entries: of it.
    """
    words = np.frombuffer(data, _WORD, memoryview(data).nbytes // 8)
    starts: Int64s = np.array([each.offset for each in entries], np.int64)
    found = np.full(len(starts), UNKNOWN_BASE)
    places = _data_places(words)
    after = np.searchsorted(starts, places * 8)
    places, after = places[after < len(starts)], after[after < len(starts)]
    if not len(places):
        return found
    first = words[places + DATA.offset_of("entry_offset") // 8].astype(np.int64)
    bases = first - starts[after]
    _, which, counts = np.unique(bases, return_inverse=True, return_counts=True)
    good = (counts[which] > 1) & (bases % 8 == 0)
    found[after[good]] = bases[good]
    known = np.flatnonzero(found != UNKNOWN_BASE)
    if len(known):  # an entry without a new field is in the piece of the one before
        found = found[
            known[np.maximum(np.searchsorted(known, np.arange(len(found)), "right") - 1, 0)]
        ]
    return found


def _data_places(words: UInt64s) -> Int64s:
    """Words at which a data object seems to start."""
    end = max(len(words) - DATA.size // 8, 0)
    kind = words[:end]
    found = np.flatnonzero(np.isin(kind, [TYPE_DATA | flag << 8 for flag in (0, XZ, LZ4, ZSTD)]))
    size = words[found + 1]
    return found[(size > DATA.size) & (size < MOST_OBJECT)]


def fields_of(
    data: Buffer,
    entry: JournalEntry,
    place_of: Callable[[int], int | None],
    compact: bool,
    unpack: Callable[[bytes, int], bytes] | None = None,
) -> Iterator[tuple[bytes, bytes] | str]:
    """(name, value) of each field of an entry, or why it cannot be read.

    Args:
        data: a file or a piece of it.
        entry: of `find_entries`.
        place_of: gives the place of a file offset in the data, None if it is not there.
        compact: whether items have 4 bytes.
        unpack: decompresses a payload; `decompressed` if not given.
    """
    view = memoryview(data)
    raw = view[entry.offset + ENTRY.size : entry.offset + entry.size]
    items = np.frombuffer(raw, "<u4" if compact else _WORD, len(raw) // (4 if compact else 8))
    for offset in (items if compact else items[::2])[:MOST_FIELDS].tolist():
        try:
            payload = _payload(view, place_of(offset), compact, unpack or decompressed)
        except (CorruptError, UnsupportedError) as error:
            yield str(error)
            continue
        name, equals, value = payload.partition(b"=")
        if equals:
            yield name, value


def _payload(
    view: memoryview, place: int | None, compact: bool, unpack: Callable[[bytes, int], bytes]
) -> bytes:
    """The payload of a data object.

    Raises:
        CorruptError: it is not there, or is damaged.
        UnsupportedError: its compression needs a library.
    """
    if place is None or place < 0 or place + DATA.size > view.nbytes:
        raise CorruptError(DATA.name, None, "lies in another place")
    header = OBJECT.first(view, place)
    start = DATA.size + _COMPACT_EXTRA * compact
    if header.type != TYPE_DATA or not start < header.size <= MOST_OBJECT:
        raise CorruptError(DATA.name, place, "is overwritten")
    payload = bytes(view[place + start : place + header.size])
    return unpack(payload, header.flags)


def decompressed(payload: bytes, flags: int) -> bytes:
    """The payload of a data object without its compression.

    Raises:
        CorruptError: it is damaged or too large.
        UnsupportedError: its compression needs a library.
    """
    try:
        if flags & XZ:
            return lzma.LZMADecompressor().decompress(payload, MOST_OBJECT)
        if flags & LZ4:
            return lz4_block(payload[8:], min(int.from_bytes(payload[:8], "little"), MOST_OBJECT))
        return _zstd(payload) if flags & ZSTD else payload
    except (lzma.LZMAError, ValueError, IndexError) as error:
        raise CorruptError(DATA.name, None, f"cannot be decompressed: {error}") from error


def _zstd(payload: bytes) -> bytes:
    try:
        import zstandard
    except ModuleNotFoundError as error:
        text = "a field needs the package zstandard: pip install 'ext4kit[zstd]'"
        raise UnsupportedError(text) from error
    try:
        if zstandard.frame_content_size(payload) > MOST_OBJECT:
            raise ValueError("too large")
        return zstandard.ZstdDecompressor().decompress(payload, max_output_size=MOST_OBJECT)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def lz4_block(data: bytes, size: int) -> bytes:
    """An LZ4 block without its compression; at most `size` bytes and one sequence.

    Source: lz4 doc/lz4_Block_format.md.

    Raises:
        ValueError, IndexError: it is damaged.
    """
    out, place = bytearray(), 0

    def length(start: int) -> int:
        nonlocal place
        while start >= 15 and data[place] == 255:
            start, place = start + 255, place + 1
        if start >= 15:
            start, place = start + data[place], place + 1
        return start

    while place < len(data) and len(out) < size:
        token, place = data[place], place + 1
        literals = length(token >> 4)
        out += data[place : place + literals]
        place += literals
        if place >= len(data):
            break
        back, place = int.from_bytes(data[place : place + 2], "little"), place + 2
        count = min(length(token & 15) + 4, size - len(out))
        if not 0 < back <= len(out):
            raise ValueError("a match lies before the start")
        piece = bytes(out[-back:])
        out += (piece * (count // back + 1))[:count]
    return bytes(out)
