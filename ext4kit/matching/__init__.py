"""Matches of freed inodes without a map and contents without an inode: tables and bytes only."""
