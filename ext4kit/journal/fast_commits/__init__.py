"""Fast commits: reading them from the log's last blocks, checking and applying them in memory."""
