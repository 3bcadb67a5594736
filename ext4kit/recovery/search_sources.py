"""Sources in which deleted files are searched."""

from enum import StrEnum


class SearchSource(StrEnum):
    """A source of deleted files."""

    JOURNAL = "journal"  # the described log, the inode tables, the orphan list
    BLOCKS = "blocks"  # metadata in free blocks and in log blocks without a descriptor
    RUNS = "runs"  # content alone: what is free and claimed by nobody, cut into files


ALL_SOURCES = frozenset(SearchSource)
JOURNAL_ONLY = frozenset({SearchSource.JOURNAL})  # fast: the unallocated space is not read
