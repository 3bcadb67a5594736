"""The superblocks of file system and journal after a recovery, computed from those before it.

Source: kernel fs/ext4/super.c, `ext4_load_journal`, `ext4_clear_journal_err`; fs/jbd2/journal.c,
`jbd2_mark_journal_empty`; e2fsck/journal.c, `e2fsck_clear_recover`, `e2fsck_journal_release`.
"""

from __future__ import annotations

from ext4kit.parsers import journal, superblock
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.layout import Buffer

VALID, ERRORS = 0x1, 0x2  # s_state: cleanly unmounted; errors were found


def recovered_superblock(
    after: Buffer, before: Buffer, *, failed: bool = False, errors: bool = False
) -> bytes:
    """Bytes of the file system's superblock with needs_recovery cleared.

    Args:
        after: the 1,024 bytes after the replay, which may be a copy from the log.
        before: the 1,024 bytes on disk before the replay; their error fields are newer than those
            in the log's copy.
        failed: whether the recovery failed; the file system is then marked as not valid.
        errors: whether the journal recorded an error or ended in a damaged transaction.
    """
    layout, body = superblock.SUPERBLOCK, bytearray(bytes(after))
    start, end = layout.offset_of("s_error_count"), layout.offset_of("s_mount_opts")
    body[start:end] = bytes(before)[start:end]
    fields = layout.table(body, 1)  # a view: what is written to it changes the bytes
    fields["s_feature_incompat"] &= ~int(Incompat.NEEDS_RECOVERY) & 0xFFFFFFFF
    fields["s_state"] |= layout.table(before, 1)["s_state"] & ERRORS
    fields["s_state"] |= ERRORS if errors else 0
    fields["s_state"] &= ~VALID & 0xFFFF if failed else 0xFFFF
    if superblock.Superblock.parse(body).has_metadata_checksums:
        fields["s_checksum"] = crc32c(ONES, body[: layout.size - 4])
    return bytes(body)


def emptied_journal_superblock(data: Buffer, sequence: int | None) -> bytes:
    """Bytes of a journal superblock for an empty log.

    Args:
        data: the 1,024 bytes of the superblock.
        sequence: stored tid of the next transaction; None keeps the present value.
    """
    body = bytearray(bytes(data))
    fields = journal.SUPERBLOCK.table(body, 1)
    if sequence is not None:
        fields["s_sequence"] = sequence % (1 << 32)
    fields["s_start"] = fields["s_errno"] = 0
    found = journal.JournalSuperblock.parse(body)
    if found.features.has_block_checksums:
        fields["s_checksum"] = found.computed_checksum
    return bytes(body)
