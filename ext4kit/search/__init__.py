"""Search of all bytes of a file system for texts, patterns and features, with whose they are.

The volume is read once, in disk order. What is found gets its files from the runs of each view:
live, deleted and earlier files, slack, unallocated blocks, metadata and the journal.
"""
