"""Tables, lookups, groups and intervals over NumPy arrays, independent of I/O and of ext4."""
