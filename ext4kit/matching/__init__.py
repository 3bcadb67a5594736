"""Matches freed inodes without a block map with carved contents, from tables and bytes."""
