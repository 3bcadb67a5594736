"""What the versions of a directory block show about the time of an entry."""

from __future__ import annotations

import numpy as np

from ext4kit.history.directory_blocks import SRC_DISK, TID_BEFORE_LOG, DirBlockVersions
from ext4kit.history.entry_intervals import _to_intervals, _VersionSpans


def test_a_freed_block_on_disk_makes_no_entry_older_than_the_first_copy_in_the_log() -> None:
    """The kernel wrote it to its place after the transactions in the log, or before them."""
    block, one = np.full(3, 1579), np.ones(2, np.int64)
    tids, sources = np.array([TID_BEFORE_LOG, 5, 8]), np.array([SRC_DISK, 0, 1])
    versions = DirBlockVersions(block, tids, np.zeros(3, np.int64), sources)
    first, last = np.zeros(2, np.int64), np.array([0, 2])
    spans = _VersionSpans(first, last, one * 24, one * 19, one, one, one, [b"only there", b"both"])
    found = _to_intervals(versions, spans)
    assert found.name == [b"only there", b"both"]
    assert found.first_seen.tolist() == [TID_BEFORE_LOG, 5]
    assert found.valid_from.tolist() == [TID_BEFORE_LOG, TID_BEFORE_LOG]
    assert found.last_seen.tolist() == [TID_BEFORE_LOG, 8]
    assert found.first_source.tolist() == [SRC_DISK, 0]
