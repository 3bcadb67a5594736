"""Files that were overwritten with zeros, one byte or random bytes just before their deletion."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.content import Content
from ext4kit.filetypes.categories import identify_head
from ext4kit.recovery import DeletedFile, DeletedFiles
from ext4kit.recovery.losses import DISCARDED
from ext4kit.recovery.model import Grade
from ext4kit.units import NANOSECONDS

SAMPLES, SAMPLE = 16, 4096
RANDOM_BITS = 7.8  # least entropy of a byte in random samples, of 8
EVEN = 255 + 6 * 23  # chi-square of random bytes is 255, with a deviation of 23
LEAST = 512  # bytes; fewer do not tell what a content is filled with
SOON = 60 * NANOSECONDS  # from the last write to the deletion
RANDOM = "random bytes"
_NEIGHBOURS = 32  # files deleted before that are asked whether a TRIM cleared freed blocks


def overwritten_files(
    deleted: DeletedFiles, earlier: DeletedFiles | None = None
) -> Iterator[tuple[DeletedFile, str]]:
    """(file, what shows it) of each file that was overwritten over its length and then deleted.

    Either its states show that it was written in place, or an earlier version, which is left, had
    another content. Random bytes alone show nothing: a file of a known type, or one that was
    written only once, is none.

    Args:
        deleted: the deleted files.
        earlier: these with the earlier versions of files.
    """
    columns = deleted.columns
    possible = columns.is_regular & ~columns.superseded & ~columns.is_wiped & (columns.number > 0)
    possible &= columns.size >= LEAST
    in_place = np.intersect1d(np.flatnonzero(possible), columns.rewritten())
    for file in deleted.at(in_place):
        what = _filling_at_end(file)
        if what and (what == RANDOM or _keeps_freed_blocks(deleted, file)):
            yield file, f"written again in place over its {file.size:,} bytes, which are {what}"
    versions = _versions(earlier, columns.number[possible])
    replaced = np.flatnonzero(possible & np.isin(columns.number, list(versions)))
    for file in deleted.at(np.setdiff1d(replaced, in_place)):
        what = _filling_at_end(file)
        if what and any(_was_other(one, file) for one in versions[file.number or 0]):
            yield (
                file,
                f"written anew with {file.size:,} bytes, which are {what}; an earlier "
                "version, which had other bytes, is left",
            )


def _versions(earlier: DeletedFiles | None, numbers: Int64s) -> dict[int, list[DeletedFile]]:
    """Inode number -> earlier versions of deleted files."""
    found: dict[int, list[DeletedFile]] = {}
    if earlier is not None:
        columns = earlier.columns
        wanted = columns.superseded & np.isin(columns.number, numbers) & columns.is_regular
        for file in earlier.at(np.flatnonzero(wanted)):
            found.setdefault(file.number or 0, []).append(file)
    return found


def _was_other(version: DeletedFile, file: DeletedFile) -> bool:
    """Whether a version of a file, not longer than it is now, has a content that is no filling."""
    if version.generation != file.generation or not _is_whole(version):
        return False
    size = version.size or 0
    return LEAST <= size <= (file.size or 0) and filling_of(version.content()) == ""


def _is_whole(file: DeletedFile) -> bool:
    """Whether all blocks are there, and hold its whole length."""
    return file.grade in (Grade.INTACT, Grade.CONSISTENT) and file.blocks > 0


def _is_all_zeros(file: DeletedFile) -> bool:
    """Whether no other file has its blocks, and all of them are zeros."""
    owners = {lost.owner for lost in file.lost}
    length = sum(lost.length for lost in file.lost)
    return (
        file.blocks > 0
        and not file.blocks_reused
        and owners == {DISCARDED}
        and (length == file.size)
    )


def _filling_at_end(file: DeletedFile) -> str:
    """What a file that was written shortly before its deletion is filled with; "" for none."""
    ended, written = file.deletion_time, file.mtime
    if ended is None or written is None or not -SOON <= ended - written <= SOON:
        return ""
    content = file.content()
    if not (_is_whole(file) or _is_all_zeros(file)) or content is None or content.size != file.size:
        return ""
    what = filling_of(content) or ""
    return "" if what == RANDOM and not _is_nameless(content) else what


def _is_nameless(content: Content) -> bool:
    """Whether the bytes are spread evenly, and begin as no known type of file does."""
    try:
        data = content.read(0, min(content.size, SAMPLES * SAMPLE))
    except (AccessError, CorruptError):
        return False
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = len(data) / 256
    is_even = bool(((counts - expected) ** 2 / expected).sum() <= EVEN)
    return is_even and not _has_type(data)


def _has_type(data: bytes) -> bool:
    return identify_head(data).mime != "application/octet-stream"


def _keeps_freed_blocks(deleted: DeletedFiles, file: DeletedFile) -> bool:
    """Whether a file that was deleted before has content: a TRIM would have cleared it too."""
    others = (one for one in deleted if one.kind == "file" and not one.superseded)
    asked = 0
    for one in others:
        is_before = (one.deletion_time or 1 << 62) <= (file.deletion_time or 0)
        if one.number == file.number or not is_before or not _is_whole(one):
            continue
        asked += 1
        if filling_of(one.content()) == "":
            return True
        if asked == _NEIGHBOURS:
            break
    return False


def filling_of(content: Content | None) -> str | None:
    """What a content is filled with: "zeros", "equal bytes", "random bytes"; "" for other bytes.

    None if it cannot be read.
    """
    if content is None or not content.size:
        return None
    try:
        last = max(content.size - SAMPLE, 0)
        samples = [
            bytes(content.read(at, min(SAMPLE, content.size)))
            for at in np.unique(np.linspace(0, last, SAMPLES, dtype=np.int64)).tolist()
        ]
    except (AccessError, CorruptError):
        return None
    data = np.frombuffer(b"".join(samples), np.uint8)
    counts = np.bincount(data, minlength=256)
    if counts.max() == len(data):
        return "equal bytes" if data[0] else "zeros"
    shares = counts[counts > 0] / len(data)
    bits = -(shares * np.log2(shares)).sum() + 255 / (2 * np.log(2) * len(data))  # Miller-Madow
    return RANDOM if bits >= RANDOM_BITS else ""
