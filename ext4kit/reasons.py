"""Reasons: coded statements that say why a file is not graded intact or is incomplete.

Each reason is defined here once, with a stable code and one sentence. A code is never renamed or
reused for another reason, but the wording of the sentence may change. `{name}` in a sentence is a
placeholder for a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ext4kit.fields import CodedReason


class Reason(NamedTuple):
    """A statement about one file.

    Attributes:
        code: stable code, `[a-z-]+`.
        text: one sentence, which may contain placeholders.
    """

    code: str
    text: str

    def filled(self, **values: object) -> Reason:
        """The reason with its placeholders replaced by values.

        Raises:
            KeyError: the value of a placeholder is missing.
        """
        return Reason(self.code, self.text.format(**values))


def texts(reasons: Iterable[Reason]) -> list[str]:
    """The sentences for the field `problems` of a record."""
    return [reason.text for reason in reasons]


def coded(reasons: Iterable[Reason]) -> list[CodedReason]:
    """Codes and sentences for the field `reasons` of a record."""
    return [{"code": reason.code, "text": reason.text} for reason in reasons]


# -- the inode and the block map --------------------------------------------------------------

SIZE_UNKNOWN = Reason(
    "size-unknown",
    "The file size is not recorded; the recovered content ends at the last byte that is not zero.",
)
UNTAGGED_INODE_COPY = Reason(
    "untagged-inode-copy",
    "The inode was read from a copy to which neither a journal descriptor nor the inode table"
    " refers.",
)
MAP_UNREADABLE = Reason("map-unreadable", "Part of the block map could not be read.")
MAP_INCOMPLETE = Reason(
    "map-incomplete", "The block map holds fewer blocks than `i_blocks` counts."
)
BEYOND_EVIDENCE = Reason("beyond-evidence", "Part of the file lies beyond the end of the evidence.")
UNREADABLE_MEDIA = Reason(
    "unreadable-media",
    "Part of the file lies in bytes that are missing from or unreadable in the image.",
)
BITMAP_UNREADABLE = Reason(
    "bitmap-unreadable",
    "A block bitmap is unreadable, so the present use of some blocks is unknown.",
)
INODE_CHECKSUM = Reason("inode-checksum", "The inode checksum does not match.")
UNCOMMITTED_STATE = Reason(
    "uncommitted-state", "The inode was read from a transaction without a valid commit block."
)
KEPT_BY_LATER_VERSION = Reason(
    "kept-by-later-version",
    "A later version of the same file kept some of these blocks; their bytes may be newer.",
)
NO_BLOCK_MAP = Reason("no-block-map", "No source gives the blocks of the file.")
EXTENT_COUNT = Reason(
    "extent-count", "The inode shows that the file had {n} extents and more than {size} bytes."
)
INLINE_DATA_INCOMPLETE = Reason("inline-data-incomplete", "Part of the inline data is missing.")
MAP_BLOCK_REUSED = Reason(
    "map-block-reused", "A block of the map was reused and has no checksum to verify it."
)
REBUILT_MAP_INCOMPLETE = Reason(
    "rebuilt-map-incomplete", "Part of the rebuilt block map may be missing."
)
REBUILT_MAP_OLDER = Reason(
    "rebuilt-map-older", "The rebuilt block map belongs to an earlier state of the file."
)
REBUILT_MAP_ORDER = Reason(
    "rebuilt-map-order", "The order of the runs in the rebuilt block map is uncertain."
)
REBUILT_MAP_UNTAGGED = Reason(
    "rebuilt-map-untagged", "The block map was rebuilt from untagged journal blocks."
)

# -- writes before the deletion ---------------------------------------------------------------

UNWRITTEN_TAIL = Reason(
    "unwritten-tail",
    "The last bytes are zeros and the file was deleted before writeback was certain; they may never"
    " have been written.",
)
JOURNAL_COPY_OUTDATED = Reason(
    "journal-copy-outdated",
    "The last write bypassed the journal; the journal copies are older.",
)
JOURNAL_DISK_CONFLICT = Reason(
    "journal-disk-conflict",
    "The journal copy and the disk block differ, and the evidence does not show which one is"
    " newer.",
)
JOURNAL_DATA_INCOMPLETE = Reason(
    "journal-data-incomplete",
    "The journal holds only part of the journaled data; the rest may not have been written to"
    " disk.",
)
UNMOUNT_DISK_CONFLICT = Reason(
    "unmount-disk-conflict",
    "The disk blocks differ from the journal copies, although an unmount before the deletion wrote"
    " the copies to the disk.",
)
JOURNAL_UNREADABLE = Reason(
    "journal-unreadable",
    "The journal holds data of the file, and unreadable blocks that may hold newer data.",
)
IN_PLACE_WRITE_NOT_FLUSHED = Reason(
    "in-place-write-not-flushed",
    "The file was overwritten in place shortly before its deletion; the disk may hold its older"
    " bytes.",
)
EARLY_REWRITE_NOT_FLUSHED = Reason(
    "early-rewrite-not-flushed",
    "The file was rewritten before its first recorded state and deleted shortly afterwards; the"
    " bytes may be older.",
)
DATA_NEVER_FLUSHED = Reason(
    "data-never-flushed",
    "The file was deleted before the evidence shows any of its data written to disk.",
)
WRITE_WITHOUT_DATA = Reason(
    "write-without-data",
    "The file is empty, but its times record a write or were set; data that the kernel could not"
    " write to the disk leaves the same record.",
)
EMPTY_ON_BIGALLOC = Reason(
    "empty-on-bigalloc",
    "The file is empty; on a full file system with bigalloc the kernel can lose the data of a file,"
    " and a write in the tick of the clock in which the file was created leaves no record.",
)
INLINE_DATA_MOVED = Reason(
    "inline-data-moved",
    "The file was rewritten just before its deletion; data outside the inode may be missing.",
)
CHANGED_AFTER_LAST_STATE = Reason(
    "changed-after-last-state", "The file changed after its last recorded state."
)
WRITEBACK_IN_PROGRESS = Reason(
    "writeback-in-progress",
    "The recorded size may be the progress of writeback, not the final size.",
)
NO_JOURNAL = Reason("no-journal", "No journal records what was written later.")
EARLIER_VERSION = Reason(
    "earlier-version",
    "This is an earlier version; a change before its blocks were dropped leaves no record.",
)
DELETION_NOT_RECORDED = Reason(
    "deletion-not-recorded",
    "The journal does not record the deletion; the file may have changed just before it.",
)
CHANGES_NOT_COUNTED = Reason(
    "changes-not-counted",
    "The kernel did not count changes; the file may have changed just before its deletion.",
)
SECOND_CHANGE_POSSIBLE = Reason(
    "second-change-possible",
    "The file was deleted or changed again within a minute of this change; a second change in the"
    " same tick of the clock leaves no record.",
)
RECENT_CHANGE = Reason(
    "recent-change",
    "The file was deleted or changed again within a minute of this change; its data may not be on"
    " disk.",
)

CONTENT_WIPED = Reason(
    "content-wiped",
    "A wiping program overwrote or emptied the file before it was deleted; the bytes are probably"
    " what the program left, not the content before.",
)
MAYBE_WIPED = Reason(
    "maybe-wiped",
    "The file grew to the end of its last block shortly before it was deleted, as it does when a"
    " wiping program overwrites it; the bytes may be what such a program left.",
)

# -- later use of the blocks ------------------------------------------------------------------

FOREIGN_DATA_IN_SLACK = Reason(
    "foreign-data-in-slack",
    "The slack of the last block is not zero; other data was probably written to that block.",
)
LATER_FAST_COMMIT = Reason(
    "later-fast-commit",
    "A later fast commit may have changed the blocks without leaving a record in the journal.",
)
JOURNAL_RESTARTED = Reason(
    "journal-restarted",
    "The journal restarted its transaction ids; the order of later transactions is uncertain.",
)
JOURNAL_GAP_BEFORE_DELETION = Reason(
    "journal-gap-before-deletion",
    "Transactions before the deletion are missing from the journal; the file may have changed in"
    " them.",
)
JOURNAL_GAP_AFTER = Reason(
    "journal-gap-after",
    "Later transactions are missing from the journal; other files may have used the blocks in"
    " them.",
)
JOURNAL_GAP_AFTER_COPIES = Reason(
    "journal-gap-after-copies",
    "Transactions after the journal copies of the data are missing from the journal; the copies may"
    " be older than the last write.",
)
UNCLEAN_SHUTDOWN = Reason(
    "unclean-shutdown",
    "An unclean shutdown followed, or is not excluded; uncommitted writes of other files may be in"
    " the blocks.",
)
UNLOGGED_REUSE = Reason(
    "unlogged-reuse",
    "Files were written in the same block groups later; a file that was created and deleted within"
    " one transaction leaves no record of its blocks.",
)
BLOCKS_DISCARDED = Reason(
    "blocks-discarded",
    "{n} blocks read as zeros; they were probably discarded (TRIM) or never written.",
)
ZEROS_POSSIBLY_DISCARDED = Reason(
    "zeros-possibly-discarded",
    "Zeros in the file fill whole units of 64 KiB of the disk; they may be its content or discarded"
    " blocks (TRIM).",
)
CONTENT_FROM_JOURNAL = Reason(
    "content-from-journal",
    "{n} blocks were overwritten on disk; their content was read from the journal.",
)
CONTENT_FROM_UNTAGGED_COPIES = Reason(
    "content-from-untagged-copies",
    "{n} blocks were overwritten on disk; their content was read from untagged journal blocks,"
    " identified by size and order.",
)

# -- the content ------------------------------------------------------------------------------

ENCRYPTED = Reason("encrypted", "The content is encrypted.")
CARVED_BOUNDARIES = Reason("carved-boundaries", "The start and end of the content are estimates.")
CARVED_FRAGMENT = Reason("carved-fragment", "The content is probably a fragment of a file.")
XATTR_LIMIT = Reason(
    "xattr-limit",
    "Extended attributes are incomplete: they exceed the size of the evidence.",
)
XATTR_BLOCK_REUSED = Reason(
    "xattr-block-reused",
    "Extended attributes are incomplete: attribute block {block} was reused.",
)
XATTRS_INCOMPLETE = Reason("xattrs-incomplete", "Extended attributes are incomplete: {why}.")
READ_ERROR = Reason("read-error", "{length} bytes at offset {offset} could not be read: {why}.")
CONTENT_UNREADABLE = Reason("content-unreadable", "The content could not be read: {why}.")
OVERLAY_CONTENT_MISSING = Reason(
    "overlay-content-missing",
    "The content is in a lower layer of overlayfs, in which there is no such file.",
)
INODE_FREE = Reason(
    "inode-free",
    "The inode is free: `recover --inode {number}` recovers what is left of its last file, and"
    " --as-of reads an earlier state.",
)
LINK_TARGET_UNREADABLE = Reason(
    "link-target-unreadable", "The link target could not be read: {why}."
)
WRITE_INTERRUPTED = Reason("write-interrupted", "Writing did not finish: {why}.")
OUTPUT_LIMIT = Reason("output-limit", "Not written: the output limit of {limit} bytes was reached.")
NAME_REFUSED = Reason(
    "name-refused",
    "A name in its path was refused by the output file system ({why}); the file is stored as"
    " {path}.",
)
WRITE_FAILED = Reason("write-failed", "Not written: {path}: {why}.")

# -- a lost file system -----------------------------------------------------------------------

LOST_INODE_UNVERIFIED = Reason("lost-inode-unverified", "No checksum verifies the inode.")
LOST_INODE_WEAK_CHECKSUM = Reason(
    "lost-inode-weak-checksum", "The inode is verified by a 16-bit checksum only."
)
LOST_INODE_FROM_JOURNAL = Reason(
    "lost-inode-from-journal", "The inode was read from a journal copy."
)
LOST_BLOCKS_RESERVED = Reason(
    "lost-blocks-reserved",
    "The file system created later has reserved some of the blocks but has not written them.",
)
LOST_JOURNAL_NOT_REPLAYED = Reason(
    "lost-journal-not-replayed",
    "The lost file system was not unmounted cleanly, and its journal was not replayed.",
)
LOST_JOURNAL_MISSING = Reason(
    "lost-journal-missing",
    "The journal of the lost file system is missing; changes may not have reached the disk.",
)
LOST_LATER_FS_USED = Reason(
    "lost-later-fs-used",
    "The file system created later was mounted; files it has deleted since may have used the"
    " blocks.",
)
LOST_DELETED_EARLIER = Reason(
    "lost-deleted-earlier",
    "The file was deleted before the file system was lost; later use of its blocks cannot be"
    " excluded.",
)
SHARED_BLOCKS = Reason("shared-blocks", "Another inode also maps some of these blocks.")

# -- the state after a transaction ------------------------------------------------------------

LIVE_INODE_CHECKSUM = Reason(
    "live-inode-checksum",
    "The inode has a wrong checksum; the kernel refuses the file (EBADMSG).",
)
LIVE_MAP_DAMAGED = Reason(
    "live-map-damaged",
    "A part of the block map is damaged or out of order; the kernel refuses it (EUCLEAN).",
)
LIVE_MAP_CHECKSUM = Reason(
    "live-map-checksum",
    "A block of the block map has a wrong checksum; the kernel refuses it (EBADMSG).",
)
AS_OF_INODE_CHANGED = Reason(
    "as-of-inode-changed",
    "The content is uncertain: the inode changed after transaction {tid}, and the journal holds no"
    " file data.",
)
AS_OF_MAP_CHANGED = Reason(
    "as-of-map-changed",
    "The content is uncertain: the block map changed after transaction {tid}, and the journal holds"
    " no file data.",
)
AS_OF_RECENT_CHANGE = Reason(
    "as-of-recent-change",
    "The content is uncertain: the file changed just before transaction {tid} committed, and a"
    " write at that time leaves no record.",
)
AS_OF_MAP_UNKNOWN = Reason(
    "as-of-map-unknown", "Part of the block map is not known as of transaction {tid}."
)
AS_OF_BYTES_LOST = Reason(
    "as-of-bytes-lost",
    "{n} of {total} blocks of the file as of transaction {tid} were reused or are lost; zeros are "
    "written for them.",
)
AS_OF_OVERWRITTEN = Reason(
    "as-of-overwritten",
    "Not written: no block is left that can be attributed to the file as of transaction {tid}.",
)
AS_OF_UNCLEAN = Reason(
    "as-of-unclean",
    "The file system was not unmounted cleanly after transaction {tid}: a write into these blocks"
    " may have reached the disk without its record.",
)
AS_OF_INODE_UNKNOWN = Reason(
    "as-of-inode-unknown", "The inode table block is not known as of transaction {tid}."
)

CATALOGUE = tuple(one for one in list(globals().values()) if isinstance(one, Reason))
