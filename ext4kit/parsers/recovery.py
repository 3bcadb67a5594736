"""The two superblocks after a recovery, computed from their bytes before it.

Source: kernel fs/ext4/super.c, `ext4_load_journal`, `ext4_clear_journal_err`; fs/jbd2/journal.c,
`jbd2_mark_journal_empty`; e2fsck/journal.c, `e2fsck_clear_recover`, `e2fsck_journal_release`.
"""

from __future__ import annotations

from typing import Literal

from ext4kit.parsers import journal, superblock
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.layout import Buffer, Layout

VALID, ERRORS = 0x1, 0x2  # s_state: cleanly unmounted; errors were found


def recovered_superblock(
    after: Buffer, before: Buffer, *, failed: bool = False, errors: bool = False
) -> bytes:
    """Bytes of the file system's superblock with needs_recovery cleared.

    Args:
        after: the 1,024 bytes after the replay, which may be a copy from the log.
        before: the 1,024 bytes on disk before; their error fields are newer than the log's copy.
        failed: the recovery did not finish; the file system is marked as not valid.
        errors: the journal recorded an error, or ended in a damaged transaction.
    """
    layout, body = superblock.SUPERBLOCK, bytearray(bytes(after))
    start, end = layout.offset_of("s_error_count"), layout.offset_of("s_mount_opts")
    body[start:end] = bytes(before)[start:end]
    incompat = _get(layout, body, "s_feature_incompat") & ~int(Incompat.NEEDS_RECOVERY)
    _put(layout, body, "s_feature_incompat", incompat)
    state = _get(layout, body, "s_state")
    state |= _get(layout, bytes(before), "s_state") & ERRORS
    state |= ERRORS if errors else 0
    _put(layout, body, "s_state", state & ~VALID if failed else state)
    if superblock.Superblock.parse(body).has_metadata_checksums:
        _put(layout, body, "s_checksum", crc32c(ONES, body[: layout.size - 4]))
    return bytes(body)


def emptied_journal_superblock(data: Buffer, sequence: int | None) -> bytes:
    """Bytes of a journal superblock for an empty log.

    Args:
        data: its 1,024 bytes.
        sequence: stored tid of the next transaction; None keeps the present value.
    """
    layout, body = journal.SUPERBLOCK, bytearray(bytes(data))
    if sequence is not None:
        _put(layout, body, "s_sequence", sequence % (1 << 32))
    _put(layout, body, "s_start", 0)
    _put(layout, body, "s_errno", 0)
    found = journal.JournalSuperblock.parse(body)
    if found.features.has_block_checksums:
        _put(layout, body, "s_checksum", found.computed_checksum)
    return bytes(body)


def _order(layout: Layout) -> Literal["big", "little"]:
    return "big" if layout is journal.SUPERBLOCK else "little"


def _span(layout: Layout, field: str) -> slice:
    start = layout.offset_of(field)
    return slice(start, start + layout.dtype[field].itemsize)


def _get(layout: Layout, body: bytes | bytearray, field: str) -> int:
    return int.from_bytes(body[_span(layout, field)], _order(layout))


def _put(layout: Layout, body: bytearray, field: str, value: int) -> None:
    place = _span(layout, field)
    body[place] = value.to_bytes(place.stop - place.start, _order(layout))
