"""The sources in which deleted files are searched."""

from enum import StrEnum


class SearchSource(StrEnum):
    """A source of deleted files."""

    JOURNAL = "journal"  # tagged copies in the log, the inode tables, the orphan list
    BLOCKS = "blocks"  # metadata in unallocated blocks and in untagged log blocks
    RUNS = "runs"  # content alone: unallocated blocks without an owner, carved


ALL_SOURCES = frozenset(SearchSource)
WITH_INODES = ALL_SOURCES - {SearchSource.RUNS}  # no content without an inode
JOURNAL_ONLY = frozenset({SearchSource.JOURNAL})  # fast, because the unallocated space is not read
