"""The file system: facts from its superblock, its check, its journal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.history.journal_gaps import find_journal_gaps
from ext4kit.journal import Log, ReplayedBlocks
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.problems import Severity
from ext4kit.timeline.commits import FIRST_TID
from ext4kit.triage.facts import CheckResult, FileSystemFacts, JournalFacts, JournalState
from ext4kit.units import NANOSECONDS
from ext4kit.verify import CODES, verify

_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def file_system_facts(fs: FileSystem) -> FileSystemFacts:
    """Facts from the superblock, after the replay of the journal."""
    superblock = fs.superblock
    return FileSystemFacts(
        kind=superblock.kind,
        label=superblock.volume_name,
        uuid=superblock.uuid_text,
        last_mounted=superblock.last_mounted,
        block_size=superblock.block_size,
        blocks=superblock.blocks_count,
        free_blocks=int(fs.groups.free_blocks_count.sum()) * superblock.cluster_ratio,
        inodes=superblock.inodes_count,
        free_inodes=int(fs.groups.free_inodes_count.sum()),
        features=tuple(superblock.features.readings),
        made=_seconds_to_ns(superblock.mkfs_time),
        mounted=_seconds_to_ns(superblock.mount_time),
        written=_seconds_to_ns(superblock.write_time),
        mounts=superblock.mount_count,
        is_backup=superblock.group_number != 0,
        checksum_ok=superblock.checksum_ok,
        errors=superblock.error_count,
    )


def _seconds_to_ns(seconds: int) -> int | None:
    return seconds * NANOSECONDS if seconds else None


def check_result(fs: FileSystem) -> CheckResult:
    """Result of a check of all checksums and cross-references."""
    result = verify(fs)
    found = [
        (code, CODES[code].severity, count, CODES[code].meaning)
        for code, count in result.findings.counts.items()
    ]
    found.sort(key=lambda row: (_WEIGHT[row[1]], -row[2], row[0]))
    wrong = result.findings.wrong
    return CheckResult(tuple(found), wrong, result.inodes, result.directories, result.blocks)


def journal_facts(fs: FileSystem, log: Log | None) -> JournalFacts:
    """Content and period of the journal."""
    if log is None:
        return JournalFacts(JournalState.NONE)
    known = log.transactions
    rows = np.flatnonzero(known.committed)
    times = known.commit_time_ns[rows]
    times = times[times >= 0]
    breaks = find_journal_gaps(log)
    return JournalFacts(
        standing=_journal_state(fs, log),
        size=log.length * log.superblock.block_size,
        transactions=len(rows),
        first=_tid_of(known.order, rows[:1]),
        last=_tid_of(known.order, rows[-1:]),
        since=int(times.min()) if len(times) else None,
        until=int(times.max()) if len(times) else None,
        to_replay=int(known.to_replay.sum()),
        fast_commits=len(scan_fast_commits(log).to_replay) if log.has_fast_commits else 0,
        unmounts=int(breaks.unmounted.sum()),
        power_cuts=int((~breaks.unmounted & ~breaks.transactions_lost).sum()),
        gaps=int(breaks.transactions_lost.sum()),
        is_whole=bool(len(rows) and known.order[rows[0]] <= FIRST_TID),
        backwards=int((np.diff(times) < -NANOSECONDS).sum()),
    )


def _journal_state(fs: FileSystem, log: Log) -> JournalState:
    if log.superblock.start == 0:
        return JournalState.CLEAN
    asked = isinstance(fs.blocks, ReplayedBlocks) or log.needs_recovery
    return JournalState.TO_REPLAY if asked else JournalState.LEFT


def _tid_of(orders: Any, rows: Any) -> int | None:
    return int(orders[rows[0]]) % (1 << 32) if len(rows) else None
