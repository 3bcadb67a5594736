"""Where deleted files are searched: `ext4kit.search_sources`, which loads nothing else."""

from ext4kit.search_sources import ALL_SOURCES, JOURNAL_ONLY, WITH_INODES, SearchSource

__all__ = ["ALL_SOURCES", "JOURNAL_ONLY", "WITH_INODES", "SearchSource"]
