"""Fast commits: read from the last blocks of the log, checked, and replayed in memory."""
