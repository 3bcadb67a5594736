"""The content, the period and the gaps of the journal."""

from __future__ import annotations

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.history.journal_gaps import find_journal_gaps
from ext4kit.journal import Log, ReplayedBlocks
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.journal.shared_log import FIRST_TID
from ext4kit.triage.facts import JournalFacts, JournalState
from ext4kit.units import NANOSECONDS


def journal_facts(fs: FileSystem, log: Log | None) -> JournalFacts:
    """Collect the facts about the journal."""
    if log is None:
        return JournalFacts(JournalState.NONE)
    known = log.transactions
    rows = np.flatnonzero(known.committed)
    times = known.commit_time_ns[rows]
    times = times[times >= 0]
    tids, breaks = (known.order[rows] % (1 << 32)).tolist(), find_journal_gaps(log)
    standing = JournalState.CLEAN
    if log.superblock.start != 0:
        is_due = isinstance(fs.blocks, ReplayedBlocks) or log.needs_recovery
        standing = JournalState.TO_REPLAY if is_due else JournalState.LEFT
    return JournalFacts(
        standing=standing,
        size=log.length * log.superblock.block_size,
        transactions=len(rows),
        first=tids[0] if tids else None,
        last=tids[-1] if tids else None,
        since_ns=int(times.min()) if len(times) else None,
        until_ns=int(times.max()) if len(times) else None,
        to_replay=int(known.to_replay.sum()),
        fast_commits=len(scan_fast_commits(log).to_replay) if log.has_fast_commits else 0,
        unmounts=int(breaks.unmounted.sum()),
        power_cuts=int((~breaks.unmounted & ~breaks.transactions_lost).sum()),
        gaps=int(breaks.transactions_lost.sum()),
        is_whole=bool(len(rows) and known.order[rows[0]] <= FIRST_TID),
        backwards=int((np.diff(times) < -NANOSECONDS).sum()),
    )
