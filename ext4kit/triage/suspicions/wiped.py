"""Files that a wiping program overwrote, and files that filled the free space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.recovery import DeletedFile, DeletedFiles
from ext4kit.triage.suspicions.filled import filling_of, overwritten_files
from ext4kit.triage.suspicions.sighting import Sighting, deleted_sighting
from ext4kit.units import NANOSECONDS

# codes of the rules
WIPED, MAYBE_WIPED, DISK_FILLED = "wiped", "maybe-wiped", "disk-filled"
OVERWRITTEN = "overwritten-deleted"
FILLED_SHARE = 0.9  # of the free blocks that all users may use; what a file that fills them has
LEAST_FILLED = 1 << 20  # bytes
FILLED_WITHIN = 24 * 3600 * NANOSECONDS  # from its creation to its deletion


def wiped_files(
    fs: FileSystem, deleted: DeletedFiles, earlier: DeletedFiles | None = None
) -> Iterator[tuple[str, Sighting]]:
    """(code of the rule, sighting) of each file that was wiped, or that filled the free space.

    Args:
        fs: the file system.
        deleted: its deleted files.
        earlier: these with the earlier versions of its files; None if they are not known.
    """
    for file, note in overwritten_files(deleted, earlier):
        yield OVERWRITTEN, deleted_sighting(file.path, file, f"{note}, uid {file.uid}")
    superblock = fs.superblock
    free = int(fs.groups.free_blocks_count.sum()) * superblock.cluster_ratio
    usable = max(free - superblock.reserved_blocks_count, 0) * superblock.block_size
    least = max(int(usable * FILLED_SHARE), LEAST_FILLED)
    columns = deleted.columns
    may_be = columns.is_regular & ~columns.superseded & (columns.number > 0)
    may_be &= columns.is_wiped | (columns.size >= least)
    for file in deleted.at(np.flatnonzero(may_be)):
        if file.wiping is not None:
            yield _wiped(file)
        elif (
            (file.size or 0) >= least and _was_short(file) and (what := filling_of(file.content()))
        ):
            yield DISK_FILLED, deleted_sighting(file.path, file, f"{what}, uid {file.uid}")


def _wiped(file: DeletedFile) -> tuple[str, Sighting]:
    wiping = file.wiping
    assert wiping is not None
    count = len(wiping.names)
    renamed = f", renamed {count} time{'s' * (count != 1)}" if count else ""
    unknown = "; the name before is unknown" if count and wiping.true_name is None else ""
    size = "" if wiping.size is None else f", {wiping.size:,} bytes before"
    note = f"as by {wiping.tools}{renamed}{size}, uid {file.uid}{unknown}"
    seen = replace(deleted_sighting(file.path, file, note), size=wiping.size)
    return (WIPED if wiping.is_certain else MAYBE_WIPED), seen


def _was_short(file: DeletedFile) -> bool:
    """Whether a file was deleted within a day after its creation, as far as that is known."""
    made, ended = None if file.inode is None else file.inode.crtime, file.deletion_time
    return made is None or ended is None or ended - made <= FILLED_WITHIN
