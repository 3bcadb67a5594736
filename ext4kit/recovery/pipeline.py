"""The steps that find deleted files, in order."""

from __future__ import annotations

from collections.abc import Set
from functools import cache

from ext4kit.arrays.types import Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.history import History, read_history
from ext4kit.history.inode_states import NO_NUMBERS
from ext4kit.journal import SharedLog
from ext4kit.memory import release_freed_memory
from ext4kit.problems import Severity
from ext4kit.recovery.artifacts import derive_artifacts, scan_unallocated
from ext4kit.recovery.attribution import attribute_blocks
from ext4kit.recovery.candidates import select_candidates
from ext4kit.recovery.carved_contents import find_carved_contents
from ext4kit.recovery.deleted_files import DeletedFiles
from ext4kit.recovery.discarded import report_discarded
from ext4kit.recovery.fragments import mark_fragments
from ext4kit.recovery.grading.grade import grade_candidates
from ext4kit.recovery.joining import match_contents
from ext4kit.recovery.listed_files import find_listed
from ext4kit.recovery.losses import find_losses
from ext4kit.recovery.names import name_candidates
from ext4kit.recovery.records import build_records
from ext4kit.recovery.removed_names import find_removed_names
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.recovery.xattrs import XattrReader
from ext4kit.units import Progress


def find_deleted(
    fs: FileSystem | SharedLog,
    versions: bool = False,
    sources: Set[SearchSource] = ALL_SOURCES,
    progress: Progress | None = None,
    watched: Int64s = NO_NUMBERS,
    as_of: int | None = None,
) -> DeletedFiles:
    """Find all deleted files of which the evidence has a record, with their grades.

    Args:
        fs: the file system, opened with its journal replayed, or an object that shares its log.
        versions: include earlier versions of files.
        sources: where to search; all but JOURNAL read the whole unallocated space.
        progress: called with (done, total): bytes of unallocated space read, then rounds of
            matching carved contents to inodes.
        watched: inode numbers of which each recorded state is an earlier version.
        as_of: without `versions`: the state of each inode as of this tid is an earlier version.
    """
    shared = SharedLog.of(fs)
    keeps_rewritten, fs = versions or as_of is not None, shared.fs
    history = read_history(shared, keeps_rewritten=keeps_rewritten, watched=watched)
    _end_stage(history)
    scan = scan_unallocated(history, sources, progress, shared.kept_scan)
    artifacts = derive_artifacts(history, scan, sources)
    history = artifacts.history  # with the states that were found
    _end_stage(history)
    candidates = select_candidates(history, versions, artifacts.maps, as_of)
    names = name_candidates(history, candidates, artifacts.entries)
    xattrs = XattrReader(history, artifacts.metadata)
    xattrs.report_ownerless()
    _end_stage(history)
    blocks = attribute_blocks(candidates, artifacts)
    losses = find_losses(blocks, artifacts.block_features)
    _end_stage(history)
    grading = grade_candidates(blocks, losses, artifacts.maps, names.wiped)
    _end_stage(history)
    contents = mark_fragments(find_carved_contents(artifacts, blocks), blocks, artifacts.space)
    _end_stage(history)
    listed = find_listed(fs, contents)
    _end_stage(history)
    matches = match_contents(blocks, contents, names.names, listed, progress)
    files = build_records(names, blocks, losses, grading, contents, listed, matches, xattrs)
    report_discarded(history.fs, losses.discarded)
    _end_stage(history)
    if history.live_copy:
        what = f"{history.live_copy}: the image was probably copied while it was mounted and"
        what += " written; content may be of a later moment than the journal"
        history.fs.problems.add("image", what, Severity.WARNING)
    return DeletedFiles(fs, files, cache(lambda: find_removed_names(names, candidates)))


def _end_stage(history: History) -> None:
    """Free columns that the next stage derives again, and return the memory to the system."""
    history.states.table.forget_columns()
    release_freed_memory()
