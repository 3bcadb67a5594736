"""Block maps of freed inodes, rebuilt from freed metadata."""
