"""Sources beyond the described log: what blocks that no live file has still tell."""
