"""Matches of freed inodes without a map and contents without an inode, from tables and bytes."""
