"""One scan of unallocated blocks and of journal blocks that no descriptor block names."""
