"""Tables, lookups, groups and intervals over NumPy arrays; no I/O, nothing of ext4."""
