"""Tables, lookups, groups and intervals over NumPy arrays; without I/O and without ext4."""
